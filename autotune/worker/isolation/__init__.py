"""Isolated processes: started, talked to in data, limited, sandboxed, and told why they ended."""
