"""A group with an online softmax, which the payload has as loops over blocks of rows and columns already.

The script finds every part by its attribute, since loops lie between them, and schedules it where it is.
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
    """Schedules the parts of a group where they are."""

    def write(self) -> None:
        """Schedule every part of the group."""
        self.script.say("the softmax is online: loops over blocks of rows and columns are there")
        function = moves.enclosing_function(self.script, "%op")
        contractions = self.open_contractions(function)
        for position, member in reversed(list(enumerate(self.members))):
            if not member.contraction:
                op = self.part(f"{MEMBER}{position}")
                self.choose_functions(op)
                self.write_rows(op, self.sizes_of(member), reduced=member.in_strands)
        rows, factor = int(self.config["rows"]), self.part(FACTOR)
        self.choose_functions(factor)
        self.write_rows(factor, (rows,))
        self.write_rows(self.part(ROW_TOTALS), (rows,))
        self.write_rows(self.part(TOTALS), (rows, self.shape.contractions[-1].n))
        for writer in contractions:
            writer.vectorize()

    def part(self, name: str) -> str:
        """The handle of a part."""
        found = self.script.fresh(name)
        match = f'transform.structured.match attributes{{{PART} = "{name}"}} in %op'
        self.script.emit(f"{found} = {match} : ({ANY}) -> {ANY}")
        return found

    def sizes_of(self, member: Op) -> tuple[int, ...]:
        """Sizes of an op's loops in a block, without leading dimensions."""
        sizes = list(member.nest.sizes)
        sizes[self.shape.rows - 1] = int(self.config["rows"])
        if member.online_loop is not None:
            sizes[member.online_loop] = online_columns(self.config)
        return tuple(sizes[self.shape.rows - 1 :])

    def open_contractions(self, function: str) -> list[MatmulWriter]:
        """Tile and pack each contraction, in program order; vectors come when all of that is done."""
        found = [(position, member) for position, member in enumerate(self.members) if member.contraction]
        rows, columns = self.part(ROWS), self.part(COLUMNS)
        writers = []
        for index, (position, _) in enumerate(reversed(found)):
            handle = self.part(f"{MEMBER}{position}")
            tile, along = tile_of(self.shape, self.config, index), self.shape.along[index]
            around = [OpenLoop(Loop("m", tile.m, "cache"), rows)]
            if along:
                around.append(OpenLoop(Loop(along, online_columns(self.config), "cache"), columns))
            carried = along == "k"  # what it adds to comes from the block before
            zeros = moves.producer(self.script, handle, 2) if tile.zeroed and not carried else ""
            chosen = contraction_config(self.shape, self.config, index)
            writer = MatmulWriter(self.script, function, tile, chosen, tuple(around), zeros)
            writer.tile_and_pack(handle)
            writers.append(writer)
        return writers
