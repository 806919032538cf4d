"""Normalization of imported modules to the form that partitioning and schedules expect; one rewrite per file.

`adopt` turns a file into a payload; the oracle is computed from its result. `simplify` is the first step of
`partition`; the oracle is computed from the text before it.
"""
