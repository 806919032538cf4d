"""What a user or a record names, as a payload: files, imports, folders, rule files, external code."""
