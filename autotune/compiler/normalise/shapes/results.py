"""Results that are reshaped last: written where they are wanted, not copied there as another shape.

x = f(..);  materialize (expand_shape x) in out     ->   x = f(..);  materialize x in (collapse_shape out)
x = f(..);  materialize (collapse_shape x) in out   ->   x = f(..);  materialize x in (expand_shape out)
"""

from mlir import ir
from mlir.dialects import bufferization, memref

from autotune.compiler.ir.module import every_op
from autotune.compiler.ir.values import maker

RESHAPES = ("tensor.expand_shape", "tensor.collapse_shape")


def write_results_in_shape(module: ir.Module) -> None:
    """Let results that are reshaped last be written to a view of their argument, in place."""
    for op in [op for op in every_op(module) if op.name == "bufferization.materialize_in_destination"]:
        value, out = op.operands
        made_by = maker(value)
        if made_by is None or made_by.name not in RESHAPES or not isinstance(out.type, ir.MemRefType):
            continue
        source = made_by.operands[0]
        static = source.type.has_static_shape and value.type.has_static_shape
        if not static or out.type.affine_map != ir.AffineMap.get_identity(out.type.rank):
            continue
        with ir.InsertionPoint(op), op.location:
            view = view_of(out, made_by, source.type)
            bufferization.materialize_in_destination(None, source, view, restrict=True, writable=True)
        op.erase()
        if not list(made_by.results[0].uses):
            made_by.erase()


def view_of(out: ir.Value, reshape: ir.Operation, like: ir.RankedTensorType) -> ir.Value:
    """A memref in the shape that a tensor has before it is reshaped."""
    kind = ir.MemRefType.get(like.shape, like.element_type)
    groups = [
        [ir.IntegerAttr(place).value for place in ir.ArrayAttr(group)]
        for group in ir.ArrayAttr(reshape.attributes["reassociation"])
    ]
    if reshape.name == "tensor.expand_shape":
        return memref.collapse_shape(kind, out, groups)
    return memref.expand_shape(kind, out, groups, [], list(like.shape))
