"""Recorded spaces: exhaustively measured parts of a task's search space, one file each (`autotune.store.recording`).

record -> part of the space -> measure -> file
file -> transfer data, for samplers that model;  file -> rerun, of searches
"""
