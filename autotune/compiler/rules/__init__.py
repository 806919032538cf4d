"""Rewrite rules: patterns in MLIR's own PDL, read from text and applied to a payload before its tasks are found."""
