"""Rewrites that replace tasks by calls of external kernels; a separate folder, since their code is versioned."""
