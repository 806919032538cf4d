"""Convolutions by dot products of int16 or bf16: inputs and kernels rounded to words, where an error is allowed."""
