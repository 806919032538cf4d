"""Rewrite rules: patterns in MLIR's own PDL, read from text and applied to a payload before its tasks are found.

`plugin` is what the engine knows of it: a `Rewriter`, stage ``rewritten`` of `show`, and `list rules`.
"""
