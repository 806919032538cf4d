"""What is kept on disk: trials of sweeps, bundles with their manifests, the history of regression checks."""
