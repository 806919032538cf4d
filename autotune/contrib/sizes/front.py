"""`autotune.sizes`: models of any size, from Python."""

from autotune.contrib.sizes.calls import AnySize, open_sized

open = open_sized

__all__ = ["AnySize", "open"]
