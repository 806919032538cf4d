"""A user's transform script: read, checked, instantiated, applied and traced."""
