"""Analyses of a program: each a few lines of text, from facts that were read off it."""
