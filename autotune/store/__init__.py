"""Persistent data: trials of sweeps, bundles with their manifests, history of regression checks."""
