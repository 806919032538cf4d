"""Opened: a family's script with its knobs as open ops, for people to edit and tune."""
