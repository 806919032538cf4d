"""Rewrites of gathers: fold affine indices into indexing maps, and move gathers before broadcasts."""
