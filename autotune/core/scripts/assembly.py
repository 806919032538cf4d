"""Assembly: one transform script that applies each task's schedule by tag, then lowers the module to loops and vectors.

The script is plain transform dialect. `schedules/` writes the body for one op; what surrounds it is here:
matching by tag, the check that the match found what it should, and the lowering all schedules share.
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

# From vectors on tensors to vectors on buffers. Each `apply_patterns` is a step of its own: merged into one, the
# rewriter looped until memory ran out. No canonicalization after the contractions are unrolled: it would take
# the accumulators apart into scalars.
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

# Before any CSE: it would merge empty tensors of one shape, and bufferization would give several results one buffer.
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
    """A task's share of the script.

    Attributes:
        tag: Tag of the ops that the step applies to.
        ops: Number of ops of the module that carry the tag.
        program: What is done with them.
        note: Family and config, for people.
        config: Value of every knob; an attribute of the task's sequence. Tile sizes are ops of the script, too.
    """

    tag: str
    ops: int
    program: Program
    note: str = ""
    config: Config = field(default_factory=dict)

    @property
    def rewrites(self) -> Rewrites:
        """Rewrites of ours that are applied to the ops first, or that the script asks for."""
        return self.program.rewrites


def write_step(
    task: Task, family: Family, config: Config, machine: Machine, *, alone: bool = False, note: str = ""
) -> Step:
    """A task's share of the script, as its family writes it for a config.

    Args:
        task: Task whose ops are scheduled.
        family: Covers the task.
        config: Value of every knob of the family.
        machine: Host that the script is written for.
        alone: The module is the task's own payload, which holds one such op; else the whole it was found in.
        note: Note for people, such as `origin`.
    """
    ops = 1 if alone else task.occurrences
    return Step(task.tag, ops, family.plan(task, config, machine, ops), note, config)


def origin(task: Task, family: Family, config: Config) -> str:
    """What a script says about where a step comes from."""
    knobs = ", ".join(f"{name} = {value}" for name, value in config.items())
    return f"{task.tag} by schedule '{family.name}':\n{knobs}"


def panels_of(steps: Sequence[Step]) -> tuple[tuple[str, int], ...]:
    """Tags whose constant B is stored in panels, with their columns."""
    return tuple((step.tag, step.rewrites.panel) for step in steps if step.rewrites.panel)


def kernels_of(steps: Sequence[Step]) -> tuple[ExternalKernel, ...]:
    """Code of others, of those steps that have some."""
    return tuple(step.program.kernel for step in steps if step.program.kernel is not None)


def script_of(steps: Sequence[Step]) -> Script:
    """The whole script, as a worker takes it: a user's own alone is written there."""
    return (steps[0].program.alone if len(steps) == 1 else None) or assemble(steps)


def assemble(steps: Sequence[Step]) -> str:
    """Write the whole script: a named sequence per task, and the entry ``@__transform_main``.

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
    """The script's attribute that says which tasks become loops over blocks first; empty if none does."""
    blocks = ((step.tag, step.rewrites.blocks) for step in steps)
    entries = [f"{tag} = {{{found.text}}}" for tag, found in blocks if found]
    return f", {ONLINE} = {{{', '.join(entries)}}}" if entries else ""


def rounded(steps: Sequence[Step]) -> str:
    """The script's attribute that says of which tasks operands are rounded, and to what; empty if of none."""
    entries = [f'{step.tag} = "{step.rewrites.precision}"' for step in steps if step.rewrites.precision]
    return f", {PRECISION} = {{{', '.join(entries)}}}" if entries else ""


def precisions_in(script: str) -> tuple[str, ...]:
    """What a script that was assembled rounds operands to, by names, each once.

    Example:
        >>> precisions_in('module attributes {autotune.precision = {a = "bf16", b = "int8", c = "bf16"}} {')
        ('bf16', 'int8')
    """
    attribute = re.search(rf"{re.escape(PRECISION)} = {{([^}}]*)}}", script)
    return tuple(dict.fromkeys(re.findall(r'"(\w+)"', attribute[1]))) if attribute else ()


def multiplies_by_tiles(script: str) -> bool:
    """Whether a script that was assembled leaves products to a matrix unit.

    Example:
        >>> multiplies_by_tiles('module attributes {autotune.precision = {a = "tile_bf16"}} {')
        True
    """
    return f'"{BY_TILES}"' in script or any(map(is_by_tiles, precisions_in(script)))


def before_lowering(script: str) -> str:
    """A script with its schedules alone, without what all scripts end in.

    Raises:
        ScheduleError: The script ends in something else.
    """
    lowering = indent(DESTINATIONS + LOWERING, "    ")
    if lowering not in script:
        raise ScheduleError("the script must end as this release writes it, it does not; tune again to see this stage")
    return script.replace(lowering, "")


def named_sequence(index: int, step: Step) -> str:
    """The task's sequence, with its note as a comment."""
    note = "".join(f"// {line}\n" for line in step.note.splitlines())
    knobs = ", ".join(f"{name} = {json.dumps(value)}" for name, value in step.config.items())
    attributes = f" attributes {{{KNOBS} = {{{knobs}}}}}" if knobs else ""
    head = f"transform.named_sequence @task_{index}(%op: !transform.any_op {{transform.consumed}}){attributes} {{\n"
    return f"{note}{head}" + indent(f"{step.program.body.rstrip()}\ntransform.yield\n", "  ") + "}\n"


def call(index: int, step: Step) -> str:
    """Match the task's ops by tag, insist on their number (an empty match is silent), and include its sequence."""
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
