"""Validation of the MLIR files of a bundle: they must parse, and may only compute and transform.

A payload is compiled and run, so a call to an external function or an address cast from an integer would be untrusted
code. What is accepted can still access memory out of bounds; the isolated worker process guards against that.
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

OPEN = "open.mlir"  # the user's parametric script, as written; it is never compiled
RULES = "rules.mlir"  # rewrite patterns that were applied to the payload before it was partitioned


def check_pipeline(where: str, source: str, pipeline: str, allowed: set[str] = PASSES) -> None:
    """Reject a pass pipeline that contains a pass outside the allowed set.

    Raises:
        BundleError: The pipeline contains such a pass; the error names it.
    """
    for name in sorted(passes_of(pipeline) - allowed):
        raise BundleError(f"{where} must use passes that lower, {source} asks for {name!r}; restore it")


@dataclass(frozen=True)
class BundleTexts:
    """MLIR files of a bundle, not yet parsed.

    Attributes:
        folder: Folder of the bundle, for error messages.
        texts: File contents by file name.
        payload: Payload that the manifest describes.
    """

    folder: str
    texts: Mapping[str, str]
    payload: Payload


def check_texts(bundle: BundleTexts) -> None:
    """Reject MLIR that does not parse, contains forbidden operations, or does not match the payload.

    Raises:
        BundleError: A file is rejected; the error names it, with line and column if known.
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
    """Raise an error if `fault` is not `None`.

    Raises:
        BundleError: There is a fault; the error names the fault and the file.
    """
    if fault is not None:
        raise BundleError(f"{where} {fault}; restore it")


def check_script(where: str, module: ir.Module) -> None:
    """Check that a script consists of transform operations, has an entry, and runs only allowed lowering passes."""
    for op in every_op(module):
        refuse(where, script_fault(op))
    refuse(where, growth_fault(module))
    if "__transform_main" not in [symbol(op) for op in module.body.operations]:
        raise BundleError(f"{where} must hold a named sequence @__transform_main, it does not; restore it")


def check_open(where: str, module: ir.Module) -> None:
    """Check that a parametric user script contains only operations that a tunable script may contain."""
    for op in every_op(module):
        refuse(where, open_fault(op))


def check_entry(where: str, module: ir.Module, payload: Payload) -> None:
    """Check that the signature of the entry function matches the manifest, as it is called with raw pointers."""
    wanted = f"({', '.join(argument.type for argument in payload.arguments)}) -> ()"
    for op in module.body.operations:
        if symbol(op) == payload.entry and op.operation.name == "func.func":
            actual = str(ir.TypeAttr(op.attributes["function_type"]).value)
            if actual != wanted:
                raise BundleError(
                    f"{where}: @{payload.entry} must take the manifest's arguments {wanted}, it is {actual}; restore it"
                )
            return
    raise BundleError(f"{where} must define the entry function @{payload.entry}, it does not; restore it")
