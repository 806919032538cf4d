"""Which config to try next, and of which task: samplers, the cost model, transfer from recorded spaces."""
