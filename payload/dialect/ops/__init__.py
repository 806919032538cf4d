"""The ops of the dialect, a file a kind; each has the interface of `payload.dialect.op.Op`."""
