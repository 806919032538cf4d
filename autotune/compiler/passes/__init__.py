"""Built-in rewrites, one per file, each with a name and a version; upstream passes are reused where they exist."""
