"""Recorded spaces: a part of a task's space, every config of it measured, in one file (`autotune.store.recording`).

record -> part of the space -> measure -> file
file -> transfer data, for samplers that model;  file -> rerun, of searches
"""
