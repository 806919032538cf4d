"""Text generation: `autotune generate`, tokens from a language model by its tuned prefill and decode."""
