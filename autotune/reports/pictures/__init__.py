"""Plots of results with matplotlib: each is a function from trials to a figure with title, units and legend.

All have the same size, so that they align on a page, and use colours that a dark page can replace.
"""

from autotune.reports.pictures.gallery import Picture, draw_all, draw_history, draw_knobs, draw_search, save_all, to_svg

__all__ = ["Picture", "draw_all", "draw_history", "draw_knobs", "draw_search", "save_all", "to_svg"]
