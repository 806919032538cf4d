"""Rewrite rules: patterns in MLIR's PDL, read from text and applied to a payload before it is partitioned into tasks.

`plugin` is the interface to the engine: a `Rewriter`, stage ``rewritten`` of `show`, and `list rules`.
"""
