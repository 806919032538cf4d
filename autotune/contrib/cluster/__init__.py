"""Sweeps on many machines: a team of slots behind a Dask scheduler, `lab join`, and diagnosis of a cluster."""
