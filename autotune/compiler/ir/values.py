"""Queries on SSA values: defining operations, constants, slices, trip counts."""

from collections.abc import Iterator, Sequence

from mlir import ir
from mlir.dialects import arith


def maker(value: ir.Value) -> ir.Operation | None:
    """Return the defining operation of a value; `None` for a block argument."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def values_of(op: ir.Operation) -> Iterator[ir.Value]:
    """Yield the results of an operation and the arguments of its blocks."""
    yield from op.results
    for region in op.regions:
        for block in region.blocks:
            yield from block.arguments


def maker_named(value: ir.Value | None, name: str) -> ir.Operation | None:
    """Return the defining operation of a value if it has the given name; else `None`."""
    made_by = maker(value) if value is not None else None
    return made_by if made_by is not None and made_by.name == name else None


def is_constant(value: ir.Value) -> bool:
    """Return whether a value is the result of an arith.constant."""
    made_by = maker(value)
    return made_by is not None and made_by.name == "arith.constant"


def fill_of(value: ir.Value) -> ir.Operation | None:
    """Return the linalg.fill that defines a value; `None` if any other operation does."""
    return maker_named(value, "linalg.fill")


def depends(value: ir.Value, on: ir.Value) -> bool:
    """Return whether a value is, or is computed from, the value `on`."""
    made_by = maker(value)
    return value == on or (made_by is not None and any(depends(operand, on) for operand in made_by.operands))


def loop_of_index(value: ir.Value) -> int | None:
    """Return the dimension of the linalg.index that defines a value; `None` for any other value."""
    made_by = maker(value)
    is_index = made_by is not None and made_by.name == "linalg.index"
    return int(ir.IntegerAttr(made_by.attributes["dim"]).value) if made_by is not None and is_index else None


def static_slice(cut: ir.Operation) -> tuple[list[int], list[int], list[int]]:
    """Return the static offsets, sizes and strides of a slice or subview, with MLIR's sentinel for dynamic ones."""
    offsets, sizes, strides = (
        list(ir.DenseI64ArrayAttr(cut.attributes[f"static_{name}"])) for name in ("offsets", "sizes", "strides")
    )
    return offsets, sizes, strides


def kept_dimensions(sizes: Sequence[int], shape: Sequence[int]) -> list[bool]:
    """Return which dimensions of a rank-reducing slice its shape keeps; of unit dimensions, the first are dropped."""
    remaining = list(shape)
    flags = []
    for position, size in enumerate(sizes):
        keep = bool(remaining) and remaining[0] == size and (size != 1 or len(remaining) == len(sizes) - position)
        flags.append(keep)
        remaining = remaining[1:] if keep else remaining
    return flags


def reassociation(reshape: ir.Operation) -> list[list[int]]:
    """Return the reassociation groups of an expand_shape or collapse_shape."""
    return [[ir.IntegerAttr(d).value for d in group] for group in ir.ArrayAttr(reshape.attributes["reassociation"])]


def permutation_of(op: ir.Operation) -> list[int]:
    """Return the permutation of a linalg.transpose; empty for any other operation."""
    return list(ir.DenseI64ArrayAttr(op.attributes["permutation"])) if op.name == "linalg.transpose" else []


def index(value: int) -> ir.Value:
    """Build a constant of type index at the insertion point."""
    return arith.constant(ir.IndexType.get(), value)


def splat_of(mlir_type: ir.Type, number: float) -> ir.Value:
    """Build a scalar or splat constant of a type at the insertion point."""
    element = mlir_type.element_type if isinstance(mlir_type, ir.ShapedType) else mlir_type
    is_float = isinstance(element, ir.FloatType)
    attribute = ir.FloatAttr.get(element, number) if is_float else ir.IntegerAttr.get(element, int(number))
    return arith.constant(
        mlir_type,
        ir.DenseElementsAttr.get_splat(mlir_type, attribute) if isinstance(mlir_type, ir.ShapedType) else attribute,
    )


def constant(value: ir.Value) -> int:
    """Return the value of a constant of type index.

    Raises:
        TypeError: The value is a block argument.
    """
    made_by = maker(value)
    if made_by is None:
        raise TypeError(f"a constant must be made by an op, {value} is an argument of a block")
    return int(ir.IntegerAttr(made_by.attributes["value"]).value)


def trip_count(loop: ir.Operation) -> int:
    """Return the trip count of an scf.for with constant bounds; 0 if its step is not positive."""
    lower, upper, step = (constant(value) for value in list(loop.operands)[:3])
    return -(-(upper - lower) // step) if step > 0 else 0


def is_fresh(op: ir.Operation, index: int, first_init: int) -> bool:
    """Return whether operand `index` is an init that can be recreated: filled with a constant, or never read."""
    if index < first_init:
        return False
    fill = fill_of(op.operands[index])
    if fill is not None:
        return is_constant(fill.operands[0])
    block = op.regions[0].blocks[0]
    return not any(True for _ in block.arguments[index].uses)


def start_value(op: ir.Operation) -> float:
    """Return the constant that the op's last init is filled with; 0 if it is not filled with a constant."""
    fill = fill_of(op.operands[-1])
    if fill is None or not is_constant(fill.operands[0]):
        return 0.0
    value = fill.operands[0].owner.attributes["value"]
    return float(value.value if isinstance(value, ir.IntegerAttr) else ir.FloatAttr(value).value)
