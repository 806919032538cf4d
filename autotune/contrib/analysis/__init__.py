"""Static analyses of a program: operations and bytes, fusion, values, the arena, caches."""
