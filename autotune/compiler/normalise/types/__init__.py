"""Element types and scalar operations that importers write, in the form that groups and families know."""
