"""Quantised models: block-quantized integer weights, schedules for products with them, and GGUF import."""
