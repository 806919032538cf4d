"""What the MLIR of a bundle may be: it parses, computes and transforms, and asks for nothing else.

A payload is compiled and run, so that a call to somebody else's function or an address made of a number would be
untrusted code. What is left can still read outside its arrays; that is what the worker's process is for.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from mlir import ir

from autotune.compiler.ir.limits import growth_fault, program_fault, text_fault
from autotune.compiler.ir.module import context, every_op, parse, symbol
from autotune.compiler.script.checks import PASSES, open_fault, passes_of, script_fault
from autotune.core.errors import BundleError, CompileError, RuleError
from autotune.core.payload import Payload
from autotune.registry import rewriter

OPEN = "open.mlir"  # a user's own script as it was, knobs and all; nothing of it is compiled
RULES = "rules.mlir"  # patterns that the payload was rewritten by before its tasks were found


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
