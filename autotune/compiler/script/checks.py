"""What scripts may be made of: ops that schedule, passes that lower; of a user's own also nothing that aborts MLIR."""

import re

from mlir import ir

from autotune.compiler.ir.limits import op_fault
from autotune.compiler.ir.module import every_op
from autotune.compiler.normalise.adopt import ASSERT, INTRINSICS
from autotune.compiler.passes.pipelines import ARENA_PASS, PLAIN, tail
from autotune.compiler.script.instantiate import SAYS_ONLY
from autotune.compiler.script.user_module import refuse_at, sets_of

# What a script is made of: sequences, handles, matchers, moves and patterns that upstream has for tensors and loops.
# Left out: ops that convert to other dialects, insert calls, run PDL, print, or look for more code in files.
MOVES = re.compile(
    r"transform\.(named_sequence|sequence|yield|include|consumed|foreach|foreach_match|collect_matching|alternatives|cast"
    r"|merge_handles|split_handle|replicate|select|num_associations|annotate|verify|get_\w+|param\.\w+|match\..+"
    r"|apply_cse|apply_dce|apply_licm|apply_registered_pass|apply_patterns(\..+)?"
    r"|tune\.(knob|alternatives)|(structured|loop|affine|bufferization|memref|tensor|vector)\..+)"
)
OPEN_ONLY = ("transform.smt.constrain_params", *SAYS_ONLY)  # once choices are made, none of these is left
PASS_OP = "transform.apply_registered_pass"


def passes_of(pipeline: str) -> set[str]:
    """Names of the passes in a pipeline, without the ops they are nested in.

    Example:
        >>> sorted(passes_of("builtin.module(cse,func.func(canonicalize{top-down=true}))"))
        ['canonicalize', 'cse']
    """
    # textual pipelines have no reader in the bindings but one that builds the passes, which untrusted text must not
    bare = re.sub(r"\{[^{}]*\}", "", pipeline)
    anchors = re.sub(r"[a-z]+\.[a-z]+\(", "(", bare)
    return {name for name in re.split(r"[\s(),]+", anchors) if name}


# What our own pipelines use now or used in a release, and a few that only simplify.
PASSES = passes_of(tail(1)) | passes_of(tail(2)) | passes_of(PLAIN) | {ARENA_PASS}
PASSES |= {"linalg-generalize-named-ops", "linalg-fuse-elementwise-ops"}
PASSES |= {"eliminate-empty-tensors", "canonicalize", "cse", "sccp", "symbol-dce", "mem2reg"}
ABORTS = ("transform.structured.tile_using_for",)  # on a param of any type


def check_file(module: ir.Module, source: str) -> None:
    """Refuse ops that no bundle may hold: with choices made, a script has the same ops, or less.

    Raises:
        ScheduleError: There is such an op, or one to which a knob gives the name of a pass.
    """
    for op in every_op(module):
        if (fault := open_fault(op)) is not None:
            raise refuse_at(source, op, f"a schedule {fault}; leave it out")
        if op.name == PASS_OP and "pass_name" in sets_of(op):
            raise refuse_at(source, op, "a pass must be named in the script, a knob gives its name; choose by regions")


def check_op(op: ir.Operation, source: str) -> None:
    """Refuse an op that would abort MLIR.

    Raises:
        ScheduleError: The script holds such an op.
    """
    if op.name in ABORTS and any(str(operand.type) == "!transform.any_param" for operand in op.operands):
        raise refuse_at(
            source,
            op,
            f"{op.name} must be given sizes of type !transform.param<i64>, one is a !transform.any_param, which aborts "
            "MLIR; give its knob that type",
        )


def script_fault(op: ir.Operation) -> str | None:
    """What an op of a script does besides scheduling; `None` if nothing."""
    if op.name != "builtin.module" and not MOVES.fullmatch(op.name):
        return f"must hold transform ops that schedule alone, it has {op.name}"
    if op.name != PASS_OP:
        return None
    if "pass_name" not in op.attributes or not isinstance(op.attributes["pass_name"], ir.StringAttr):
        return f"must name the pass that {PASS_OP} runs, it does not"
    unknown = sorted(passes_of(str(op.attributes["pass_name"].value)) - PASSES)
    return f"must use passes that lower, {PASS_OP} asks for {unknown[0]!r}" if unknown else None


def open_fault(op: ir.Operation) -> str | None:
    """What an op of a user's own file does besides scheduling, choosing and computing: it may hold its payload, too."""
    if op.name.startswith("transform."):
        return None if op.name in OPEN_ONLY else script_fault(op)
    adopted = op.name == ASSERT or op.name in INTRINSICS  # a payload is made without
    return None if adopted or op.name.startswith("smt.") else op_fault(op)
