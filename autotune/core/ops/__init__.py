"""What ops compute, as plain data: loop nests, graphs, facts, oracles."""
