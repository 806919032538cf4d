"""Interfaces of plug-ins: families, back ends, comparators, importers, commands."""
