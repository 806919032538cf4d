"""Built-in rewrites around the script, in order, each a value with a name and a version.

The compiled program depends on them as well as on the script. So their names and versions are part of every trial's
identity and of every bundle, and `autotune show --stage NAME` prints a module after each of them. The rewrite in
``passes/zeros.py`` is called ``zeros``; a change of its output raises its version.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mlir import ir

from autotune.compiler.ir.module import find_function, parse, run_passes
from autotune.compiler.panel_weight import PanelWeight
from autotune.compiler.passes.apart import Apart, set_apart
from autotune.compiler.passes.arena import check_room, plan_arena
from autotune.compiler.passes.block_copies import copy_blocks
from autotune.compiler.passes.byte_rounding import round_bytes, rounds
from autotune.compiler.passes.destinations import write_task_to_results
from autotune.compiler.passes.dots import write_dots
from autotune.compiler.passes.empty_handles import insist
from autotune.compiler.passes.extrema import look_for_nan_apart
from autotune.compiler.passes.fastmath import flags_of_extrema, keep_flags
from autotune.compiler.passes.foralls import has_parallel_loops, serialise_foralls, serialise_nested
from autotune.compiler.passes.kept_parts import copy_kept, replaces_parts
from autotune.compiler.passes.masked_ends import mask_ends
from autotune.compiler.passes.narrow import narrow_in_call
from autotune.compiler.passes.online_softmax import go_online
from autotune.compiler.passes.panel_loads import store_in_panels
from autotune.compiler.passes.panels import form_named, insert_panels
from autotune.compiler.passes.pipelines import plans_arena, threads_of
from autotune.compiler.passes.prefetch import prefetch_copied
from autotune.compiler.passes.prefetch_rows import prefetch_rows
from autotune.compiler.passes.regions import share_regions
from autotune.compiler.passes.repeated import repeats_tasks, share_nests
from autotune.compiler.passes.scratch_results import share_results
from autotune.compiler.passes.skip_masked import skip_masked
from autotune.compiler.passes.skip_pads import pads_sums, skip_pads
from autotune.compiler.passes.stencil import write_stencils
from autotune.compiler.passes.vector_math import approximate
from autotune.compiler.passes.zeros import start_from_zero
from autotune.compiler.script.apply import run_script
from autotune.compiler.script.halves import halves_of, is_ours
from autotune.compiler.script.instantiate import write_concrete
from autotune.compiler.script.marked_ops import read_blocks
from autotune.core.arena_plan import BufferPlan
from autotune.core.candidate import Candidate
from autotune.core.host.matrix_unit import tiles_here
from autotune.core.payload import Payload
from autotune.core.plugs.external_kernel import ExternalKernel
from autotune.core.plugs.rewrites import MASKED_ENDS, Blocks
from autotune.core.precision import DOTS, PRECISIONS, Precision
from autotune.core.scripts.marks import MASKED, ONLINE, PRECISION
from autotune.core.scripts.parametric import ChosenScript

SCRIPT = "script"  # the step between the rewrites before a script and those after it


@dataclass
class Unit:
    """A module during its compilation from a payload to the LLVM dialect, which changes it in place.

    Attributes:
        module: The module.
        entry: Name of the entry function; empty where only passes run.
        roles: Role of each argument of the entry function.
        text: Source text of the script; `None` if there is no script.
        source: Name of the script in error messages.
        script: Parsed script.
        panels: Columns of the panels that B is stored in, by tag of the op that reads it so.
        flags: Fast-math flags of all maxima and minima, by operation name, from the payload.
        weights: Arguments of the entry function besides the payload's.
        buffers: Arena plan of the intermediate buffers; `None` before they have offsets.
        threads: Threads that run parallel loops; with one thread these become sequential loops.
        parallel: Whether parallel loops are left after the arena is planned.
        kernels: External kernels that compute some tasks.
        plans_arena: Whether the pass pipeline begins with the arena.
        matrix_unit: Whether tile products use instructions of the matrix unit; otherwise, they are emulated.
        repeated: Whether ops share a tag, or many ops have one, so that equal loop nests are outlined to one function.
        pads: Whether slices of tensors are filled, as pads are.
        rounds: Whether values are rounded to even, as in quantization.
        alone: Whether the module is a task alone, which partitioning has not rewritten.
        apart: Fusion groups that are outlined into functions while schedules are applied.
    """

    module: ir.Module
    entry: str = ""
    roles: tuple[str, ...] = ()
    text: str | None = None
    source: str = "schedule"
    script: ir.Module | None = None
    panels: Mapping[str, int] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)
    weights: tuple[PanelWeight, ...] = ()
    buffers: BufferPlan | None = None
    threads: int = 1
    parallel: bool = False
    kernels: tuple[ExternalKernel, ...] = ()
    plans_arena: bool = False
    matrix_unit: bool = False
    repeated: bool = False
    pads: bool = False
    rounds: bool = False
    alone: bool = False
    apart: list[Apart] = field(default_factory=list)

    @classmethod
    def open(cls, payload: Payload, candidate: Candidate) -> "Unit":
        """Parse a payload and the script of a candidate in the current context.

        Raises:
            CompileError: Stage ``parse``, with line and column; or ``transform`` for a choice that its op rejects.
        """
        module, script = parse(candidate.text or payload.text, payload.name), candidate.script
        if script is not None:
            run_passes(module, "builtin.module(strip-debuginfo)")  # diagnostics then locate in the script
        roles = tuple(argument.role for argument in payload.arguments)
        threads = threads_of(candidate.pipeline)
        unit = cls(module, payload.entry, roles, kernels=candidate.kernels, threads=threads)
        unit.matrix_unit, unit.alone = tiles_here() == "amx", script is not None and candidate.text is None
        if isinstance(script, ChosenScript):
            unit.text, unit.source, unit.script = script.text, script.source, write_concrete(script)
        elif script is not None:
            unit.text, unit.script = script, parse(script, "schedule")
        if script is not None:
            unit.panels, unit.flags = dict(candidate.panels), flags_of_extrema(module)
            alone = plans_arena(candidate.pipeline) and threads == 1  # threads share regions instead
            unit.repeated = alone and repeats_tasks(unit.function)
            unit.rounds = rounds(module)
            unit.pads = pads_sums(unit.function)
        return unit

    @property
    def function(self) -> ir.OpView:
        """The entry function."""
        return find_function(self.module, self.entry)

    @property
    def blocks(self) -> dict[str, Blocks]:
        """Block sizes of the tasks with an online softmax, by tag."""
        attributes = self.script.operation.attributes if self.script is not None else {}
        if ONLINE not in attributes:
            return {}
        return {named.name: read_blocks(named.attr) for named in attributes[ONLINE]}

    @property
    def forms(self) -> dict[str, str]:
        """Storage forms of weights that the script requests, by tag: a precision, or another form."""
        attributes = self.script.operation.attributes if self.script is not None else {}
        if PRECISION not in attributes:
            return {}
        return {named.name: ir.StringAttr(named.attr).value for named in attributes[PRECISION]}

    @property
    def precisions(self) -> dict[str, Precision]:
        """Precisions that the script requests for operands of its tasks, by tag."""
        return {tag: PRECISIONS[name] for tag, name in self.forms.items() if name in PRECISIONS}


@dataclass(frozen=True)
class Rewrite:
    """A rewrite of ours.

    Attributes:
        name: Name of the rewrite's file in ``passes/``, with dashes.
        version: Number raised whenever its output for the same module changes; 0 for the script, which a trial holds.
        apply: Function that changes a unit in place.
        before: Step that it runs at the beginning of. A rewrite that is part of a step, and is not tied to a number of
            threads, only acts where a script or a candidate requests it. The family of that candidate names it and its
            version, so that other trials keep their identity.
        behind: Step that it runs at the end of, likewise.
        needed: Predicate that tells whether a unit requests it.
        least_threads: Number of threads from which on it applies without a request.
    """

    name: str
    version: int
    apply: Callable[[Unit], None]
    before: str = ""
    behind: str = ""
    needed: Callable[[Unit], bool] = lambda _: True
    least_threads: int = 1

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def is_step(self) -> bool:
        """Whether it is a step by itself rather than part of one."""
        return not (self.before or self.behind)


def online_softmax(unit: Unit) -> None:
    """Rewrite groups for which the script requests an online softmax to loops over blocks of columns."""
    go_online(unit.function, unit.blocks)


def panels(unit: Unit) -> None:
    """Let contractions read prepacked weights from new arguments; pack B at run time for other reduced precisions."""
    narrow_in_call(
        unit.function, {tag: precision for tag, precision in unit.precisions.items() if tag not in unit.panels}
    )
    forms = {tag: form_named(name) for tag, name in unit.forms.items()}
    unit.weights = insert_panels(unit.function, unit.roles, unit.panels, forms)


def empty_handles(unit: Unit) -> None:
    """Make the script fail where a handle that it uses is empty."""
    if unit.script is not None:
        insist(unit.script)


def apart(unit: Unit) -> None:
    """Outline fusion groups into functions until the script's schedules are applied."""
    unit.apart = set_apart(unit.module, unit.function)


def apply_script(unit: Unit) -> None:
    """Apply the script; if groups are outlined, its schedules apply to those, and its lowering to the whole module."""
    text = unit.text or ""
    if unit.script is None or not unit.apart:
        run_script(unit.module, unit.script, text, unit.source)
        return
    schedules, lowering = halves_of(unit.script)
    run_script(unit.module, schedules, text, unit.source)
    for group in unit.apart:
        group.bring_back()
    run_script(unit.module, lowering, text, unit.source)


def share_loops(unit: Unit) -> None:
    """Keep only the outermost parallel loops parallel."""
    serialise_nested(unit.module)
    unit.parallel = has_parallel_loops(unit.module)


def arena(unit: Unit) -> None:
    """Place intermediate buffers in one arena, with a part per thread for allocations in bodies of parallel loops."""
    if unit.threads == 1:
        serialise_foralls(unit.module)
    unit.buffers = plan_arena(unit.module, unit.threads)
    check_room(unit.buffers.peak_bytes)


def has_several_threads(unit: Unit) -> bool:
    """Return whether parallel loops run on several threads."""
    return unit.threads > 1


# In the order in which trials name them. Steps are applied in this order: those before the script, the script, those on
# tensors and vectors after it; `arena` and `regions` at their position in the pass pipeline (`pipeline.py`).
REWRITES = (
    Rewrite("online-softmax", 1, online_softmax, needed=lambda unit: bool(unit.blocks)),
    Rewrite("panels", 1, panels, needed=lambda unit: bool(unit.panels or unit.precisions)),
    Rewrite("empty-handles", 1, empty_handles),
    Rewrite(SCRIPT, 0, apply_script),
    Rewrite("stencil", 2, lambda unit: write_stencils(unit.module)),
    Rewrite("fastmath", 2, lambda unit: keep_flags(unit.module, unit.flags)),
    Rewrite("skip-masked", 1, lambda unit: skip_masked(unit.module)),
    Rewrite("zeros", 4, lambda unit: start_from_zero(unit.module)),
    Rewrite("prefetch", 1, lambda unit: prefetch_copied(unit.module)),
    Rewrite("prefetch-rows", 1, lambda unit: prefetch_rows(unit.module)),
    Rewrite("vector-math", 3, lambda unit: approximate(unit.module)),
    Rewrite(
        "panel-loads",
        1,
        lambda unit: store_in_panels(unit.function, unit.weights),
        needed=lambda unit: bool(unit.weights),
    ),
    Rewrite("arena", 1, arena, needed=lambda unit: unit.plans_arena),
    Rewrite(
        "foralls",
        2,
        share_loops,
        before="arena",
        needed=lambda unit: unit.plans_arena and has_several_threads(unit),
        least_threads=2,
    ),
    Rewrite("regions", 1, lambda unit: share_regions(unit.module), needed=has_several_threads, least_threads=2),
    Rewrite(
        "repeated",
        3,
        lambda unit: share_nests(unit.module, unit.function),
        behind="arena",
        needed=lambda unit: unit.repeated,
    ),
    Rewrite(
        "kept-parts",
        5,
        lambda unit: copy_kept(unit.module),
        before=SCRIPT,
        needed=lambda unit: replaces_parts(unit.module),
    ),
    Rewrite(
        "destinations",
        1,
        lambda unit: write_task_to_results(unit.module, unit.entry),
        before="online-softmax",
        needed=lambda unit: unit.alone and is_ours(unit.text or ""),
    ),
    Rewrite("apart", 1, apart, before=SCRIPT, needed=lambda unit: unit.repeated and is_ours(unit.text or "")),
    Rewrite(
        "block-copies", 3, lambda unit: copy_blocks(unit.module), before="arena", needed=lambda unit: unit.plans_arena
    ),
    Rewrite(
        "scratch-results",
        2,
        lambda unit: share_results(unit.module),
        before="arena",
        needed=lambda unit: unit.plans_arena,
    ),
    Rewrite(
        "extrema",
        1,
        lambda unit: look_for_nan_apart(unit.module),
        before="arena",
        needed=lambda unit: unit.plans_arena and bool(unit.flags),
    ),
    Rewrite("skip-pads", 1, lambda unit: skip_pads(unit.module), behind="zeros", needed=lambda unit: unit.pads),
    Rewrite(
        "byte-rounding",
        3,
        lambda unit: round_bytes(unit.module),
        behind="vector-math",
        needed=lambda unit: unit.rounds,
    ),
    Rewrite(
        *DOTS,
        lambda unit: write_dots(unit.module, unit=unit.matrix_unit, threads=unit.threads),
        before="skip-masked",
        needed=lambda unit: bool(unit.precisions),
    ),
    Rewrite(
        MASKED_ENDS.name,
        MASKED_ENDS.version,
        lambda unit: mask_ends(unit.module),
        behind="panel-loads",
        needed=lambda unit: MASKED in (unit.text or ""),
    ),
)
