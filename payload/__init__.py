"""What is computed: GPT models and single kernels as linalg-on-tensors modules, each with a NumPy oracle."""
