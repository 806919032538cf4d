"""Our own rewrites, one a file, each a value with a name and a version; what MLIR has is not written again."""
