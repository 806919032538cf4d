"""Utilities on MLIR: modules, function arguments, loop nests, values, views, and the limits of accepted programs."""
