"""Helpers and base class of the writers of fusion groups."""

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

ROUNDING = "rounding"  # kind of an op that rounds an operand of a product; it stays an op, lowered by a custom pass


def find_members(script: Script, members: Sequence[Op], root: str) -> tuple[list[str], list[str]]:
    """Return handles of a group's ops and of the fills of their destinations (empty for the root and without a fill).

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
    """Fuse all ops but the root into the loops; updates the handles of ops, fills and loops in place.

    The root's own destination is filled before the loops, which carry it as an iteration argument.
    """
    for index in range(1, len(handles)):
        handles[index] = fuse(script, handles[index], loops)
        if fills[index]:
            fills[index] = fuse(script, fills[index], loops)


def fuse(script: Script, op: str, loops: list[str]) -> str:
    """Fuse a producer into a loop nest, outermost loop first; consumes `op` and updates the loops' handles."""
    moves.merge_equal(script, loops[0])
    for index, loop in enumerate(loops):
        op, loops[index] = moves.fuse_into(script, op, loop)
    return op


@dataclass(frozen=True)
class GroupWriter:
    """Writer of one group's script.

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
        """Vectorize an op row by row; consumes `op`.

        Args:
            op: Handle of ops over rows, or rows and columns.
            sizes: Trip counts of their loops.
            reduced: Whether the ops reduce their columns.
            mark: Attribute for the loop over whole vectors.
            whole: Whether the tail of each row is computed right after its whole vectors, not after all rows.
        """
        width = int(self.config["vectors"]) * self.machine.lanes
        masked = lanes_of_ends(self.config, self.machine)
        vectorize_rows(self.script, op, sizes, width, reduced=reduced, mark=mark, masked=masked, whole=whole)

    def choose_functions(self, op: str) -> None:
        """Choose polynomials or libm for the math functions of one op, as the config says."""
        choose_functions(self.script, self.config, op)
