"""What can be known of a program before it is tuned: facts of its ops, and arithmetic on them."""
