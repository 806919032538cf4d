"""Shapes: unit dimensions, slices, pads, transposes, and products in the fewest dimensions."""
