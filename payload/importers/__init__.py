"""Importers: convert model files of other tools to folders that a payload is loaded from, one module per format."""
