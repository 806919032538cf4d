"""Is a candidate right, and how fast? Isolated processes that compile, verify and measure; roofs, noise, doctor."""
