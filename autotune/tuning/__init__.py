"""The search: ask, write a script, have it evaluated, tell; then choose, assemble the whole, and record a bundle."""
