"""How a search came along, drawn in characters."""

from collections.abc import Sequence

import numpy as np

from autotune.reports.courses import Course, speed_shares

EIGHTHS = " ▁▂▃▄▅▆▇█"
ROWS, MOST_COLUMNS = 5, 60


def draw_curve(courses: Sequence[Course], width: int) -> list[str]:
    """The best so far over trials, as a share of what was reached in the end, over all searches of a payload.

    Args:
        courses: Searches of the payload.
        width: Characters of a line at most.
    """
    longest = max((course.trials for course in courses if course.improvements), default=0)
    if not longest:
        return ["no trial succeeded"]
    columns = max(1, min(MOST_COLUMNS, width - 8, longest))
    picked = speed_shares(courses, columns)
    lines = [f"speed of the best so far, of that after {longest} trials"]
    for row in reversed(range(ROWS)):
        fill = np.clip(np.nan_to_num(picked) * ROWS - row, 0, 1)
        label = f"{(row + 1) / ROWS:4.0%} |"
        lines.append(f"{label:>8}" + "".join(EIGHTHS[round(float(x) * 8)] for x in fill))
    return [*lines, f"{'+':>8}{'-' * len(picked)}"]
