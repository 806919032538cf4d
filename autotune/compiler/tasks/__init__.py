"""Tasks: the distinct tunable units of a payload, found in its structured ops, each a payload of its own."""
