"""Results with dimensions of size 1: written where they are wanted, not copied there as another shape.

x = f(..);  materialize (expand_shape x) in out   ->   x = f(..);  materialize x in (collapse_shape out)
"""

from mlir import ir
from mlir.dialects import bufferization, memref

from autotune.compiler.ir.module import every_op
from autotune.compiler.ir.values import maker


def write_results_in_shape(module: ir.Module) -> None:
    """Let results that are expanded last be written to a view of their argument, in place."""
    for op in [op for op in every_op(module) if op.name == "bufferization.materialize_in_destination"]:
        value, out = op.operands
        made_by = maker(value)
        if made_by is None or made_by.name != "tensor.expand_shape" or not isinstance(out.type, ir.MemRefType):
            continue
        source = made_by.operands[0]
        groups = [list(ir.ArrayAttr(group)) for group in ir.ArrayAttr(made_by.attributes["reassociation"])]
        if not source.type.has_static_shape or out.type.affine_map != ir.AffineMap.get_identity(out.type.rank):
            continue
        kind = ir.MemRefType.get(source.type.shape, source.type.element_type)
        with ir.InsertionPoint(op), op.location:
            view = memref.collapse_shape(kind, out, [[ir.IntegerAttr(place).value for place in g] for g in groups])
            bufferization.materialize_in_destination(None, source, view, restrict=True, writable=True)
        op.erase()
        if not list(made_by.results[0].uses):
            made_by.erase()
