"""`autotune demo`: the first minute of a new user."""
