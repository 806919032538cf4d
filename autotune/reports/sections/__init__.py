"""Sections of the report, a file each, in the order in which they are read."""
