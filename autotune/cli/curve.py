"""Text plot of the progress of a search."""

from collections.abc import Sequence

import numpy as np

from autotune.reports.courses import Course, speed_shares

EIGHTHS = " ▁▂▃▄▅▆▇█"
ROWS, MOST_COLUMNS = 5, 60


def draw_curve(courses: Sequence[Course], width: int) -> list[str]:
    """Plot the best speed so far over trials, as a share of the final one, over all searches of a payload.

    Args:
        courses: Searches of the payload.
        width: Maximum line width in characters.
    """
    longest = max((course.trials for course in courses if course.improvements), default=0)
    if not longest:
        return ["no trial succeeded"]
    columns = max(1, min(MOST_COLUMNS, width - 8, longest))
    speeds = speed_shares(courses, columns)
    lines = [f"speed of the best so far, of that after {longest} trials"]
    for row in reversed(range(ROWS)):
        fill = np.clip(np.nan_to_num(speeds) * ROWS - row, 0, 1)
        label = f"{(row + 1) / ROWS:4.0%} |"
        lines.append(f"{label:>8}" + "".join(EIGHTHS[round(float(x) * 8)] for x in fill))
    return [*lines, f"{'+':>8}{'-' * len(speeds)}"]
