"""Partition a module into its distinct tunable units, each as a payload with its number of executions."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import prod

from mlir import ir

from autotune.compiler.ir.arguments import NARROW_FACTORS, attributes_of
from autotune.compiler.ir.module import context, find_function, parse
from autotune.compiler.ir.nests import structured_ops
from autotune.compiler.ir.packs import lower_packs
from autotune.compiler.normalise.convolution.channels_last import has_channels_first
from autotune.compiler.normalise.convolution.window_sums import has_windows
from autotune.compiler.normalise.shapes.dimensions import write_results_in_shape
from autotune.compiler.normalise.simplify import simplify
from autotune.compiler.tasks.causal import causal_mask
from autotune.compiler.tasks.elementwise import fuse_elementwise
from autotune.compiler.tasks.groups import Group, find_groups
from autotune.compiler.tasks.joined_rows import join_reduced_rows
from autotune.compiler.tasks.outline import EXTENT, argument_names, outline
from autotune.compiler.tasks.read_op import joined
from autotune.compiler.tasks.short_rows import join_short_rows
from autotune.compiler.tasks.softmax import find_plan
from autotune.compiler.tasks.transposed_operands import transpose_operands
from autotune.compiler.tasks.uncovered import uncovered_ops
from autotune.compiler.tasks.weights import weight_behind
from autotune.core.ops.op import Contraction, Op, rows_of
from autotune.core.ops.oracle import ContractionOracle
from autotune.core.partition import Partition
from autotune.core.payload import Case, Payload
from autotune.core.scripts.marks import TAG, WEIGHT_OF
from autotune.core.scripts.rules import NO_RULES
from autotune.core.task import Task
from autotune.registry import rewriter

# A task with a dynamic size is verified and measured at its bound divided by each of these.
PARTS = (1024, 8, 2, 1)


def partition(payload: Payload) -> Partition:
    """Find, tag and outline the distinct tasks of a payload.

    Raises:
        CompileError: The text does not parse.
        PayloadError: The entry function is missing.
        RuleError: Rewrite rules of the payload cannot be applied.
    """
    with context():
        module, rewriting = rewriter().apply(parse(payload.text, payload.name), payload.rules)
        lower_packs(module)
        written_by_others = payload.foreign or has_channels_first(module) or has_windows(module)
        if written_by_others:
            simplify(module)
        function = find_function(module, payload.entry)
        fuse_elementwise(module, function)
        if written_by_others:
            join_reduced_rows(find_function(module, payload.entry))
            join_short_rows(find_function(module, payload.entry))
            write_results_in_shape(module)  # again, as fusion moves reshapes of results behind their producers
        function = find_function(module, payload.entry)
        roles = [argument.role for argument in payload.arguments]
        if payload.foreign:
            transpose_operands(function, roles)
        tasks: dict[str, Task] = {}
        seen: Counter[str] = Counter()
        counts: Counter[str] = Counter()
        covered: set[ir.Operation] = set()
        wide: set[str] = set()
        for group in find_groups(list(structured_ops(function.regions[0].blocks[0])), roles):
            for unit in (group, *group.alone()):
                task = make_task(unit)
                if task is not None:
                    mark(unit, task)
                    covered.update(unit.ops)
                    tasks.setdefault(task.tag, task)
                    seen[task.tag] += 1
                    if not has_narrow_factors(unit, task, function):
                        wide.add(task.tag)
                    counts[task.tag] += group.trips
                    if unit is group:
                        break
        uncovered = uncovered_ops(function.operation, covered)
        text = str(module)
    result_type = payload.result_type
    counted = (
        replace(t, occurrences=seen[tag], count=counts[tag], result_type=result_type, narrow=tag not in wide)
        for tag, t in tasks.items()
    )
    return Partition(replace(payload, text=text), tuple(counted), rewriting, uncovered)


def has_narrow_factors(group: Group, task: Task, function: ir.OpView) -> bool:
    """Return whether the model itself multiplies all matrices and kernels of a group in a 16-bit type."""
    products = [op for op, each in zip(group.ops, task.ops, strict=True) if each.has_products]
    anyone = ["weight"] * len(function.regions[0].blocks[0].arguments)
    weights = [weight_behind(op.operands[1], anyone) for op in products]
    return all(
        each is not None and NARROW_FACTORS in attributes_of(function, each.argument.arg_number) for each in weights
    )


def mark(group: Group, task: Task) -> None:
    """Tag the root of a task, and mark contractions whose weight the schedule of the task may repack."""
    group.ops[0].attributes[TAG] = ir.StringAttr.get(task.tag)
    for op, each in zip(group.ops, task.ops, strict=True):
        if stores_weight(each):
            op.attributes[WEIGHT_OF] = ir.StringAttr.get(task.tag)


def stores_weight(op: Op) -> bool:
    """Return whether the second operand of an operation is a weight that its schedule may repack."""
    return any(part is not None and part.constant_b for part in (op.contraction, op.lanes))


def make_task(group: Group) -> Task | None:
    """Return a group as a task; `None` if an operation has dynamic shapes or no loops, or cannot be outlined."""
    ops = []
    for op, (reader, operand) in zip(group.ops, group.found_by, strict=True):
        read = group.read[op]
        if read is None or not read.sizes:
            return None
        ops.append(replace(joined(read, op, group.ops), reader=reader, operand=operand))
    weights = [op.operands[1] for op, each in zip(group.ops, ops, strict=True) if stores_weight(each)]
    if len(ops) > 1:
        rows = rows_of(ops[0].nest.iterators, contracts=ops[0].contraction is not None)
        mask = causal_mask(group.ops, rows)
        masked = [mask.columns.get(op) if mask is not None else None for op in group.ops]
        plan = find_plan(group.ops) if not weights else None
        online = [plan.columns.get(op) if plan is not None else None for op in group.ops]
        ops = [
            replace(
                op,
                masked_loop=masked_loop,
                mask_period=mask.period if mask is not None and masked_loop is not None else 0,
                online_loop=online_loop,
            )
            for op, masked_loop, online_loop in zip(ops, masked, online, strict=True)
        ]
    outlined = outline(group.in_order, weights)
    if outlined is None:
        return None
    text, arguments = outlined
    names = argument_names(group.in_order)
    ops = [named(each, names[op]) for each, op in zip(ops, group.ops, strict=True)]
    alone = ops[0].contraction if len(ops) == 1 and is_of_arguments(ops[0]) else None
    tag = name_task(group, ops, text)
    bounds = [int(a.high) - 1 for a in arguments if a.name == EXTENT]
    grown = tuple(Case(((EXTENT, size),)) for size in sorted({max(1, b // part) for b in bounds for part in PARTS}))
    shares = [size / bounds[0] for case in grown for _, size in case.values] or [1.0]
    payload = Payload(
        name=tag,
        text=text.replace(f"@{outline.__name__}", f"@{tag}").replace("__tag__", tag).replace("__weight_of__", tag),
        entry=tag,
        arguments=arguments,
        flops=sum(count_operations(op, share) for op in ops for share in shares),
        reference=ContractionOracle(alone, float(ops[0].operands[-1].start or 0.0)) if alone else None,
        reduction=sum(prod(op.nest.reduced) for op in ops if "reduction" in op.nest.iterators) or 1,
        cases=grown,
        rules=NO_RULES,
    )
    return Task(tag, payload, tuple(ops))


def is_of_arguments(op: Op) -> bool:
    """Return whether a contraction reads arguments of its task only, but for an initial value that is a splat."""
    *factors, start = op.operands
    return all(factor.argument for factor in factors) and bool(start.argument or start.start is not None)


def named(op: Op, names: Sequence[str]) -> Op:
    """Return an operation whose operands have the names of the task arguments that hold them."""
    pairs = zip(op.operands, names, strict=True)
    return replace(op, operands=tuple(replace(operand, argument=name) for operand, name in pairs))


def count_operations(op: Op, share: float) -> float:
    """Return the floating-point operations of an operation if growing loops run over a share of their bound."""
    return float(op.flops) * (share if op.nest.growing else 1.0)


def name_task(group: Group, ops: Sequence[Op], text: str) -> str:
    """Return a readable tag: the contraction or the sizes, with a hash where these are ambiguous."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:6]
    contractions = [op.contraction for op in ops if op.contraction]
    if len(ops) == 1 and contractions:
        return name_contraction(contractions[0]) + ("" if is_of_arguments(ops[0]) else f"_{digest}")
    if len(ops) == 1:
        return name_generic(ops[0], digest)
    sizes = "x".join(map(str, ops[0].nest.sizes))
    elementwise = sum("reduction" not in op.nest.iterators for op in ops)
    if any(op.nest.growing for op in ops):
        return f"growing_{sizes}_{digest}"
    if len(contractions) > 1 and len(contractions) + elementwise < len(ops):
        return f"attention_{sizes}_{digest}"
    return f"{name_contraction(contractions[0])}_fused_{digest}" if contractions else f"rows_{sizes}_{digest}"


def name_contraction(c: Contraction) -> str:
    """Return a readable tag, such as ``matmul_32x192x64_f32_tb_w``: sizes m, n, k; B transposed, B a weight."""
    sizes = "x".join(map(str, ([c.batch] if c.batched else []) + [c.m, c.n, c.k]))
    suffix = ("_ta" if c.transposed_a else "") + ("_tb" if c.transposed_b else "")
    suffix += ("_w" if c.constant_b else "") + (f"_{c.stored_b}" if c.stored_b else "")
    return f"{'batch_matmul' if c.batched else 'matmul'}_{sizes}_{c.dtype}{suffix}"


def name_generic(op: Op, digest: str) -> str:
    """Return a tag of kind, sizes and a hash of the text, equal for identical operations."""
    kind = "gather" if op.gathers else op.kind
    return f"{kind}_{'x'.join(map(str, op.sizes))}_{digest}"
