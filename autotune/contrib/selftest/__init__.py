"""`autotune doctor --self`: check the tuner's guarantees by crashing, killing and timing it."""
