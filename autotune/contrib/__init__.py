"""Features, a package each, which plug in through entry points as anybody's may; each can be deleted."""
