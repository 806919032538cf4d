"""What the MLIR of a bundle may be: it parses, computes and transforms, and asks for nothing else.

A payload is compiled and run, so that a call to somebody else's function or an address made of a number would be
untrusted code. What is left can still read outside its arrays; that is what the worker's process is for.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from mlir import ir

from autotune.compiler.ir.limits import growth_fault, op_fault, program_fault, text_fault
from autotune.compiler.ir.module import context, every_op, parse, symbol
from autotune.compiler.lowering.pipeline import ARENA_PASS, PLAIN, tail
from autotune.compiler.normalise.adopt import ASSERT, INTRINSICS
from autotune.compiler.script.instantiate import SAYS_ONLY
from autotune.core.errors import BundleError, CompileError, RuleError
from autotune.core.payload import Payload
from autotune.registry import rewriter

# What a script is made of: sequences, handles, matchers, moves and patterns that upstream has for tensors and loops.
# Left out: ops that convert to other dialects, insert calls, run PDL, print, or look for more code in files.
MOVES = re.compile(
    r"transform\.(named_sequence|sequence|yield|include|consumed|foreach|foreach_match|collect_matching|alternatives|cast"
    r"|merge_handles|split_handle|replicate|select|num_associations|annotate|verify|get_\w+|param\.\w+|match\..+"
    r"|apply_cse|apply_dce|apply_licm|apply_registered_pass|apply_patterns(\..+)?"
    r"|tune\.(knob|alternatives)|(structured|loop|affine|bufferization|memref|tensor|vector)\..+)"
)
OPEN = "open.mlir"  # a user's own script as it was, knobs and all; nothing of it is compiled
RULES = "rules.mlir"  # patterns that the payload was rewritten by before its tasks were found
OPEN_ONLY = ("transform.smt.constrain_params", *SAYS_ONLY)  # once choices are made, none of these is left
PASS_OP = "transform.apply_registered_pass"


def passes_of(pipeline: str) -> set[str]:
    """Names of the passes in a pipeline, without the ops they are nested in.

    Example:
        >>> sorted(passes_of("builtin.module(cse,func.func(canonicalize{top-down=true}))"))
        ['canonicalize', 'cse']
    """
    bare = re.sub(r"\{[^{}]*\}", "", pipeline)
    anchors = re.sub(r"[a-z]+\.[a-z]+\(", "(", bare)
    return {name for name in re.split(r"[\s(),]+", anchors) if name}


# What our own pipelines use now or used in a release, and a few that only simplify.
PASSES = passes_of(tail(1)) | passes_of(tail(2)) | passes_of(PLAIN) | {ARENA_PASS}
PASSES |= {"linalg-generalize-named-ops", "linalg-fuse-elementwise-ops"}
PASSES |= {"eliminate-empty-tensors", "canonicalize", "cse", "sccp", "symbol-dce", "mem2reg"}


def check_pipeline(where: str, what: str, pipeline: str, allowed: set[str] = PASSES) -> None:
    """Refuse a pipeline that asks for a pass it should not.

    Raises:
        BundleError: The pipeline asks for such a pass; the error names it.
    """
    for name in sorted(passes_of(pipeline) - allowed):
        raise BundleError(f"{where} must use passes that lower, {what} asks for {name!r}; restore it")


@dataclass(frozen=True)
class BundleTexts:
    """The MLIR of a bundle, not yet parsed.

    Attributes:
        folder: Folder of the bundle, for messages.
        texts: Texts by the names of their files.
        payload: The payload that the bundle says it is of.
    """

    folder: str
    texts: Mapping[str, str]
    payload: Payload


def check_texts(bundle: BundleTexts) -> None:
    """Refuse MLIR that does not parse, asks for what it should not, or is not of the payload.

    Raises:
        BundleError: A file is refused; the error names it, with line and column where they are known.
    """
    with context():
        for name, text in bundle.texts.items():
            where = f"{bundle.folder}/{name}"
            refuse(where, text_fault(text))
            try:
                if name == RULES:
                    rewriter().check(text, where)
                    continue
                module = parse(text, where)
            except (CompileError, RuleError) as error:
                raise BundleError(f"{error}; restore it") from error
            if name.startswith("schedule"):
                check_script(where, module)
            elif name == OPEN:
                check_open(where, module)
            else:
                refuse(where, program_fault(module))
            if name in ("payload.mlir", "tagged.mlir"):
                check_entry(where, module, bundle.payload)


def refuse(where: str, fault: str | None) -> None:
    """Raise if there is a fault.

    Raises:
        BundleError: There is a fault; the error names it and the file.
    """
    if fault is not None:
        raise BundleError(f"{where} {fault}; restore it")


def check_script(where: str, module: ir.Module) -> None:
    """A script holds transform ops, with an entry, and runs no passes but those that lower."""
    for op in every_op(module):
        refuse(where, script_fault(op))
    refuse(where, growth_fault(module))
    if "__transform_main" not in [symbol(op) for op in module.body.operations]:
        raise BundleError(f"{where} must hold a named sequence @__transform_main, it does not; restore it")


def check_open(where: str, module: ir.Module) -> None:
    """A user's own script is one that could be tuned."""
    for op in every_op(module):
        refuse(where, open_fault(op))


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


def check_entry(where: str, module: ir.Module, payload: Payload) -> None:
    """The entry function takes the arguments that the manifest describes: it is called with pointers to such."""
    wanted = f"({', '.join(argument.type for argument in payload.arguments)}) -> ()"
    for op in module.body.operations:
        if symbol(op) == payload.entry and op.operation.name == "func.func":
            found = str(ir.TypeAttr(op.attributes["function_type"]).value)
            if found != wanted:
                raise BundleError(
                    f"{where}: @{payload.entry} must take the manifest's arguments {wanted}, it is {found}; restore it"
                )
            return
    raise BundleError(f"{where} must define the entry function @{payload.entry}, it does not; restore it")
