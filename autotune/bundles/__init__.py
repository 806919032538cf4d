"""What a winner is good for: replay, regress, reproduce, emit as an object file, call on arrays."""
