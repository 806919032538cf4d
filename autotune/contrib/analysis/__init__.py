"""What can be known of a program before it runs: operations and bytes, fusion, values, the arena, caches."""
