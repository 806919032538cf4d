"""Polyhedral schedules: a task's ops become affine loops, which upstream's affine passes fuse, tile, jam and vectorize.

    m, e, s, y of a softmax   ->   for row: (for k: m = max(m, x);  for k: s += (e = exp(x - m));  for k: y = e / s)

The script only marks ops, and interchanges the loops of a single op; the passes operate on buffers, not tensors
(`passes.py`). More specific families are usually faster (docs/results.md): this one is searched only on request.
"""

from dataclasses import dataclass
from itertools import permutations

from autotune.contrib.affine.plan import FUSIONS, LAST, LOOPS, MARK, AffinePlan
from autotune.core.host.machine import Machine
from autotune.core.ops.op import LoopNest
from autotune.core.plugs.family import Family
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.space import Config, Constraint, Knob, Space, largest_up_to
from autotune.core.task import Task
from schedules import moves
from schedules.blocking import fitting_vectors
from schedules.functions import choose_functions, function_defaults, function_knobs
from schedules.group import find_members
from schedules.moves import ANY, Script

VECTORS = (1, 2, 4, 0)
JAMS = (1, 2, 4, 8)
TILES = (8, 16, 32, 64, 128, 256)
MOST_TILED = 3  # innermost loops of an op that may be tiled
MOST_TURNED = 3  # loops of an op of which all orders are tried


@dataclass(frozen=True)
class Affine(Family):
    """Any op with static loops, by MLIR's affine passes: tiling, permutation, unroll-and-jam, vectorization."""

    name: str = "affine"
    fallback: bool = True
    asked: bool = True

    def covers(self, task: Task) -> bool:
        """Return whether the loops of the task are static and its indices affine."""
        return len(task.nest.sizes) > 0 and not task.grows and not task.root.gathers

    def space(self, task: Task, machine: Machine) -> Space:
        """Return the knobs for the options of the passes."""
        nest, several = main_nest(task), task.is_group or task.root.filled is not None
        knobs = [Knob("fuse", tuple(reversed(FUSIONS)))] if several else []
        if not task.is_group and len(orders(nest)) > 1:
            knobs.append(Knob("order", orders(nest)))
        knobs += [Knob(f"tile_{d}", values) for d, values in tiles(nest).items()]
        knobs += [Knob("scalars", (True, False)), Knob("vectors", VECTORS)]
        if sums(task):
            knobs.append(Knob("reductions", (True, False)))
        if len(nest.sizes) > 1:
            knobs.append(Knob("jam", JAMS))

        def carried(config: Config) -> bool:
            return not config["reductions"] or bool(config["scalars"] and config["vectors"])

        def small(config: Config) -> bool:
            return int(config["jam"]) * max(1, int(config["vectors"])) <= machine.vector_registers

        vectors = Constraint("sums become vectors where loops carry them, and there are vectors", carried)
        constraints = [vectors] * sums(task)
        if len(nest.sizes) > 1:
            constraints.append(Constraint("jammed vectors fit the registers", small))
        return Space((*knobs, *function_knobs(task)), tuple(constraints))

    def default(self, task: Task, machine: Machine) -> Config:
        """Return fusion where it pays, a few vectors of a row, and a few rows of a product jammed."""
        config = {knob.name: knob.values[0] for knob in self.space(task, machine).knobs}
        short = not task.is_group and task.nest.iterators[-1] == "reduction" and task.nest.sizes[-1] < machine.lanes
        columns = task.contractions[0].n if task.contractions else row_of(task.nest, summed=not short)
        most = 4 if machine.vector_registers > 16 else 2
        config["vectors"] = largest_up_to(most, fitting_vectors(columns, machine.lanes))
        if "jam" in config and (task.contractions or task.root.has_products):
            config["jam"] = 4
        if "fuse" in config:
            config["fuse"] = "greedy"
        if short:
            config["reductions"] = False  # a loop around the short sum is vectorized instead
        return {**config, **function_defaults(task)}

    def build(self, task: Task, config: Config, machine: Machine) -> str:
        """Write the script: mark ``%op`` and all other ops of a group."""
        space = self.space(task, machine)
        space.check(config)
        script = Script(space.knobs, config)
        ops, fills = find_members(script, task.ops, "%op")
        if task.root.filled is not None:
            fills.append(moves.producer(script, "%op", task.root.filled))
        for op in ops:
            choose_functions(script, config, op)
        order = order_of(config, len(task.nest.sizes))
        if order != list(range(len(order))):
            ops = [interchange(script, ops[0], order)]
        plan = plan_of(task, config, machine)
        for op in (*ops[1:], *filter(None, fills)):
            mark(script, op, plan.text)
        mark(script, ops[0], plan.text.replace("{", f"{{{LAST}, ", 1))
        return script.text

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """Return the rewrite that lowers marked ops to affine loops."""
        return Rewrites(needed=(LOOPS,))


def plan_of(task: Task, config: Config, machine: Machine) -> AffinePlan:
    """Return the options of the passes for a config."""
    nest = main_nest(task)
    steps = [int(config.get(f"tile_{d}", 0)) for d in order_of(config, len(nest.sizes))]
    return AffinePlan(
        fuse=str(config.get("fuse", "none")),
        tiles=tuple(steps) if any(steps) else (),
        scalars=bool(config["scalars"]),
        lanes=int(config["vectors"]) * machine.lanes,
        reductions=bool(config.get("reductions", False)),
        jam=int(config.get("jam", 1)),
    )


def main_nest(task: Task) -> LoopNest:
    """Return the loops that are tiled: those of a product or window op if there is one, else of the task's op."""
    products = [op.nest for op in task.ops if op.has_products]
    return products[0] if products else task.nest


def row_of(nest: LoopNest, *, summed: bool) -> int:
    """Return the trip count of the innermost loop, or of the innermost parallel loop."""
    loops = [
        size for size, iterator in zip(nest.sizes, nest.iterators, strict=True) if summed or iterator == "parallel"
    ]
    return loops[-1] if loops else 1


def sums(task: Task) -> bool:
    """Return whether an op of the task reduces."""
    return any(op.nest.reduced for op in task.ops)


def tiles(nest: LoopNest) -> dict[int, tuple[int, ...]]:
    """Return the tile sizes of the innermost loops: divisors of their trip counts."""
    divisors = {
        d: tuple(step for step in TILES if step < size and size % step == 0) for d, size in enumerate(nest.sizes)
    }
    tileable = [d for d, steps in divisors.items() if steps][-MOST_TILED:] if len(nest.sizes) > 1 else []
    return {d: (0, *divisors[d]) for d in tileable}


def orders(nest: LoopNest) -> tuple[str, ...]:
    """Return loop orders, the original first: all of a shallow nest, else reductions around the last parallel loop."""
    depth = len(nest.sizes)
    if depth <= MOST_TURNED:
        return tuple(" ".join(map(str, order)) for order in permutations(range(depth)))
    parallel = [d for d, iterator in enumerate(nest.iterators) if iterator == "parallel"]
    reductions_outside = (
        [*(d for d in range(depth) if d != parallel[-1]), parallel[-1]] if parallel else list(range(depth))
    )
    return tuple(dict.fromkeys(" ".join(map(str, order)) for order in (range(depth), reductions_outside)))


def order_of(config: Config, depth: int) -> list[int]:
    """Return the loops of an op in the config's order, outermost first."""
    return [int(d) for d in str(config["order"]).split()] if "order" in config else list(range(depth))


def interchange(script: Script, op: str, order: list[int]) -> str:
    """Interchange an op's loops; consumes `op`.

    for i: for j: y[i, j] = ...   ->   for j: for i: y[i, j] = ...
    """
    generic, interchanged = moves.generalize(script, op), script.fresh("turned")
    script.emit(
        f"{interchanged} = transform.structured.interchange {generic} iterator_interchange = {order} : ({ANY}) -> {ANY}"
    )
    return interchanged


def mark(script: Script, op: str, text: str) -> None:
    """Annotate an op with the options of its lowering."""
    plan = script.fresh("plan")
    script.emit(f"{plan} = transform.param.constant {text} -> !transform.any_param")
    script.emit(f'transform.annotate {op} "{MARK}" = {plan} : {ANY}, !transform.any_param')


AFFINE_LOOPS = Affine()
