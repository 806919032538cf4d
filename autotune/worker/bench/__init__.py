"""Verification and measurement: test data, oracles, guard bytes, samples, races, roofs and noise floor."""
