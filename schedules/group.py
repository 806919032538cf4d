"""What the writers of groups share."""

from dataclasses import dataclass

from autotune.core.machine import Machine
from autotune.core.space import Config
from autotune.core.task import Member
from schedules.functions import choose_functions
from schedules.fused_space import Shape
from schedules.moves import Script
from schedules.vectorize import vectorize_rows


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
    members: tuple[Member, ...]
    shape: Shape
    config: Config
    machine: Machine

    def write_rows(self, op: str, sizes: tuple[int, ...], *, reduced: bool = False, mark: str = "") -> None:
        """One row at a time, in vectors; consumes `op`.

        Args:
            op: Handle of ops over rows, or rows and columns.
            sizes: Trip counts of their loops.
            reduced: Whether the ops reduce their columns.
            mark: Attribute for the loop along whole vectors.
        """
        width = int(self.config["vectors"]) * self.machine.lanes
        vectorize_rows(self.script, op, sizes, width, reduced=reduced, mark=mark)

    def choose_functions(self, op: str) -> None:
        """Polynomials or libm, for one op."""
        choose_functions(self.script, self.config, op)
