"""Parametric scripts of families: the script for a task with its knobs as parameters, to be edited and tuned."""
