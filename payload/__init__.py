"""Payloads: GPT models and single kernels as linalg on tensors, each with a NumPy reference."""
