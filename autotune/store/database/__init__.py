"""Stores in a database: their addresses, the connection to a PostgreSQL server, claims there, and Optuna's tables."""
