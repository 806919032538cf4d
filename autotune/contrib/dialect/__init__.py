"""Payload files in a registered dialect, parsed by MLIR with the dialect's IRDL, in generic or short form."""
