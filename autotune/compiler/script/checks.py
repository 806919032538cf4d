"""Validation of scripts: only scheduling operations and lowering passes are allowed, and nothing that aborts MLIR."""

import re

from mlir import ir

from autotune.compiler.ir.limits import op_fault
from autotune.compiler.ir.module import every_op
from autotune.compiler.normalise.adopt import ASSERT, INTRINSICS
from autotune.compiler.passes.pipelines import ARENA_PASS, PLAIN, tail
from autotune.compiler.script.instantiate import SAYS_ONLY
from autotune.compiler.script.user_module import refuse_at, sets_of

# Allowed: sequences, handles, matchers, and upstream transformations and patterns of tensors and loops.
# Excluded: operations that convert to other dialects, insert calls, run PDL, print, or load code from files.
MOVES = re.compile(
    r"transform\.(named_sequence|sequence|yield|include|consumed|foreach|foreach_match|collect_matching|alternatives|cast"
    r"|merge_handles|split_handle|replicate|select|num_associations|annotate|verify|get_\w+|param\.\w+|match\..+"
    r"|apply_cse|apply_dce|apply_licm|apply_registered_pass|apply_patterns(\..+)?"
    r"|tune\.(knob|alternatives)|(structured|loop|affine|bufferization|memref|tensor|vector)\..+)"
)
OPEN_ONLY = ("transform.smt.constrain_params", *SAYS_ONLY)  # removed when the script is instantiated
PASS_OP = "transform.apply_registered_pass"


def passes_of(pipeline: str) -> set[str]:
    """Return the names of the passes in a pipeline, without the anchor operations they are nested in.

    Example:
        >>> sorted(passes_of("builtin.module(cse,func.func(canonicalize{top-down=true}))"))
        ['canonicalize', 'cse']
    """
    # the pipeline parser of the bindings instantiates the passes, which untrusted text must not do
    bare = re.sub(r"\{[^{}]*\}", "", pipeline)
    anchors = re.sub(r"[a-z]+\.[a-z]+\(", "(", bare)
    return {name for name in re.split(r"[\s(),]+", anchors) if name}


# Passes of the pipelines of this and earlier releases, and a few simplifications.
PASSES = passes_of(tail(1)) | passes_of(tail(2)) | passes_of(PLAIN) | {ARENA_PASS}
PASSES |= {"linalg-generalize-named-ops", "linalg-fuse-elementwise-ops"}
PASSES |= {"eliminate-empty-tensors", "canonicalize", "cse", "sccp", "symbol-dce", "mem2reg"}
ABORTS = ("transform.structured.tile_using_for",)  # aborts on an operand of type !transform.any_param


def check_file(module: ir.Module, source: str) -> None:
    """Reject operations that a bundle may not contain; instantiation adds none, so that checking once is enough.

    Raises:
        ScheduleError: There is such an operation, or a knob sets the name of a pass.
    """
    for op in every_op(module):
        if (fault := open_fault(op)) is not None:
            raise refuse_at(source, op, f"a schedule {fault}; leave it out")
        if op.name == PASS_OP and "pass_name" in sets_of(op):
            raise refuse_at(source, op, "a pass must be named in the script, a knob gives its name; choose by regions")


def check_op(op: ir.Operation, source: str) -> None:
    """Reject an operation that would abort MLIR.

    Raises:
        ScheduleError: The operation would abort MLIR.
    """
    if op.name in ABORTS and any(str(operand.type) == "!transform.any_param" for operand in op.operands):
        raise refuse_at(
            source,
            op,
            f"{op.name} must be given sizes of type !transform.param<i64>, one is a !transform.any_param, which aborts "
            "MLIR; give its knob that type",
        )


def script_fault(op: ir.Operation) -> str | None:
    """Return why an operation is not allowed in a script; `None` if it is allowed."""
    if op.name != "builtin.module" and not MOVES.fullmatch(op.name):
        return f"must hold transform ops that schedule alone, it has {op.name}"
    if op.name != PASS_OP:
        return None
    if "pass_name" not in op.attributes or not isinstance(op.attributes["pass_name"], ir.StringAttr):
        return f"must name the pass that {PASS_OP} runs, it does not"
    unknown = sorted(passes_of(str(op.attributes["pass_name"].value)) - PASSES)
    return f"must use passes that lower, {PASS_OP} asks for {unknown[0]!r}" if unknown else None


def open_fault(op: ir.Operation) -> str | None:
    """Return why an operation is not allowed in a user file, which may contain a payload; `None` if it is allowed."""
    if op.name.startswith("transform."):
        return None if op.name in OPEN_ONLY else script_fault(op)
    adopted = op.name == ASSERT or op.name in INTRINSICS  # removed when the payload is imported
    return None if adopted or op.name.startswith("smt.") else op_fault(op)
