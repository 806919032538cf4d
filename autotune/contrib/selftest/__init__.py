"""`autotune doctor --self`: the tuner is crashed, killed and timed, and its promises are held against what it does."""
