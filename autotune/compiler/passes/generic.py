"""A linalg.generic, written from here."""

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import linalg


def generic(
    inputs: Sequence[ir.Value],
    into: ir.Value,
    maps: Sequence[ir.AffineMap],
    kinds: Sequence[str],
    write: Callable[..., ir.Value],
) -> ir.Value:
    """A linalg.generic whose body `write` makes of the elements of its operands."""
    iterators = ir.ArrayAttr.get([ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in kinds])
    layouts = ir.ArrayAttr.get([ir.AffineMapAttr.get(amap) for amap in maps])
    op = linalg.GenericOp([into.type], inputs, [into], layouts, iterators)
    elements = [getattr(value.type, "element_type", value.type) for value in (*inputs, into)]
    block = op.regions[0].blocks.append(*elements, arg_locs=[op.location] * len(elements))
    with ir.InsertionPoint(block):
        linalg.yield_([write(*block.arguments)])
    return op.results[0]
