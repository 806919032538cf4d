"""Loading of payloads that a user or a record names: files, imported models, folders, scripts, external code."""
