"""`autotune selftest`: the tuner is crashed, killed and timed, and what it promises is held against what it does."""
