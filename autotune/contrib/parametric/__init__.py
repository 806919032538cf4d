"""Families as parametric scripts: what a family writes for a task, with its knobs open, to be edited and tuned."""
