"""Pictures of a bundle's winner, from what was recorded with it."""

from autotune.reports.explain import Explanation
from autotune.reports.pictures import Picture
from autotune.reports.pictures.gallery import plain_name
from autotune.reports.pictures.whole import budget, gains, techniques
from autotune.reports.winner import Winner


def draw_winner(winner: Winner, explanation: Explanation | None = None) -> list[Picture]:
    """What can be drawn of a winner alone; what each technique is worth, if that was measured."""
    name = plain_name(winner.payload)
    timed = [(task.tag, task.count, task.seconds.estimate) for task in winner.tasks if task.seconds]
    gained = [
        (t.tag, t.baseline_seconds / t.seconds.estimate) for t in winner.tasks if t.seconds and t.baseline_seconds
    ]
    pictures = []
    if len(timed) > 1:
        whole = budget(winner.payload, timed, winner.seconds.estimate)
        pictures.append(Picture(f"{name}-budget", "Where a call's time goes.", whole))
    if len(gained) > 1:
        said = f"How much faster than {winner.baseline} every task is."
        pictures.append(Picture(f"{name}-gains", said, gains(winner.payload, gained, winner.baseline)))
    if explanation is not None:
        rows = [(row.name, row.factor) for row in explanation.rows[1:] if row.tasks and row.factor]
        if rows:
            said = "How many times as long a call takes without each technique."
            pictures.append(Picture(f"{name}-techniques", said, techniques(rows, built_up=False)))
    return pictures
