"""Isolated processes: start, message exchange as data, resource limits, sandbox, and causes of exit."""
