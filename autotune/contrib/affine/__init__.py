"""Polyhedral schedules: affine loops by upstream's affine passes, as a family that must be requested."""
