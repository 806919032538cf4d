"""Models of any size within bounds: one folder, one copy of the weights, a few compiled sizes, and their dispatch."""
