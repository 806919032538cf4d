"""What is read off MLIR: modules, arguments, loop nests, values, and what a text may hold."""
