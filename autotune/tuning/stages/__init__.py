"""The stages of a tuning run: open, search, choose, assemble, prove, record."""
