"""Gathers: indices that are affine in the loops are folded, and gathers go before broadcasts."""
