"""Convolutions and pools: layouts of channels, windows, and 1-D as 2-D."""
