"""The rewrites by which code of others computes tasks; in a folder of their own, as their code is versioned."""
