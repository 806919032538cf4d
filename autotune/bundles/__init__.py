"""Uses of a winner: replay, regress, reproduce, emit as an object file, call on arrays."""
