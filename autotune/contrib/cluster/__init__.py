"""Sweeps on many machines: a team of slots behind a Dask scheduler, `lab join`, and what a cluster is made of."""
