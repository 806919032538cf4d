"""The MLIR dialect `gpt`: operations of transformers that payloads are written in, one class per operation."""
