"""Presentation of results: comparisons, explanations, compilation stages, tables, plots, an HTML report."""
