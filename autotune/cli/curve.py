"""How a search came along, drawn in characters."""

import numpy as np
import pandas as pd

from autotune.reports.overview import Curve, best_so_far

EIGHTHS = " ▁▂▃▄▅▆▇█"
ROWS, MOST_COLUMNS = 5, 60


def draw_curve(rows: pd.DataFrame, width: int) -> list[str]:
    """The best so far over trials, as a share of what was reached in the end, over all tasks of a payload.

    Args:
        rows: Trials of the payload.
        width: Characters of a line at most.
    """
    shares = speed_shares(rows)
    if not np.isfinite(shares).any():
        return ["no trial succeeded"]
    columns = max(1, min(MOST_COLUMNS, width - 8, len(shares)))
    picked = shares[np.linspace(0, len(shares) - 1, columns).round().astype(int)]
    lines = [f"speed of the best so far, of that after {len(shares)} trials"]
    for row in reversed(range(ROWS)):
        fill = np.clip(np.nan_to_num(picked) * ROWS - row, 0, 1)
        label = f"{(row + 1) / ROWS:4.0%} |"
        lines.append(f"{label:>8}" + "".join(EIGHTHS[round(float(x) * 8)] for x in fill))
    return [*lines, f"{'+':>8}{'-' * len(picked)}"]


def speed_shares(rows: pd.DataFrame) -> Curve:
    """After each trial of a payload, how near every task is to its own end, as the geometric mean of speeds."""
    curves = [best_so_far(task) for _, task in rows.groupby("task", sort=False)]
    curves = [curve[-1] / curve for curve in curves if np.isfinite(curve[-1])]
    if not curves:
        return np.array([np.nan])
    length = max(map(len, curves))
    stretched = [curve[np.linspace(0, len(curve) - 1, length).round().astype(int)] for curve in curves]
    return np.asarray(np.exp(np.mean(np.log(np.nan_to_num(stretched, nan=1e-9)), axis=0)))
