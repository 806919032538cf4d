"""Redirect loads of weights, and of B packed at run time, to panels: rewrite logical to panel indices, on buffers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, memref, vector

from autotune.compiler.ir.values import index, kept_dimensions, static_slice
from autotune.compiler.panel_weight import PanelWeight
from autotune.compiler.passes.panels import update_type
from autotune.compiler.passes.prefetch import TO_L2, prefetch_panels
from autotune.core.errors import CompileError
from autotune.core.scripts.marks import TILE

Indices = list[ir.Value]
LOADS = ("vector.load", "vector.transfer_read", "memref.load")


def store_in_panels(function: ir.OpView, weights: Sequence[PanelWeight]) -> None:
    """Change the layout of a bufferized function's prepacked weights to panels, and rewrite their loads.

    Raises:
        CompileError: Stage ``transform``; a weight is read other than by rows of a panel.
    """
    block = function.regions[0].blocks[0]
    for weight in weights:
        argument = block.arguments[weight.position]
        element = ir.MemRefType(argument.type).element_type
        argument.set_type(ir.MemRefType.get(weight.stored_shape, element))
        Loads(weight.columns, argument).redirect(argument, len(weight.shape), lambda indices: indices)
        prefetch_panels(function, argument)
    update_type(function)


@dataclass(frozen=True)
class Loads:
    """Rewriter of the accesses to one weight, or to a buffer packed at run time.

    Attributes:
        columns: Columns of a panel.
        argument: Memref of panels, (..., panels, k, columns).
    """

    columns: int
    argument: ir.Value

    def redirect(self, view: ir.Value, rank: int, logical: Callable[[Indices], Indices]) -> None:
        """Rewrite all uses of a view to panels, and erase the old ops.

        Args:
            view: Memref of logical shape, or a view of it.
            rank: Number of dimensions of the view.
            logical: Function from indices of the view to logical indices of the whole.

        Raises:
            CompileError: Stage ``transform``; a use is not an access along a row.
        """
        for use in list(view.uses):
            op = use.owner.operation
            with ir.InsertionPoint(op), op.location:
                if TILE in op.attributes:
                    op.results[0].replace_all_uses_with(self.tile(op, logical(list(op.operands)[1 : 1 + rank])))
                elif op.name == "memref.subview":
                    self.redirect(op.results[0], op.results[0].type.rank, through(op, logical))
                elif op.name == "memref.cast":
                    self.redirect(op.results[0], rank, logical)
                elif op.name == "memref.prefetch":
                    panel_indices = self.in_panels(logical(list(op.operands)[1:]))
                    memref.prefetch(
                        self.argument, panel_indices, is_write=False, locality_hint=TO_L2, is_data_cache=True
                    )
                elif op.name == "vector.store":
                    value, _, *indices = op.operands
                    vector.store(value, self.argument, self.in_panels(logical(indices)))
                elif op.name not in LOADS or (op.name == "vector.transfer_read" and not reads_row(op)):
                    raise CompileError("transform", f"panels of a weight must be loaded by rows, not by {op.name}")
                else:
                    value = self.load(op, logical(list(op.operands)[1 : 1 + rank]))
                    op.results[0].replace_all_uses_with(value)
            op.erase()

    def tile(self, view: ir.Operation, indices: Indices) -> ir.Value:
        """Build the subview of a matrix-unit tile in a panel, where its rows are contiguous."""
        offsets, sizes = self.in_panels(indices), list(ir.MemRefType(view.results[0].type).shape)
        dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
        layout = ir.StridedLayoutAttr.get(dynamic, [self.columns, 1])
        tile_type = ir.MemRefType.get(sizes, ir.MemRefType(self.argument.type).element_type, layout)
        rank = len(offsets)
        whole = [*[1] * (rank - len(sizes)), *sizes]
        return memref.SubViewOp(tile_type, self.argument, offsets, [], [], [dynamic] * rank, whole, [1] * rank).result

    def in_panels(self, indices: Indices) -> Indices:
        """Build panel indices from logical indices."""
        *lead, k, n = indices
        columns = index(self.columns)
        return [*lead, arith.divui(n, columns), k, arith.remui(n, columns)]

    def load(self, op: ir.Operation, indices: Indices) -> ir.Value:
        """Build the load from the panels."""
        stored = self.in_panels(indices)
        if op.name == "memref.load":
            return memref.load(self.argument, stored)
        return vector.load(op.results[0].type, self.argument, stored)


def reads_row(read: ir.Operation) -> bool:
    """Return whether a transfer_read is in bounds, unmasked, and reads along the last dimension."""
    vector_type, amap = ir.VectorType(read.results[0].type), ir.AffineMapAttr(read.attributes["permutation_map"]).value
    is_along_row = amap.results[0] == ir.AffineDimExpr.get(amap.n_dims - 1)
    in_bounds = all(ir.BoolAttr(flag).value for flag in ir.ArrayAttr(read.attributes["in_bounds"]))
    return vector_type.rank == 1 and is_along_row and in_bounds and len(read.operands) == 2 + amap.n_dims


def through(view: ir.Operation, logical: Callable[[Indices], Indices]) -> Callable[[Indices], Indices]:
    """Compose `logical` with the map from indices of a subview to those of its source."""
    offsets, sizes, strides = static_slice(view)
    if any(stride != 1 for stride in strides):
        raise CompileError("transform", "a weight stored in panels must be read in steps of 1")
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    kept_flags = kept_dimensions(sizes, ir.MemRefType(view.results[0].type).shape)

    def outer(indices: Indices) -> Indices:
        dynamic_offsets, of_view = iter(list(view.operands)[1:]), iter(indices)
        source_indices = []
        for offset, is_kept in zip(offsets, kept_flags, strict=True):
            start = next(dynamic_offsets) if offset == dynamic else index(offset)
            source_indices.append(arith.addi(start, next(of_view)) if is_kept else start)
        return logical(source_indices)

    return outer
