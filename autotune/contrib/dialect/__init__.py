"""Payload files in a dialect of content: read by MLIR with the dialect's IRDL loaded, and in a short form."""
