"""What plug-ins are: families, back ends, comparators, importers, verbs."""
