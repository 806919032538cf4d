"""What was found: comparisons, explanations, stages of a compilation, tables, pictures, one page."""
