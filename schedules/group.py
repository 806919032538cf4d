"""What the writers of groups share."""

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.core.host.machine import Machine
from autotune.core.ops.op import Op
from autotune.core.space import Config
from schedules import moves
from schedules.ends import lanes_of_ends
from schedules.functions import choose_functions
from schedules.fused_shape import Shape
from schedules.moves import Script
from schedules.vectorize import vectorize_rows

ROUNDING = "rounding"  # kind of an op that rounds what a product multiplies: it stays one, for code of ours


def find_members(script: Script, members: Sequence[Op], root: str) -> tuple[list[str], list[str]]:
    """Handles of a group's ops, and of the fills of the destinations of all but the root (empty where there is none).

    Args:
        script: Script that ops are appended to.
        members: The group's ops, the root first.
        root: Handle of the root.
    """
    handles, fills = [root], [""]
    for member in members[1:]:
        handles.append(moves.producer(script, handles[member.reader], member.operand))
        fills.append(moves.producer(script, handles[-1], member.filled) if member.filled is not None else "")
    return handles, fills


def fuse_members(script: Script, handles: list[str], fills: list[str], loops: list[str]) -> None:
    """Compute all but the root inside loops; renews the handles of ops, fills and loops.

    The root's own destination stays outside: it goes round the loops, filled before them.
    """
    for index in range(1, len(handles)):
        handles[index] = fuse(script, handles[index], loops)
        if fills[index]:
            fills[index] = fuse(script, fills[index], loops)


def fuse(script: Script, op: str, loops: list[str]) -> str:
    """Compute a producer inside all the loops, outermost first; consumes `op` and renews the loops' handles."""
    moves.merge_equal(script, loops[0])
    for index, loop in enumerate(loops):
        op, loops[index] = moves.fuse_into(script, op, loop)
    return op


@dataclass(frozen=True)
class GroupWriter:
    """Writes the script of one group.

    Attributes:
        script: Script that ops are appended to.
        members: The group's ops, the root first.
        shape: Rows and columns of the group.
        config: Value of every knob.
        machine: Host that the script is written for.
    """

    script: Script
    members: tuple[Op, ...]
    shape: Shape
    config: Config
    machine: Machine

    def write_rows(
        self, op: str, sizes: tuple[int, ...], *, reduced: bool = False, mark: str = "", whole: bool = False
    ) -> None:
        """One row at a time, in vectors; consumes `op`.

        Args:
            op: Handle of ops over rows, or rows and columns.
            sizes: Trip counts of their loops.
            reduced: Whether the ops reduce their columns.
            mark: Attribute for the loop along whole vectors.
            whole: What vectors leave over of a row comes right behind them.
        """
        width = int(self.config["vectors"]) * self.machine.lanes
        masked = lanes_of_ends(self.config, self.machine)
        vectorize_rows(self.script, op, sizes, width, reduced=reduced, mark=mark, masked=masked, whole=whole)

    def choose_functions(self, op: str) -> None:
        """Polynomials or libm, for one op."""
        choose_functions(self.script, self.config, op)
