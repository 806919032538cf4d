"""What becomes of a module besides its script: our own rewrites, in order, each a value with a name and a version.

A script alone does not say which program comes out: these do too. So their names and versions are part of every trial's
identity and of every bundle, and `autotune show --stage NAME` prints a module after each of them. A rewrite that lives
in ``passes/zeros.py`` is called ``zeros``; whoever changes what it writes raises its version.
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
    """A module on its way from a payload to the LLVM dialect; it changes in place.

    Attributes:
        module: The module.
        entry: Name of the entry function; empty where only passes run.
        roles: Role of each argument of the entry function.
        text: The script as text, a user's own as it was written; `None` for none.
        source: Name that messages know the script by.
        script: The script, parsed.
        panels: Columns of the panels that B is stored in, for every tag whose op reads it so.
        flags: Fast-math flags of all maxima and minima of a kind, as the payload has them.
        weights: Arguments that the entry function has besides the payload's.
        buffers: Plan of the arena that intermediates lie in; `None` before they have an offset in it.
        threads: Threads that parallel loops run on; with one they become plain loops.
        parallel: Whether parallel loops are left once buffers have an offset in the arena.
        kernels: Code of others that computes some tasks.
        plans_arena: Whether the pass pipeline begins with the arena.
        matrix_unit: Whether products by tiles are instructions of the processor's matrix unit; else they are emulated.
        repeated: Whether several ops of one task follow each other, or there are many: nests can then be functions.
        pads: Whether parts of tensors are filled, as pads are.
        rounds: Whether numbers are rounded to even, as quantising does.
        apart: Groups that stand in functions of their own while schedules are applied.
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
    apart: list[Apart] = field(default_factory=list)

    @classmethod
    def open(cls, payload: Payload, candidate: Candidate) -> "Unit":
        """Parse a payload, and the script of a candidate for it, in the current context.

        Raises:
            CompileError: Stage ``parse``, with line and column; or ``transform``, where a choice is none its op takes.
        """
        module, script = parse(candidate.text or payload.text, payload.name), candidate.script
        if script is not None:
            run_passes(module, "builtin.module(strip-debuginfo)")  # locations in messages are those of the script
        roles = tuple(argument.role for argument in payload.arguments)
        threads = threads_of(candidate.pipeline)
        unit = cls(module, payload.entry, roles, kernels=candidate.kernels, threads=threads)
        unit.matrix_unit = tiles_here() == "amx"
        if isinstance(script, ChosenScript):
            unit.text, unit.source, unit.script = script.text, script.source, write_concrete(script)
        elif script is not None:
            unit.text, unit.script = script, parse(script, "schedule")
        if script is not None:
            unit.panels, unit.flags = dict(candidate.panels), flags_of_extrema(module)
            alone = plans_arena(candidate.pipeline) and threads == 1  # threads share regions
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
        """Blocks that the script wants its tasks computed in, by tag; for those with an online softmax."""
        attributes = self.script.operation.attributes if self.script is not None else {}
        if ONLINE not in attributes:
            return {}
        return {named.name: read_blocks(named.attr) for named in attributes[ONLINE]}

    @property
    def forms(self) -> dict[str, str]:
        """What the script wants weights of its tasks stored as, by tag: a precision, or another form."""
        attributes = self.script.operation.attributes if self.script is not None else {}
        if PRECISION not in attributes:
            return {}
        return {named.name: ir.StringAttr(named.attr).value for named in attributes[PRECISION]}

    @property
    def precisions(self) -> dict[str, Precision]:
        """What the script wants operands of its tasks rounded to, by tag."""
        return {tag: PRECISIONS[name] for tag, name in self.forms.items() if name in PRECISIONS}


@dataclass(frozen=True)
class Rewrite:
    """A rewrite of ours.

    Attributes:
        name: Name of the rewrite's file in ``passes/``, with dashes.
        version: Raised whenever it makes other programs of the same module; 0 of the script, which a trial holds.
        apply: Changes a unit in place.
        before: Step that it is the first part of. A rewrite that is part of a step and belongs to no number of threads
            does nothing but what a script or a candidate asks for, whose family names it and its version: other trials
            keep their identity.
        behind: Step that it is the last part of, likewise.
        needed: Whether a unit asks for it.
        least_threads: Threads from which on it decides, unasked, which program a candidate becomes.
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
        """Whether it is a step of its own, no part of one."""
        return not (self.before or self.behind)


def online_softmax(unit: Unit) -> None:
    """Groups that the script wants online become loops over blocks of columns."""
    go_online(unit.function, unit.blocks)


def panels(unit: Unit) -> None:
    """Contractions read weights from arguments of their own, to be stored in panels; of others B is packed in words."""
    narrow_in_call(unit.function, {tag: found for tag, found in unit.precisions.items() if tag not in unit.panels})
    forms = {tag: form_named(name) for tag, name in unit.forms.items()}
    unit.weights = insert_panels(unit.function, unit.roles, unit.panels, forms)


def empty_handles(unit: Unit) -> None:
    """Handles that the script uses must hold something."""
    if unit.script is not None:
        insist(unit.script)


def apart(unit: Unit) -> None:
    """Groups stand in functions of their own, until the script's schedules are applied."""
    unit.apart = set_apart(unit.module, unit.function)


def apply_script(unit: Unit) -> None:
    """The script is applied; where groups stand apart, its schedules to those, and its lowering to all together."""
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
    """Threads share the outermost parallel loops."""
    serialise_nested(unit.module)
    unit.parallel = has_parallel_loops(unit.module)


def arena(unit: Unit) -> None:
    """Intermediate buffers become views of one arena; what a parallel loop's body allocates, a part for each thread."""
    if unit.threads == 1:
        serialise_foralls(unit.module)
    unit.buffers = plan_arena(unit.module, unit.threads)
    check_room(unit.buffers.peak_bytes)


def has_several_threads(unit: Unit) -> bool:
    """Tell whether parallel loops run on several threads."""
    return unit.threads > 1


# In the order in which trials name them. Steps are applied in this order: those up to the script, the script, those on
# tensors and vectors behind it; the last two where a pass pipeline has them (`pipeline.py`).
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
    Rewrite("apart", 1, apart, before=SCRIPT, needed=lambda unit: unit.repeated and is_ours(unit.text or "")),
    Rewrite(
        "block-copies", 3, lambda unit: copy_blocks(unit.module), before="arena", needed=lambda unit: unit.plans_arena
    ),
    Rewrite(
        "scratch-results",
        1,
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
