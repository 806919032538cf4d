"""Partition: the distinct tunable units of a module, each as a payload of its own, with their counts."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from mlir import ir
from mlir.dialects import bufferization, linalg

from autotune.errors import PayloadError
from autotune.ir.lower import run_pipeline
from autotune.ir.module import context, parse, symbol
from autotune.ir.outline import is_constant, maker, outline, start_value
from autotune.ir.weights import weight_behind
from autotune.script import TAG
from autotune.task import Contraction, LoopNest, Payload, Task, contract

# Element-wise neighbours become one op before units are counted.
PREPARE = "builtin.module(canonicalize,func.func(linalg-fuse-elementwise-ops),canonicalize)"
SECOND_USE = "autotune.second_use"
UNTUNABLE = ("linalg.fill", "linalg.copy", "linalg.yield", "linalg.index", "linalg.pack", "linalg.unpack")


@dataclass(frozen=True)
class Partition:
    """A module with its tunable ops tagged, and what the tags stand for.

    Attributes:
        payload: The same computation; every tunable op carries ``autotune.task``.
        tasks: One for each distinct tag, in order of first appearance.
    """

    payload: Payload
    tasks: tuple[Task, ...]


def partition(payload: Payload) -> Partition:
    """Find, tag and outline the distinct structured ops of a payload.

    Raises:
        CompileError: The text does not parse.
        PayloadError: The entry function is not there.
    """
    with context():
        module = parse(payload.text, payload.name)
        function = find_function(module, payload.entry)
        prepare(module, function)
        function = find_function(module, payload.entry)
        tasks: dict[str, Task] = {}
        ops: Counter[str] = Counter()
        counts: Counter[str] = Counter()
        roles = [argument.role for argument in payload.arguments]
        for op, trips in structured_ops(function.regions[0].blocks[0]):
            task = make_task(op, roles)
            if task is None:
                continue
            op.attributes[TAG] = ir.StringAttr.get(task.tag)
            tasks.setdefault(task.tag, task)
            ops[task.tag] += 1
            counts[task.tag] += trips
        text = str(module)
    counted = (replace(task, ops=ops[tag], count=counts[tag]) for tag, task in tasks.items())
    return Partition(replace(payload, text=text), tuple(counted))


def prepare(module: ir.Module, function: ir.OpView) -> None:
    """Fuse element-wise neighbours, in place, leaving contractions as they are.

    The fusion pass would also fold reshapes into contractions, which turns a matmul into a higher-dimensional op
    that no matmul schedule knows. It only touches values with a single use: contractions get a second one meanwhile.
    """
    for op, _ in list(structured_ops(function.regions[0].blocks[0])):
        if linalg.isa_contraction_op(op.operation):
            with ir.InsertionPoint.after(op.operation), op.operation.location:
                for value in [*op.operation.operands, *op.operation.results]:
                    if isinstance(value.type, ir.RankedTensorType):
                        bufferization.DeallocTensorOp(value).operation.attributes[SECOND_USE] = ir.UnitAttr.get()
    run_pipeline(module, PREPARE)

    def erase(op: ir.Operation) -> ir.WalkResult:
        if SECOND_USE in op.attributes:
            op.erase()
        return ir.WalkResult.ADVANCE

    module.operation.walk(erase)
    run_pipeline(module, "builtin.module(canonicalize,eliminate-empty-tensors)")
    module.operation.walk(skip_settled_copy)


def skip_settled_copy(op: ir.Operation) -> ir.WalkResult:
    """Let a value that is already computed in its destination stand for the copy of it there.

    One-shot bufferization sees that the two are one buffer for a single op, but no longer for the loops that
    tiling makes of it.
    """
    if op.name == "bufferization.materialize_in_destination" and len(op.results) == 1:
        source, destination = op.operands
        made_by = maker(source)
        if made_by is not None and made_by.name.startswith("linalg.") and made_by.operands[-1] == destination:
            op.results[0].replace_all_uses_with(source)
            op.erase()
    return ir.WalkResult.ADVANCE


def find_function(module: ir.Module, name: str) -> ir.OpView:
    """The function called `name`.

    Raises:
        PayloadError: It is missing, or has no body.
    """
    for op in module.body.operations:
        if op.operation.name == "func.func" and symbol(op) == name and op.regions[0].blocks:
            return op
    raise PayloadError(f"the module must define function @{name}; it does not")


def structured_ops(block: ir.Block, trips: int = 1) -> Iterator[tuple[ir.OpView, int]]:
    """Linalg ops on tensors under a block, each with the number of times one call of the function executes it."""
    for op in block.operations:
        name = op.operation.name
        if name.startswith("linalg.") and name not in UNTUNABLE and len(op.operation.results) > 0:
            yield op, trips
            continue
        inner = trips * trip_count(op) if name == "scf.for" else trips
        for region in op.regions:
            for nested in region.blocks:
                yield from structured_ops(nested, inner)


def trip_count(loop: ir.OpView) -> int:
    """Iterations of an scf.for with constant bounds; 1 where they are not known."""
    bounds = []
    for value in list(loop.operation.operands)[:3]:
        if not is_constant(value):
            return 1
        bounds.append(int(ir.IntegerAttr(value.owner.attributes["value"]).value))
    lower, upper, step = bounds
    return max(0, -(-(upper - lower) // step))


def make_task(op: ir.OpView, roles: Sequence[str]) -> Task | None:
    """Describe one op as a task; `None` if it has dynamic shapes or cannot stand alone.

    Args:
        op: A structured op in the payload's entry function.
        roles: Role of each argument of that function.
    """
    nest = loop_nest(op)
    if nest is None:
        return None
    contraction = describe_contraction(op, nest)
    if contraction and not contraction.batched:
        contraction = replace(contraction, constant_b=weight_behind(op.operation.operands[1], roles) is not None)
    outlined = outline(op, weights=(1,) if contraction and contraction.constant_b else ())
    if outlined is None:
        return None
    text, arguments = outlined
    tag = name_contraction(contraction) if contraction else name_generic(op, nest, text)
    payload = Payload(
        name=tag,
        text=text.replace(f"@{outline.__name__}", f"@{tag}").replace("__tag__", tag),
        entry=tag,
        arguments=arguments,
        flops=contraction.flops if contraction else float(prod(nest.sizes)),
        reference=partial(contract, contraction, start_value(op)) if contraction else None,
        reduction=prod(s for s, i in zip(nest.sizes, nest.iterators, strict=True) if i == "reduction"),
    )
    return Task(tag=tag, payload=payload, nest=nest, contraction=contraction)


def loop_nest(op: ir.OpView) -> LoopNest | None:
    """Loop sizes and kinds, read off the indexing maps and static shapes; `None` if one cannot be told."""
    try:
        maps = linalg.get_indexing_maps(op.operation)
    except (ValueError, RuntimeError):
        return None
    if not maps:
        return None
    affine = [ir.AffineMapAttr(m).value if isinstance(m, ir.AffineMapAttr) else m for m in maps]
    sizes: dict[int, int] = {}
    written: set[int] = set()
    outputs = len(op.operation.results)
    for index, (operand, amap) in enumerate(zip(op.operation.operands, affine, strict=False)):
        if not isinstance(operand.type, ir.RankedTensorType) or not operand.type.has_static_shape:
            if isinstance(operand.type, ir.ShapedType):
                return None
            continue
        dims = [e.position for e in amap.results if isinstance(e, ir.AffineDimExpr)]
        if len(dims) != len(list(amap.results)):
            continue
        sizes.update(zip(dims, operand.type.shape, strict=True))
        if index >= len(affine) - outputs:
            written.update(dims)
    total = affine[0].n_dims
    if set(sizes) != set(range(total)):
        return None
    iterators = tuple("parallel" if d in written else "reduction" for d in range(total))
    return LoopNest(tuple(sizes[d] for d in range(total)), iterators)


def describe_contraction(op: ir.OpView, nest: LoopNest) -> Contraction | None:
    """Sizes and layout of a plain or batched matmul with loops in the order (b,) m, n, k; `None` for anything else."""
    if not linalg.isa_contraction_op(op.operation):
        return None
    dims = linalg.infer_contraction_dimensions(op.operation)
    b, m, n, k = (list(group) for group in (dims.batch, dims.m, dims.n, dims.k))
    rank = len(nest.sizes)
    if [*b, *m, *n, *k] != list(range(rank)) or [len(m), len(n), len(k)] != [1, 1, 1] or len(b) > 1:
        return None
    layouts = operand_layouts(op)
    batch = [0] if b else []
    plain_a, plain_b = [*batch, *m, *k], [*batch, *k, *n]
    turned_a, turned_b = [*batch, *k, *m], [*batch, *n, *k]
    if layouts[0] not in (plain_a, turned_a) or layouts[1] not in (plain_b, turned_b):
        return None
    if layouts[2] != [*batch, *m, *n] or {element_type(v) for v in op.operation.operands} != {"f32"}:
        return None
    return Contraction(
        m=nest.sizes[m[0]],
        n=nest.sizes[n[0]],
        k=nest.sizes[k[0]],
        batch=nest.sizes[0] if b else 1,
        transposed_a=layouts[0] == turned_a,
        transposed_b=layouts[1] == turned_b,
        batched=bool(b),
    )


def operand_layouts(op: ir.OpView) -> Sequence[list[int]]:
    """For each operand, the loops its dimensions run over."""
    maps = linalg.get_indexing_maps(op.operation)
    affine = [ir.AffineMapAttr(m).value if isinstance(m, ir.AffineMapAttr) else m for m in maps]
    return [[e.position if isinstance(e, ir.AffineDimExpr) else -1 for e in amap.results] for amap in affine]


def element_type(value: ir.Value) -> str:
    """MLIR element type of a shaped value, or its own type."""
    kind = value.type
    return str(kind.element_type) if isinstance(kind, ir.ShapedType) else str(kind)


def name_contraction(c: Contraction) -> str:
    """A tag people can read, such as ``matmul_32x192x64_f32_tb_w``: sizes m, n, k; B transposed, B a weight."""
    sizes = "x".join(map(str, ([c.batch] if c.batched else []) + [c.m, c.n, c.k]))
    suffix = ("_ta" if c.transposed_a else "") + ("_tb" if c.transposed_b else "")
    suffix += "_w" if c.constant_b else ""
    return f"{'batch_matmul' if c.batched else 'matmul'}_{sizes}_{c.dtype}{suffix}"


def name_generic(op: ir.OpView, nest: LoopNest, text: str) -> str:
    """Kind, sizes and a hash of the body: equal for ops that compute the same."""
    kind = op.operation.name.removeprefix("linalg.")
    digest = hashlib.sha256(text.encode()).hexdigest()[:6]
    return f"{kind}_{'x'.join(map(str, nest.sizes))}_{digest}"
