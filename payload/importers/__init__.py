"""Importers: models as other tools store them become folders that a payload is read from, one format a file."""
