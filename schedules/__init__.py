"""How payloads are transformed: one file per schedule family, and the pass pipelines they are measured against."""
