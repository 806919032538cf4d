"""Convolutions by dot products of int16, bf16 or i8: inputs and kernels are packed into words, rounded if allowed."""
