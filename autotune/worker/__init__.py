"""Compilation, verification and timing of candidates in isolated processes; roofs, noise floor, `doctor`."""
