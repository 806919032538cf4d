"""Verifying and measuring: test data, oracles, fences, samples, races, roofs and noise."""
