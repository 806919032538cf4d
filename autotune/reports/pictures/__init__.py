"""Pictures of what was found, by matplotlib: each a function from trials to a figure with title, units and legend.

All are of one size, so that they line up in a page, and drawn in colours that a dark page can exchange.
"""

from autotune.reports.pictures.gallery import Picture, draw_all, draw_history, draw_knobs, draw_search, save_all, to_svg

__all__ = ["Picture", "draw_all", "draw_history", "draw_knobs", "draw_search", "save_all", "to_svg"]
