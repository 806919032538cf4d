"""Stores on a PostgreSQL server: `--store postgresql://...`."""
