"""Page section of the static analyses: arena, operations and bytes, fusion, values, caches."""

from collections.abc import Sequence

from autotune.contrib.analysis.analysed import Analysis
from autotune.contrib.analysis.arena_picture import draw_arena
from autotune.contrib.analysis.text import ENOUGH, agreement_of, name, needed, reasons_of, shares
from autotune.reports.format import size
from autotune.reports.sections.blocks import Block, DataTable, Gallery, Notes, Section, TableCell, TableColumn, TableRow

ANCHOR, TITLE = "analysis", "What can be known before it runs"


def analysed(analysis: Analysis) -> Section:
    """Return the section of a program's analyses."""
    arena: list[Block] = []
    if analysis.plan is not None and analysis.plan.buffers:
        arena.append(Gallery([draw_arena(analysis.payload, analysis.plan)]))
    sentences = (
        [f"Predicted misses beside a simulation of small cases: {agreement_of(analysis)}."]
        if analysis.agreements
        else []
    )
    notes = [analysis.facts.why_not] if analysis.facts.why_not else []
    blocks = [*arena, ops_table(analysis), fusion_table(analysis), values_table(analysis), cache_table(analysis)]
    return Section(ANCHOR, TITLE, [*blocks, Notes([*sentences, *notes])])


def table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[TableCell]]) -> DataTable:
    """Build a table in which all columns after the first hold numbers."""
    columns = [TableColumn(head, index > 0) for index, head in enumerate(heads)]
    return DataTable(caption, columns, [TableRow(row) for row in rows])


def bytes_cell(count: float) -> TableCell:
    """Format a number of bytes as a cell that sorts by that number."""
    return TableCell(size(count), count)


def ops_table(analysis: Analysis) -> DataTable:
    """Build the table of arithmetic operations and bytes by operation."""
    rows = [
        [
            TableCell(name(op).strip(), title=op.task),
            TableCell(op.result),
            TableCell(str(op.trips), op.trips),
            TableCell(f"{op.arithmetic / 1e6:.3g}", op.arithmetic),
            bytes_cell(op.bytes),
        ]
        for op in analysis.facts.ops
    ]
    return table("Operations and bytes, by op of the text.", ("op", "gives", "runs", "Mflop", "bytes"), rows)


def fusion_table(analysis: Analysis) -> DataTable:
    """Build the table of values that are not fused with their consumer, by reason."""
    reasons = reasons_of(analysis.facts.edges)
    rows = [[TableCell(why), TableCell(", ".join(pairs), len(pairs))] for why, pairs in reasons.items()]
    together = sum(not edge.why_apart for edge in analysis.facts.edges)
    caption = f"{together} of {len(analysis.facts.edges)} values between ops are fused with their consumer; others not:"
    return table(caption, ("why", "between ops"), rows)


def values_table(analysis: Analysis) -> DataTable:
    """Build the table of value ranges and the precision that each value needs."""
    by_number = {op.number: op for op in analysis.facts.ops}
    rows = [
        [
            TableCell(name(by_number[value.op]).strip()),
            *(TableCell(f"{each:.3g}", each) for each in (value.low, value.high)),
            *(TableCell(f"{error:.1e}", error) for _, error in value.errors),
            *(TableCell("-") for _ in range(2 - len(value.errors))),
            TableCell(needed(value)),
        ]
        for value in analysis.facts.values
    ]
    caption = (
        f"Values seen in float64, seed 0; needed to leave outputs within {ENOUGH:.1%} when this value alone is rounded."
    )
    return table(caption, ("op", "smallest", "largest", "bf16 error", "f16 error", "needs"), rows)


def cache_table(analysis: Analysis) -> DataTable:
    """Build the table of reuse distances and the bytes that each cache fetches."""
    heads = ("op", "accesses by distance", *(f"{cache.name}, {size(cache.bytes)}" for cache in analysis.caches))
    rows = [
        [
            TableCell(name(op).strip()),
            TableCell(shares(distances)),
            *(bytes_cell(c.fetched[index]) for c in analysis.caches),
        ]
        for index, (op, distances) in enumerate(zip(analysis.facts.ops, analysis.reuses, strict=True))
    ]
    return table("How far apart two uses of a line are in plain loops, and bytes fetched in a call.", heads, rows)
