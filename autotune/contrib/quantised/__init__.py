"""Quantised models: weights that stay in blocks of whole numbers, schedules for products with them, and GGUF files."""
