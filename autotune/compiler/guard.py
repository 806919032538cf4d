"""What the MLIR of a bundle may be: it parses, computes and transforms, and asks for nothing else.

A payload is compiled and run, so that a call to somebody else's function or an address made of a number would be
code of a stranger. What is left can still read outside its arrays; that is what the worker's process is for.
"""

import re
from collections.abc import Mapping

from mlir import ir

from autotune.compiler.laws import COMPUTING, dialect_fault, every_op, nesting_fault, program_fault
from autotune.compiler.lower import ARENA_PASS, PLAIN, TAIL
from autotune.compiler.module import context, parse, symbol
from autotune.core.errors import BundleError, CompileError
from autotune.core.payload import Payload

TRANSFORMING = ("builtin", "transform")
# Ops that run a pass of any name, that print, or that look for more code in files.
OPEN = "open.mlir"  # a user's own script as it was, knobs and all; nothing of it is compiled
PASS_OP = "transform.apply_registered_pass"
FORBIDDEN = ("transform.print", "transform.debug.emit_param_as_remark", "transform.debug.emit_remark_at")


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
PASSES = passes_of(TAIL) | passes_of(PLAIN) | {ARENA_PASS, "linalg-generalize-named-ops", "linalg-fuse-elementwise-ops"}
PASSES |= {"eliminate-empty-tensors", "canonicalize", "cse", "sccp", "symbol-dce", "mem2reg"}


def check_pipeline(where: str, what: str, pipeline: str, allowed: set[str] = PASSES) -> None:
    """Refuse a pipeline that asks for a pass it should not.

    Raises:
        BundleError: The pipeline asks for such a pass; the error names it.
    """
    for name in sorted(passes_of(pipeline) - allowed):
        raise BundleError(f"{where} must use passes that lower, {what} asks for {name!r}; restore it")


def check_texts(folder: str, texts: Mapping[str, str], payload: Payload) -> None:
    """Refuse MLIR that does not parse, asks for what it should not, or is not of the payload.

    Raises:
        BundleError: A file is refused; the error names it, with line and column where they are known.
    """
    with context():
        for name, text in texts.items():
            where = f"{folder}/{name}"
            refuse(where, nesting_fault(text))
            try:
                module = parse(text, where)
            except CompileError as error:
                raise BundleError(f"{error}; restore it") from error
            if name.startswith("schedule"):
                check_script(where, module)
            elif name == OPEN:
                check_open(where, module)
            else:
                refuse(where, program_fault(module))
            if name in ("payload.mlir", "tagged.mlir"):
                check_entry(where, module, payload)


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
        refuse(where, dialect_fault(op, TRANSFORMING))
        if op.name in FORBIDDEN:
            raise BundleError(f"{where} must only transform, it holds {op.name}; restore it")
        if op.name == PASS_OP:
            check_pipeline(where, PASS_OP, ir.StringAttr(op.attributes["pass_name"]).value)
    if "__transform_main" not in [symbol(op) for op in module.body.operations]:
        raise BundleError(f"{where} must hold a named sequence @__transform_main, it does not; restore it")


def check_open(where: str, module: ir.Module) -> None:
    """A user's own script holds transform ops and laws, and may hold its payload; nothing of it is compiled."""
    for op in every_op(module):
        refuse(where, dialect_fault(op, (*TRANSFORMING, "smt", *COMPUTING)))


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
