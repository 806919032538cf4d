"""Polyhedral schedules: affine loops, written by upstream's affine passes, as a family to be asked for."""
