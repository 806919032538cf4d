"""Lowering of marked ops on buffers to affine loops, which upstream's affine passes fuse, tile, jam and vectorize.

    x, m, e, s, y of a softmax   ->   for row: (for k: m = max(m, x);  for k: s += (e = exp(x - m));  for k: y = e / s)

A schedule marks ops with the options of the passes (`plan`). Consecutive ops are outlined into a function, so that
nothing else is fused with their loops, and the result is inlined again. Two steps are ours, as upstream has none:
loop-carried sums (`sums`), and peeling of a loop's last iterations, so that only those are masked. Loops that upstream
would vectorize incorrectly are protected from it.
"""

from mlir import ir
from mlir.dialects import scf
from mlir.dialects.transform import interpreter

from autotune.compiler.ir.module import every_op, run_passes
from autotune.contrib.affine.access import (
    bounds,
    can_unroll_and_jam,
    carries,
    goes_on,
    is_right_in_vectors,
    looks_contiguous,
    loops_of,
    step_of,
    trips,
)
from autotune.contrib.affine.plan import MOST_DEPTH, AffinePlan
from autotune.contrib.affine.runs import Outline, check_folded, find_runs, following
from autotune.contrib.affine.sums import carry_sums
from autotune.core.errors import CompileError

JAMMED = "autotune.jammed"
TIDY = "canonicalize,cse"
WHOLE = 1 << 30  # tile size that leaves a loop untiled


def write_affine_loops(module: ir.Module) -> None:
    """Replace the marked ops of a bufferized module by loops, in place.

    Raises:
        CompileError: A mark has invalid options, or a pass fails.
    """
    for run in list(find_runs(every_op(module))):
        plan = read_plan(run.plan)
        outline = Outline.of(run)
        lower(outline.module, plan)
        outline.inline()


def read_plan(attribute: ir.Attribute) -> AffinePlan:
    """Parse the options in a mark.

    Raises:
        CompileError: Stage ``transform``; the mark is invalid.
    """
    try:
        values = {named.name: named.attr for named in ir.DictAttr(attribute)}
        plan = AffinePlan(
            fuse=ir.StringAttr(values["fuse"]).value,
            tiles=tuple(int(ir.IntegerAttr(step).value) for step in ir.ArrayAttr(values["tiles"])),
            scalars=bool(ir.BoolAttr(values["scalars"]).value),
            lanes=int(ir.IntegerAttr(values["lanes"]).value),
            reductions=bool(ir.BoolAttr(values["reductions"]).value),
            jam=int(ir.IntegerAttr(values["jam"]).value),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CompileError("transform", f"autotune.affine must read {AffinePlan().text}, is {attribute}") from error
    if plan.fault:
        raise CompileError("transform", f"autotune.affine: {plan.fault}")
    return plan


def lower(module: ir.Module, plan: AffinePlan) -> None:
    """Lower the ops of a function to loops and vectors."""
    run(module, "convert-linalg-to-affine-loops", "affine-fold-memref-alias-ops", TIDY)
    check_folded(module.operation)
    run(module, *fusion(plan), *tiling(plan), TIDY)
    if plan.scalars:
        run(module, "affine-scalrep")
        carry_sums(module.operation)
        run(module, "affine-scalrep", TIDY)
    if plan.jam > 1 and mark_unroll_and_jam(module, plan):
        unroll_and_jam(module, plan.jam)
        run(module, "affine-loop-normalize", TIDY, *(["affine-scalrep"] if plan.scalars else []))
    if plan.lanes:
        split_rests(module, plan)
        keep_scalar(module, plan.lanes)
        options = f"virtual-vector-size={plan.lanes} vectorize-reductions={str(plan.reductions).lower()}"
        options += " test-fastest-varying=0"  # along rows of memory alone
        run(module, f"affine-super-vectorize{{{options}}}")
        unmask(module, plan.lanes)
    run(module, "affine-loop-invariant-code-motion", "lower-affine", TIDY)


def run(module: ir.Module, *passes: str) -> None:
    """Run passes on a module's functions."""
    run_passes(module, f"builtin.module(func.func({','.join(passes)}))")


def fusion(plan: AffinePlan) -> list[str]:
    """Return the pass that fuses loops, if any."""
    if plan.fuse == "none":
        return []
    mode, most = ("greedy", " maximal=true") if plan.fuse == "maximal" else (plan.fuse, "")
    return [f"affine-loop-fusion{{mode={mode}{most}}}"]


def tiling(plan: AffinePlan) -> list[str]:
    """Return the passes that tile loops, if any; loops over tile elements are normalized to start at 0."""
    if not any(plan.tiles):
        return []
    steps = [step or WHOLE for step in plan.tiles] + [WHOLE] * (MOST_DEPTH - len(plan.tiles))
    sizes = ",".join(map(str, steps))
    return [
        f"affine-loop-tile{{tile-sizes={sizes}}}",
        "affine-loop-normalize{promote-single-iter=true}",
        "affine-simplify-structures",
    ]


def mark_unroll_and_jam(module: ir.Module, plan: AffinePlan) -> bool:
    """Mark loops for unroll-and-jam: the innermost ones that are legal and not vectorized."""
    marked = False
    for loop in loops_of(module.operation):
        inner = [each for each in loops_of(loop) if each != loop]
        candidates = [each for each in inner if can_unroll_and_jam(each) and not goes_on(each)]
        count = trips(loop)
        if (
            inner
            and not candidates
            and count is not None
            and count >= plan.jam
            and can_unroll_and_jam(loop)
            and not goes_on(loop)
        ):
            loop.attributes[JAMMED] = ir.UnitAttr.get()
            marked = True
    return marked


def unroll_and_jam(module: ir.Module, factor: int) -> None:
    """Unroll and jam the marked loops."""
    any_op = "!transform.any_op"
    script = ir.Module.parse(
        "module attributes {transform.with_named_sequence} {\n"
        f"transform.named_sequence @__transform_main(%module: {any_op}) {{\n"
        f"%loops = transform.structured.match attributes{{{JAMMED}}} in %module : ({any_op}) -> {any_op}\n"
        f"transform.loop.unroll_and_jam %loops {{factor = {factor}}} : {any_op}\n"
        "transform.yield\n} }"
    )
    try:
        interpreter.apply_named_sequence(module.operation, script.body.operations[0], script.operation)
    except (ValueError, ir.MLIRError) as error:
        raise CompileError("transform", f"loops cannot be unrolled and jammed by {factor}: {error}") from error


def split_rests(module: ir.Module, plan: AffinePlan) -> None:
    """Peel the last iterations of loops that are vectorized, if the vector length does not divide the trip count."""
    for loop in reversed(loops_of(module.operation)):
        count = trips(loop)
        has_remainder = count is not None and count > plan.lanes and count % plan.lanes > 0 and goes_on(loop)
        if (
            count is not None
            and has_remainder
            and is_right_in_vectors(loop, 1)
            and (plan.reductions or not carries(loop))
        ):
            split(loop, count // plan.lanes * plan.lanes)


def keep_scalar(module: ir.Module, lanes: int) -> None:
    """Protect loops from incorrect vectorization: upstream skips loops that contain an op with a region."""
    for loop in loops_of(module.operation):
        if looks_contiguous(loop) and not (goes_on(loop) and is_right_in_vectors(loop, lanes)):
            with ir.InsertionPoint.at_block_begin(loop.regions[0].blocks[0]), loop.location:
                region = scf.ExecuteRegionOp([])
                with ir.InsertionPoint(region.regions[0].blocks.append()):
                    scf.yield_([])


def split(loop: ir.Operation, point: int) -> None:
    """Split a loop in two at iteration `point`."""
    middle = ir.AffineMapAttr.get(ir.AffineMap.get(0, 0, [ir.AffineConstantExpr.get(point)]))
    rest = loop.clone(ir.InsertionPoint(following(loop)))
    rest.attributes["lowerBoundMap"] = middle
    for old, new in zip(loop.results, rest.results, strict=True):
        old.replace_all_uses_with(new)
    for number, result in enumerate(loop.results):
        rest.operands[len(rest.operands) - len(loop.results) + number] = result
    loop.attributes["upperBoundMap"] = middle


def unmask(module: ir.Module, lanes: int) -> None:
    """Mark vector transfers as in bounds in loops whose trip count is a multiple of the vector length."""
    for loop in loops_of(module.operation):
        if step_of(loop) == lanes and (ends := bounds(loop)) is not None and (ends[1] - ends[0]) % lanes == 0:
            for op in every_op(loop):
                if op.name in ("vector.transfer_read", "vector.transfer_write"):
                    op.attributes["in_bounds"] = ir.ArrayAttr.get([ir.BoolAttr.get(True)])
