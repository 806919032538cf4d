"""Winograd convolutions: fewer multiplications where an error is allowed."""
