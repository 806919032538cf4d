"""Writer for a group with an online softmax, which the payload already has as loops over row and column blocks.

The ops lie inside those loops, so the script matches each by its attribute and schedules it in place.
"""

from dataclasses import dataclass

from autotune.core.ops.op import Op
from autotune.core.scripts.marks import COLUMNS, FACTOR, MEMBER, PART, ROW_TOTALS, ROWS, TOTALS
from schedules import moves
from schedules.blocking import Loop
from schedules.fused_shape import contraction_config, online_columns, tile_of
from schedules.group import GroupWriter
from schedules.matmul import MatmulWriter, OpenLoop
from schedules.moves import ANY


@dataclass(frozen=True)
class OnlineWriter(GroupWriter):
    """Writer that schedules the ops of a group in place."""

    def write(self) -> None:
        """Schedule all ops of the group."""
        self.script.say("the softmax is online: loops over blocks of rows and columns are there")
        function = moves.enclosing_function(self.script, "%op")
        contractions = self.open_contractions(function)
        for position, member in reversed(list(enumerate(self.members))):
            if not member.contraction:
                op = self.part(f"{MEMBER}{position}")
                self.choose_functions(op)
                self.write_rows(op, self.sizes_of(member), reduced=member.can_split_reduction)
        rows, factor = int(self.config["rows"]), self.part(FACTOR)
        self.choose_functions(factor)
        self.write_rows(factor, (rows,))
        self.write_rows(self.part(ROW_TOTALS), (rows,))
        self.write_rows(self.part(TOTALS), (rows, self.shape.contractions[-1].n))
        for writer in contractions:
            writer.vectorize()

    def part(self, name: str) -> str:
        """Return the handle of the op that has this name in its attribute."""
        handle = self.script.fresh(name)
        match = f'transform.structured.match attributes{{{PART} = "{name}"}} in %op'
        self.script.emit(f"{handle} = {match} : ({ANY}) -> {ANY}")
        return handle

    def sizes_of(self, member: Op) -> tuple[int, ...]:
        """Return the trip counts of an op inside a block, without leading dimensions."""
        sizes = list(member.nest.sizes)
        sizes[self.shape.rows - 1] = int(self.config["rows"])
        if member.online_loop is not None:
            sizes[member.online_loop] = online_columns(self.config)
        return tuple(sizes[self.shape.rows - 1 :])

    def open_contractions(self, function: str) -> list[MatmulWriter]:
        """Tile and pack all contractions in program order; they are vectorized after that."""
        contractions = [(position, member) for position, member in enumerate(self.members) if member.contraction]
        rows, columns = self.part(ROWS), self.part(COLUMNS)
        writers = []
        for index, (position, _) in enumerate(reversed(contractions)):
            handle = self.part(f"{MEMBER}{position}")
            tile, along = tile_of(self.shape, self.config, index), self.shape.along[index]
            enclosing_loops = [OpenLoop(Loop("m", tile.m, "cache"), rows)]
            if along:
                enclosing_loops.append(OpenLoop(Loop(along, online_columns(self.config), "cache"), columns))
            carried = along == "k"  # the loop over blocks carries the accumulator
            zeros = moves.producer(self.script, handle, 2) if tile.zeroed and not carried else ""
            inner_config = contraction_config(self.shape, self.config, index)
            writer = MatmulWriter(self.script, function, tile, inner_config, tuple(enclosing_loops), zeros)
            writer.tile_and_pack(handle)
            writers.append(writer)
        return writers
