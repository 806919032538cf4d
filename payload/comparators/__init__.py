"""Comparators: libraries that compute the payloads the way their users would, on the cores of the process."""
