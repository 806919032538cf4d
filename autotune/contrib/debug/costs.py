"""Static analysis of loop nests: operation counts and memory footprints, on tensors or buffers, vectors or linalg."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

from mlir import ir

from autotune.compiler.ir.nests import dimensions, indexing_maps
from autotune.compiler.ir.values import constant, depends, is_constant, kept_dimensions, maker, static_slice
from autotune.contrib.debug.named_ops import name_in
from autotune.contrib.debug.nest_cost import LoopCost, NestCost

LOOPS = ("scf.for", "scf.forall", "scf.parallel", "affine.for")
NESTS = (*LOOPS, "linalg.")
SLICES = ("tensor.extract_slice", "memref.subview")
READS, WRITES = ("vector.transfer_read", "vector.load"), ("vector.transfer_write", "vector.store")
SCALAR_READS, SCALAR_WRITES = ("memref.load", "tensor.extract", "affine.load"), ("memref.store", "affine.store")
SAME = ("tensor.cast", "memref.cast", "bufferization.to_tensor", "bufferization.to_buffer", "tensor.pad")
SUMS = ("arith.addf", "vector.multi_reduction", "vector.reduction")
ARITHMETIC = (
    *SUMS,
    "arith.subf",
    "arith.mulf",
    "arith.divf",
    "arith.maximumf",
    "arith.minimumf",
    "arith.negf",
)


@dataclass
class Totals:
    """Operation counts of one execution of a block."""

    fmas: float = 0.0
    other: float = 0.0
    loads: float = 0.0
    stores: float = 0.0
    flops: float = 0.0
    chains: int = 0
    most: float = 0.0  # multiply-adds of the block that `chains` belongs to
    own: float = 0.0  # multiply-adds directly in this block
    own_chains: int = 0
    regions: list["Access"] = field(default_factory=list)
    loops: list[LoopCost] = field(default_factory=list)
    exact: bool = True

    def compute(self, fmas: float, flops: float, chains: int) -> None:
        """Add multiply-adds of this block, to `chains` independent accumulators."""
        self.fmas, self.flops, self.own = self.fmas + fmas, self.flops + flops, self.own + fmas
        self.own_chains += chains
        if self.own > self.most:
            self.most, self.chains = self.own, self.own_chains

    def add(self, other: "Totals", times: int) -> None:
        """Add the counts of a block that is executed `times` times."""
        for name in ("fmas", "other", "loads", "stores", "flops"):
            setattr(self, name, getattr(self, name) + times * getattr(other, name))
        if times * other.most > self.most:
            self.most, self.chains = times * other.most, other.chains
        self.exact = self.exact and other.exact
        self.regions += other.regions


@dataclass
class Access:
    """A region of an array that an operation accesses: non-constant offsets, sizes and strides of each dimension."""

    value: ir.Value
    begins: list[list[ir.Value | int]]  # for each dimension, summands of the offset
    sizes: list[int]
    strides: list[int]


def outermost(module: ir.Module, is_large: Callable[[ir.Operation], bool]) -> Iterator[ir.Operation]:
    """Yield the outermost loop nests of a module: loops, and structured operations outside of loops.

    Args:
        module: Module of the payload.
        is_large: Predicate of loops whose bodies are nests of their own, such as a loop over the layers of a model.
    """
    for function in module.body.operations:
        yield from nests_in(function.operation, is_large)


def nests_in(parent: ir.Operation, is_large: Callable[[ir.Operation], bool]) -> Iterator[ir.Operation]:
    """Yield the outermost loop nests in the regions of an operation."""
    for block in (block for region in parent.regions for block in region.blocks):
        for op in (each.operation for each in block.operations):
            if op.name in LOOPS and is_large(op):
                yield from nests_in(op, is_large)
            elif op.name.startswith(NESTS):
                yield op


def nest_cost(op: ir.Operation, lanes: int, argument_bytes: int) -> NestCost | None:
    """Return the cost of a loop nest; `None` for an operation that computes nothing.

    Args:
        op: Outermost operation of the nest; locations are the names of operations.
        lanes: f32 elements of one vector register.
        argument_bytes: Bytes of all arguments of the payload.
    """
    return Reader(lanes, argument_bytes).nest(op)


class Reader:
    """Computes the cost of one loop nest.

    Args:
        lanes: f32 elements of one vector register.
        argument_bytes: Bytes of all arguments of the payload.
    """

    def __init__(self, lanes: int, argument_bytes: int) -> None:
        self._lanes, self._argument_bytes = lanes, argument_bytes
        self._spans: dict[ir.Value, int] = {}  # largest minus smallest value of each induction variable

    def nest(self, op: ir.Operation) -> NestCost | None:
        """Return the cost of a nest; `None` for an operation that computes nothing."""
        if op.name not in LOOPS and not op.name.startswith("linalg."):
            return None
        totals = Totals()
        self._visit(op, totals, 0, 1)
        if not totals.loops or not (totals.flops or totals.loads or totals.stores):
            return None
        return NestCost(
            name_in(op.location), tuple(totals.loops), totals.fmas, totals.other, totals.loads, totals.stores,
            totals.flops, totals.chains, totals.exact, self._argument_bytes,
        )  # fmt: skip

    def _visit(self, op: ir.Operation, totals: Totals, depth: int, runs: int) -> None:
        if op.name in LOOPS:
            self._loop(op, totals, depth, runs)
        elif op.name.startswith("linalg.") and op.name != "linalg.yield":
            self._structured(op, totals, depth, runs)
        elif op.name in READS + SCALAR_READS + WRITES + SCALAR_WRITES:
            self._transfer(op, totals)
        elif op.name in ("vector.contract", "vector.outerproduct", "vector.fma") or op.name in ARITHMETIC:
            self._compute(op, totals)
        else:
            for block in (block for region in op.regions for block in region.blocks):
                for each in block.operations:
                    self._visit(each.operation, totals, depth, runs)

    def _loop(self, op: ir.Operation, totals: Totals, depth: int, runs: int) -> None:
        """Add a loop: the counts of its body times its trip count, and its footprint over all iterations."""
        trips, spans, exact = trips_of(op)
        number = len(totals.loops)
        totals.loops.append(LoopCost(name_in(op.location), op.name, depth, trips, runs, 0))
        body, block = Totals(exact=exact), op.regions[0].blocks[0]
        body.loops = totals.loops
        for each in block.operations:
            self._visit(each.operation, body, depth + 1, runs * trips)
        self._spans.update(zip(block.arguments, spans, strict=False))
        touched = self._bytes(body.regions)
        totals.add(body, trips)
        totals.loops[number] = LoopCost(name_in(op.location), op.name, depth, trips, runs, touched)

    def _structured(self, op: ir.Operation, totals: Totals, depth: int, runs: int) -> None:
        """Add a linalg operation, as scalar loops over its iteration space."""
        arrays = [value for value in op.operands if isinstance(value.type, ir.ShapedType)]
        if not arrays:
            return
        shapes = [self._shape(value) for value in arrays]
        trips = iterations(op, shapes)
        accesses = [
            self._root(Access(v, [[] for _ in s], list(s), [1] * len(s))) for v, s in zip(arrays, shapes, strict=True)
        ]
        totals.loops.append(LoopCost(name_in(op.location), op.name, depth, trips, runs, self._bytes(accesses)))
        names = [each.operation.name for each in body_of(op)]
        multiply_adds = min(names.count("arith.mulf"), names.count("arith.addf"))
        others = sum((name.startswith("arith.") and name.endswith("f")) or name.startswith("math.") for name in names)
        totals_of_op = Totals(
            fmas=trips * multiply_adds,
            other=trips * max(others - 2 * multiply_adds, 0),
            loads=trips * (len(arrays) - (0 if reduces(op, shapes, trips) else 1)),
            stores=trips,
            flops=trips * others,
            chains=1 if multiply_adds and reduces(op, shapes, trips) else 0,
            most=trips * multiply_adds,
            regions=accesses,
        )
        totals.add(totals_of_op, 1)

    def _transfer(self, op: ir.Operation, totals: Totals) -> None:
        """Add a load or a store of a vector or an element."""
        writes = op.name in WRITES + SCALAR_WRITES
        array = next((v for v in op.operands if isinstance(v.type, ir.RankedTensorType | ir.MemRefType)), None)
        if array is None:
            return
        moved = op.operands[0].type if writes else op.results[0].type
        shape = list(moved.shape) if isinstance(moved, ir.VectorType) else []
        rank = len(self._shape(array))
        indices = [v for v in op.operands if isinstance(v.type, ir.IndexType)][:rank]
        sizes = sizes_along(op, shape, rank)
        access = Access(array, [[index] for index in indices] or [[] for _ in sizes], sizes, [1] * rank)
        count = float(prod(sizes[:-1]) * -(-sizes[-1] // self._lanes)) if sizes else 1.0  # registers per row
        totals.add(Totals(loads=0 if writes else count, stores=count if writes else 0, regions=[self._root(access)]), 1)

    def _compute(self, op: ir.Operation, totals: Totals) -> None:
        """Add arithmetic on vectors or elements."""
        result_type = op.results[0].type if len(op.results) else None
        shape = shape_of(op.results[0]) if result_type is not None else []
        if op.name in SUMS and any(made_by.name == "arith.mulf" for v in op.operands if (made_by := maker(v))):
            return  # counted with the product
        if op.name in ARITHMETIC and not (sums := summed(op)):
            shape = list(op.operands[0].type.shape) if op.name in SUMS[1:] and shape_of(op.operands[0]) else shape
            totals.add(Totals(other=registers(shape, self._lanes), flops=prod(shape)), 1)
            return
        if op.name in ARITHMETIC:
            fmas, chains = registers(shape, self._lanes), int(registers(shape_of(sums[0].results[0]), self._lanes))
            own_chains = chains if any(is_carried(v, op) for v in sums[0].operands if maker(v) != op) else 0
            totals.compute(fmas, 2 * prod(shape), own_chains)
            return
        work = prod(iterations_of_contract(op)) if op.name == "vector.contract" else prod(shape)
        fmas = registers(shape, self._lanes) * work / max(prod(shape), 1)
        chains = int(registers(shape, self._lanes))
        own_chains = chains if len(op.operands) > 2 and is_carried(op.operands[2], op) else 0
        totals.compute(fmas, 2 * work, own_chains)

    def _shape(self, value: ir.Value) -> tuple[int, ...]:
        """Return the sizes of an array; for a slice of dynamic size, upper bounds."""
        array = ir.ShapedType(value.type)
        shape = [array.get_dim_size(d) if not array.is_dynamic_dim(d) else -1 for d in range(array.rank)]
        made_by = maker(value)
        if -1 in shape and made_by is not None and made_by.name in SLICES:
            whole, most = self._shape(made_by.operands[0]), most_sizes(made_by)
            if len(most) == len(shape):
                shape = [min(size or full, full) for size, full in zip(most, whole, strict=True)]
        elif -1 in shape and made_by is not None and len(made_by.operands) and made_by.name.startswith("linalg."):
            shape = list(self._shape(made_by.operands[len(made_by.operands) - 1]))
        return tuple(max(size, 1) for size in shape)

    def _bytes(self, accesses: Iterable[Access]) -> int:
        """Return the footprint in bytes of accesses to root arrays, over the ranges of the current loops."""
        footprints: dict[ir.Value, int] = {}
        for root in accesses:
            shape = self._shape(root.value)
            extents = (
                min(whole, (size - 1) * stride + 1 + self._moved(begin))
                for whole, begin, size, stride in zip(shape, root.begins, root.sizes, root.strides, strict=False)
            )
            touched = prod(extents) * element_bytes(root.value.type)
            footprints[root.value] = max(footprints.get(root.value, 0), touched)
        return sum(footprints.values())

    def _moved(self, terms: Sequence[ir.Value | int]) -> int:
        """Return the range of an offset: largest minus smallest value."""
        return sum(self._span(term) for term in terms if not isinstance(term, int))

    def _span(self, value: ir.Value) -> int:
        """Return the range of an index over the current loops: largest minus smallest value."""
        if value in self._spans:
            return self._spans[value]
        made_by = maker(value)
        if made_by is None or is_constant(value):
            return 0
        if made_by.name in ("affine.apply", "affine.min", "affine.max"):
            amap = ir.AffineMapAttr(made_by.attributes["map"]).value
            spans = [self._span(operand) for operand in made_by.operands]
            return max(span_of(expr, spans[: amap.n_dims], spans[amap.n_dims :]) for expr in amap.results)
        spans = [self._span(operand) for operand in made_by.operands if isinstance(operand.type, ir.IndexType)]
        if made_by.name == "arith.muli":
            factors = [constant(v) for v in made_by.operands if is_constant(v)]
            return sum(spans) * abs(prod(factors))
        return sum(spans)

    def _root(self, access: Access) -> Access:
        """Return the access in terms of the root array that views and slices are taken of."""
        while (above := self._above(access)) is not None:
            access = above
        return access

    def _above(self, access: Access) -> Access | None:
        """Return the access in terms of the source of a view, slice or loop result; `None` for a root array."""
        made_by = maker(access.value)
        if made_by is None:
            initial = initial_value(access.value)
            return None if initial is None else Access(initial, access.begins, access.sizes, access.strides)
        if made_by.name in SLICES:
            return part_of(made_by, access, self._shape(made_by.operands[0]))
        if made_by.name in SAME:
            return Access(made_by.operands[0], access.begins, access.sizes, access.strides)
        if made_by.name in ("tensor.insert_slice", "vector.transfer_write"):
            return Access(made_by.operands[1], access.begins, access.sizes, access.strides)
        if made_by.name in ("scf.for", "scf.forall") or made_by.name.startswith("linalg."):
            number = ir.OpResult(access.value).result_number
            before = list(made_by.operands)[len(made_by.operands) - len(made_by.results) + number]
            return Access(before, access.begins, access.sizes, access.strides)
        return None


def trips_of(op: ir.Operation) -> tuple[int, list[int], bool]:
    """Return the trip count of a loop, the range of each induction variable, and whether both are exact."""
    if op.name == "scf.for":
        first, end, step = list(op.operands)[:3]
        if not (is_constant(first) and is_constant(step) and most_of(end)):
            return 1, [0], False
        trips = max(-(-(most_of(end) - constant(first)) // max(constant(step), 1)), 0)
        return trips, [max(trips - 1, 0) * constant(step)], is_constant(end)
    if op.name == "scf.forall":
        names = ("staticLowerBound", "staticUpperBound", "staticStep")
        lows, highs, steps = (list(ir.DenseI64ArrayAttr(op.attributes[name])) for name in names)
        counts = [
            max(-(-(h - low) // s), 1) if min(h, s) > 0 else 1 for low, h, s in zip(lows, highs, steps, strict=True)
        ]
        return prod(counts), [(n - 1) * s for n, s in zip(counts, steps, strict=True)], min(highs) > 0
    if op.name == "affine.for" and not any(isinstance(v.type, ir.IndexType) for v in op.operands):
        first, end = (
            int(str(ir.AffineMapAttr(op.attributes[n]).value.results[0])) for n in ("lowerBoundMap", "upperBoundMap")
        )
        step = int(ir.IntegerAttr(op.attributes["step"]))
        return -(-(end - first) // step), [(-(-(end - first) // step) - 1) * step], True
    return 1, [0], False


def most_of(value: ir.Value) -> int:
    """Return an upper bound of an index: its constant, or the least constant result of an affine.min; 0 if unknown."""
    made_by = maker(value)
    if made_by is not None and made_by.name == "affine.min":
        results = ir.AffineMapAttr(made_by.attributes["map"]).value.results
        return min((int(each.value) for each in results if isinstance(each, ir.AffineConstantExpr)), default=0)
    return constant(value) if is_constant(value) else 0


def most_sizes(cut: ir.Operation) -> list[int]:
    """Return an upper bound of each size of a slice; 0 if unknown."""
    offsets, sizes, _ = static_slice(cut)
    dynamic_operands = [v for v in list(cut.operands)[1:] if isinstance(v.type, ir.IndexType)]
    open_sizes = iter(dynamic_operands[sum(offset < 0 for offset in offsets) :])
    return [size if size >= 0 else most_of(next(open_sizes)) for size in sizes]


def initial_value(argument: ir.Value) -> ir.Value | None:
    """Return the initial value of a loop-carried block argument; `None` for other arguments."""
    block = argument.owner
    loop, number = block.owner, ir.BlockArgument(argument).arg_number
    if loop.operation.name not in ("scf.for", "scf.forall"):
        return None
    counts = len(block.arguments) - len(loop.operation.results)
    operands = list(loop.operation.operands)
    before = len(operands) - len(loop.operation.results)
    return operands[before + number - counts] if number >= counts else None


def part_of(cut: ir.Operation, access: Access, whole: Sequence[int]) -> Access | None:
    """Convert an access of a slice to one of its source; `None` if the dimensions do not match."""
    offsets, sizes, strides = static_slice(cut)
    dynamic_offsets = iter([v for v in list(cut.operands)[1:] if isinstance(v.type, ir.IndexType)])
    begins: list[list[ir.Value | int]] = [[next(dynamic_offsets)] if offset < 0 else [] for offset in offsets]
    kept_dims = [d for d, keep in enumerate(kept_dimensions(sizes, cut.results[0].type.shape)) if keep]
    if len(kept_dims) != len(access.sizes):
        return None
    extents, source_strides = [1] * len(sizes), list(strides)
    for d, begin, size, stride in zip(kept_dims, access.begins, access.sizes, access.strides, strict=True):
        begins[d] += begin
        extents[d], source_strides[d] = min(size, whole[d]), max(stride * max(strides[d], 1), 1)
    return Access(cut.operands[0], begins, extents, source_strides)


def span_of(expr: ir.AffineExpr, dims: Sequence[int], symbols: Sequence[int]) -> int:
    """Return an upper bound of the range of an affine expression, by interval arithmetic."""
    if isinstance(expr, ir.AffineConstantExpr):
        return 0
    if isinstance(expr, ir.AffineDimExpr):
        return dims[int(expr.position)]
    if isinstance(expr, ir.AffineSymbolExpr):
        return symbols[int(expr.position)]
    binary = ir.AffineBinaryExpr(expr)
    left, right = (span_of(each, dims, symbols) for each in (binary.lhs, binary.rhs))
    factor = abs(binary.rhs.value) if isinstance(binary.rhs, ir.AffineConstantExpr) else 1
    if isinstance(expr, ir.AffineAddExpr):
        span = left + right
    elif isinstance(expr, ir.AffineMulExpr):
        span = left * factor
    elif isinstance(expr, ir.AffineModExpr):
        span = min(left, factor - 1)
    else:
        span = -(-left // max(factor, 1))
    return span


def iterations(op: ir.Operation, shapes: Sequence[Sequence[int]]) -> int:
    """Return the number of iterations of a linalg operation."""
    sizes: dict[int, int] = {}
    maps = [amap for v, amap in zip(op.operands, indexing_maps(op), strict=False) if isinstance(v.type, ir.ShapedType)]
    for shape, amap in zip(shapes, maps, strict=False):
        for size, dim in zip(shape, dimensions(amap), strict=False):
            if dim is not None:
                sizes[dim] = size
    return prod(sizes.values()) if sizes else max(map(prod, shapes))


def reduces(op: ir.Operation, shapes: Sequence[Sequence[int]], trips: int) -> bool:
    """Return whether a linalg operation reduces into its output."""
    return op.name not in ("linalg.fill", "linalg.copy") and trips > prod(shapes[-1])


def body_of(op: ir.Operation) -> Iterator[ir.OpView]:
    """Yield the operations of a linalg operation's body."""
    for block in (block for region in op.regions for block in region.blocks):
        yield from block.operations


def sizes_along(op: ir.Operation, shape: Sequence[int], rank: int) -> list[int]:
    """Return the extent of a vector transfer along each dimension of the array."""
    sizes = [1] * rank
    if "permutation_map" in op.attributes:
        for size, dim in zip(shape, dimensions(ir.AffineMapAttr(op.attributes["permutation_map"]).value), strict=True):
            if dim is not None and dim < rank:
                sizes[dim] = size
    elif shape:
        sizes[rank - len(shape) :] = list(shape)[-rank:]
    return sizes


def iterations_of_contract(op: ir.Operation) -> list[int]:
    """Return the sizes of the iteration space of a vector.contract."""
    sizes: dict[int, int] = {}
    maps = [ir.AffineMapAttr(each).value for each in ir.ArrayAttr(op.attributes["indexing_maps"])]
    for operand, amap in zip(op.operands, maps, strict=True):
        shape = list(operand.type.shape) if isinstance(operand.type, ir.VectorType) else []
        for size, expr in zip(shape, amap.results, strict=False):
            sizes[ir.AffineDimExpr(expr).position] = size
    return list(sizes.values())


def registers(shape: Sequence[int], lanes: int) -> float:
    """Return the number of registers of a vector; one for a scalar."""
    shape = [size for size in shape if size != 1]
    return float(prod(shape[:-1]) * -(-shape[-1] // lanes)) if shape else 1.0


def shape_of(value: ir.Value) -> list[int]:
    """Return the shape of a vector; empty for a scalar."""
    return list(value.type.shape) if isinstance(value.type, ir.VectorType) else []


def is_carried(value: ir.Value, op: ir.Operation) -> bool:
    """Return whether an accumulator comes from the previous iteration: carried, or loaded at a loop-invariant index."""
    made_by = maker(value)
    if made_by is None:
        return bool(value.owner == op.block)
    if made_by.name in READS + SCALAR_READS:
        indices = [v for v in made_by.operands if isinstance(v.type, ir.IndexType)]
        return not any(depends(v, count) for v in indices for count in list(op.block.arguments)[:1])
    return made_by.name in ("vector.extract", "vector.shape_cast") and is_carried(made_by.operands[0], op)


def summed(op: ir.Operation) -> list[ir.Operation]:
    """Return the additions and reductions that use a product."""
    if op.name != "arith.mulf":
        return []
    return [use.owner.operation for use in op.results[0].uses if use.owner.operation.name in SUMS]


def element_bytes(mlir_type: ir.Type) -> int:
    """Return the size of an element of an array, in bytes."""
    element = ir.ShapedType(mlir_type).element_type
    if isinstance(element, ir.IndexType):
        return 8
    return max(1, getattr(element, "width", 32) // 8)
