"""Libraries to compare with: each computes every payload here the way its users would, on the cores it is kept to."""
