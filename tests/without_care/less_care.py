"""What measures without care: few samples, and constants of modules; of no package, since `sitecustomize` reads it."""

# One sample of seven that is disturbed moves no median, and so few are never called noisy.
EFFORT = {"samples": 7, "seconds": 0.2, "sample_seconds": 1e-4}
CONSTANTS = {
    "autotune.tuning.stages.choose": {"FINALISTS": 2, "PROCESSES": 1},
    "autotune.tuning.stages.sessions": {"SESSIONS": 1},
    "autotune.tuning.tune": {"PAIRS": 1},
}  # by module
