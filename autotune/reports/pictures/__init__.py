"""Pictures of what was found, by matplotlib: each a function from trials to a figure with title, units and legend."""

from autotune.reports.pictures.gallery import Picture, draw_all, draw_history, save_all, to_svg

__all__ = ["Picture", "draw_all", "draw_history", "save_all", "to_svg"]
