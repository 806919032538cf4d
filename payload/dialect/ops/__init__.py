"""Ops of the dialect, grouped by file; each implements `payload.dialect.op.DialectOp`."""
