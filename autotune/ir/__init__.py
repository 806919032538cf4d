"""The only room that imports `mlir`: parse, partition, apply, lower, compile, call."""
