"""Isolated processes: started, talked to in data, limited, sandboxed, and explained when they end."""
