"""Convolutions by Winograd's transform: fewer multiplications where an error is allowed."""
