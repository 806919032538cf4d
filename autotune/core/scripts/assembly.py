"""Assembly of a transform script that applies each task's schedule by tag, and lowers the module to loops and vectors.

The script is plain transform dialect. `schedules/` generates the body for one op; this module adds the matching by
tag, a check of the number of matched ops, and the lowering that all schedules share.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from textwrap import indent

from autotune.core.candidate import Script
from autotune.core.errors import ScheduleError
from autotune.core.host.machine import Machine
from autotune.core.plugs.external_kernel import ExternalKernel
from autotune.core.plugs.family import Family
from autotune.core.plugs.program import Program
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.precision import is_by_tiles
from autotune.core.scripts.marks import BY_TILES, KNOBS, ONLINE, PRECISION, TAG
from autotune.core.space import Config
from autotune.core.task import Task

# From vectors on tensors to vectors on buffers. Each `apply_patterns` is a separate step: merged into one, the greedy
# rewriter did not terminate. No canonicalization after the contractions are unrolled: it would split the accumulators
# into scalars.
LOWERING = """\
// Contractions become vector.contract; transfers read straight from the sliced tensors.
%funcs = transform.structured.match ops{["func.func"]} in %module : (!transform.any_op) -> !transform.any_op
transform.apply_patterns to %funcs {
  transform.apply_patterns.vector.reduction_to_contract
  transform.apply_patterns.vector.transfer_permutation_patterns
  transform.apply_patterns.tensor.fold_tensor_subset_ops_into_vector_transfers
  transform.apply_patterns.canonicalization
} : !transform.any_op
// Accumulators move out of the loops that sum, into registers. Only out of those: slices of results moved out of outer
// ones would each be carried on their own, and bufferization would copy them.
%loops = transform.structured.match ops{["scf.for"]} attributes{autotune.sums} in %module
  : (!transform.any_op) -> !transform.any_op
transform.loop.hoist_loop_invariant_subsets %loops : !transform.any_op
transform.apply_cse to %funcs : !transform.any_op
transform.apply_patterns to %funcs { transform.apply_patterns.canonicalization } : !transform.any_op
// Tensors become buffers; results are written in place where they can be.
%buffers = transform.bufferization.one_shot_bufferize layout{IdentityLayoutMap} %module
  {bufferize_function_boundaries = true, memcpy_op = "linalg.copy"} : (!transform.any_op) -> !transform.any_op
%lowered = transform.structured.match ops{["func.func"]} in %buffers : (!transform.any_op) -> !transform.any_op
transform.apply_cse to %lowered : !transform.any_op
transform.apply_patterns to %lowered { transform.apply_patterns.canonicalization } : !transform.any_op
// Vectors of tiles become vectors of rows: outer products, then fused multiply-adds.
transform.apply_patterns to %lowered {
  transform.apply_patterns.vector.lower_contraction lowering_strategy = "outerproduct"
  transform.apply_patterns.vector.transfer_permutation_patterns
} : !transform.any_op
transform.apply_patterns to %lowered {
  transform.apply_patterns.vector.lower_multi_reduction lowering_strategy = "innerreduction"
} : !transform.any_op
transform.apply_patterns to %lowered {
  transform.apply_patterns.vector.lower_outerproduct
  transform.apply_patterns.vector.lower_transpose lowering_strategy = "shuffle_1d"
} : !transform.any_op
transform.apply_patterns to %lowered {
  transform.apply_patterns.vector.transfer_to_scf max_transfer_rank = 1 full_unroll = true
} : !transform.any_op
transform.apply_patterns to %lowered {
  transform.apply_patterns.vector.lower_transfer max_transfer_rank = 1
} : !transform.any_op
"""

# Before any CSE: it would merge empty tensors of equal shape, and bufferization would alias the buffers of results.
DESTINATIONS = """\
// Ops write to where their result is wanted; every other result gets a buffer of its own.
transform.bufferization.eliminate_empty_tensors %module : !transform.any_op
%empties = transform.structured.match ops{["tensor.empty"]} in %module
  : (!transform.any_op) -> !transform.op<"tensor.empty">
transform.bufferization.empty_tensor_to_alloc_tensor %empties
  : (!transform.op<"tensor.empty">) -> !transform.op<"bufferization.alloc_tensor">
"""

FINISH = """\
// Whole fills and copies that no schedule claimed stay linalg ops; the pass pipeline turns them into loops.
transform.yield
"""


@dataclass(frozen=True)
class Step:
    """Part of the script for one task.

    Attributes:
        tag: Tag of the ops that the step applies to.
        ops: Number of ops of the module that carry the tag.
        program: Program that is applied to them.
        note: Family and config, a comment for users.
        config: Value of every knob, recorded as an attribute of the task's sequence.
    """

    tag: str
    ops: int
    program: Program
    note: str = ""
    config: Config = field(default_factory=dict)

    @property
    def rewrites(self) -> Rewrites:
        """Rewrites that are applied to the ops before the script, or that the script requests."""
        return self.program.rewrites


def write_step(
    task: Task, family: Family, config: Config, machine: Machine, *, alone: bool = False, note: str = ""
) -> Step:
    """Return the part of the script for one task, by its family for a config.

    Args:
        task: Task whose ops are scheduled.
        family: Family that covers the task.
        config: Value of every knob of the family.
        machine: Host that the script is generated for.
        alone: Whether the module is the task's own payload, with one such op, instead of the whole module.
        note: Comment for users, such as `origin`.
    """
    ops = 1 if alone else task.occurrences
    return Step(task.tag, ops, family.plan(task, config, machine, ops), note, config)


def origin(task: Task, family: Family, config: Config) -> str:
    """Return the comment on a step's task, family and config."""
    knobs = ", ".join(f"{name} = {value}" for name, value in config.items())
    return f"{task.tag} by schedule '{family.name}':\n{knobs}"


def panels_of(steps: Sequence[Step]) -> tuple[tuple[str, int], ...]:
    """Return the tags whose constant B is packed into panels, with the columns of a panel."""
    return tuple((step.tag, step.rewrites.panel) for step in steps if step.rewrites.panel)


def kernels_of(steps: Sequence[Step]) -> tuple[ExternalKernel, ...]:
    """Return the external kernels of the steps."""
    return tuple(step.program.kernel for step in steps if step.program.kernel is not None)


def script_of(steps: Sequence[Step]) -> Script:
    """Return the whole script for a worker: text, or a single user script, which the worker instantiates."""
    return (steps[0].program.alone if len(steps) == 1 else None) or assemble(steps)


def assemble(steps: Sequence[Step]) -> str:
    """Generate the whole script: a named sequence for each task, and the entry ``@__transform_main``.

    Example:
        >>> print(assemble([]).splitlines()[0])
        module attributes {transform.with_named_sequence} {
    """
    if len(steps) == 1 and steps[0].program.whole:
        return steps[0].program.whole
    external = [step for step in steps if step.program.kernel is not None]
    notes = "".join(f"// {line}\n" for step in external for line in step.note.splitlines())
    steps = [step for step in steps if step.program.kernel is None]
    sequences = notes + "".join(step.program.sequences for step in steps)
    sequences += "".join(named_sequence(index, step) for index, step in enumerate(steps))
    calls = "".join(call(index, step) for index, step in enumerate(steps))
    main = (
        "transform.named_sequence @__transform_main(%module: !transform.any_op {transform.consumed}) {\n"
        + indent(calls + DESTINATIONS + LOWERING + FINISH, "  ")
        + "}\n"
    )
    attributes = f"transform.with_named_sequence{online(steps)}{rounded(steps)}"
    return f"module attributes {{{attributes}}} {{\n{indent(sequences + main, '  ')}}}\n"


def online(steps: Sequence[Step]) -> str:
    """Return the attribute with the block sizes of tasks that are rewritten to an online softmax; empty for none."""
    by_tag = ((step.tag, step.rewrites.blocks) for step in steps)
    entries = [f"{tag} = {{{blocks.text}}}" for tag, blocks in by_tag if blocks]
    return f", {ONLINE} = {{{', '.join(entries)}}}" if entries else ""


def rounded(steps: Sequence[Step]) -> str:
    """Return the attribute with the precisions of tasks whose operands are rounded; empty for none."""
    entries = [f'{step.tag} = "{step.rewrites.precision}"' for step in steps if step.rewrites.precision]
    return f", {PRECISION} = {{{', '.join(entries)}}}" if entries else ""


def precisions_in(script: str) -> tuple[str, ...]:
    """Return the names of the precisions in an assembled script, each once.

    Example:
        >>> precisions_in('module attributes {autotune.precision = {a = "bf16", b = "int8", c = "bf16"}} {')
        ('bf16', 'int8')
    """
    attribute = re.search(rf"{re.escape(PRECISION)} = {{([^}}]*)}}", script)
    return tuple(dict.fromkeys(re.findall(r'"(\w+)"', attribute[1]))) if attribute else ()


def multiplies_by_tiles(script: str) -> bool:
    """Return whether an assembled script uses a matrix unit.

    Example:
        >>> multiplies_by_tiles('module attributes {autotune.precision = {a = "tile_bf16"}} {')
        True
    """
    return f'"{BY_TILES}"' in script or any(map(is_by_tiles, precisions_in(script)))


def before_lowering(script: str) -> str:
    """Return a script without the lowering that all schedules share.

    Raises:
        ScheduleError: The script does not end in that lowering.
    """
    lowering = indent(DESTINATIONS + LOWERING, "    ")
    if lowering not in script:
        raise ScheduleError("the script must end as this release writes it, it does not; tune again to see this stage")
    return script.replace(lowering, "")


def named_sequence(index: int, step: Step) -> str:
    """Generate the named sequence of a task, with its note as a comment."""
    note = "".join(f"// {line}\n" for line in step.note.splitlines())
    knobs = ", ".join(f"{name} = {json.dumps(value)}" for name, value in step.config.items())
    attributes = f" attributes {{{KNOBS} = {{{knobs}}}}}" if knobs else ""
    head = f"transform.named_sequence @task_{index}(%op: !transform.any_op {{transform.consumed}}){attributes} {{\n"
    return f"{note}{head}" + indent(f"{step.program.body.rstrip()}\ntransform.yield\n", "  ") + "}\n"


def call(index: int, step: Step) -> str:
    """Generate ops that match a task's ops by tag, check their number, and include its sequence for each.

    The check is explicit, since an empty match does not fail.
    """
    return f"""\
%ops_{index} = transform.structured.match attributes{{{TAG} = "{step.tag}"}} in %module
  : (!transform.any_op) -> !transform.any_op
%found_{index} = transform.num_associations %ops_{index} : (!transform.any_op) -> !transform.param<i64>
%wanted_{index} = transform.param.constant {step.ops} : i64 -> !transform.param<i64>
transform.match.param.cmpi eq %found_{index}, %wanted_{index} : !transform.param<i64>
transform.foreach %ops_{index} : !transform.any_op {{
^bb0(%op: !transform.any_op):
  transform.include @task_{index} failures(propagate) (%op) : (!transform.any_op) -> ()
}}
"""
