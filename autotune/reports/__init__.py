"""Results for people: comparisons, explanations, stages of a compilation, tables, pictures, one page."""
