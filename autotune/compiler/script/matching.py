"""Match tasks with the matcher of a user script, a named sequence of ``transform.match`` operations."""

from dataclasses import dataclass

from mlir import ir

from autotune.compiler.ir.module import context, parse
from autotune.compiler.ir.scripts import MAIN
from autotune.compiler.script.apply import run_script
from autotune.compiler.script.instantiate import drop_unused
from autotune.compiler.script.user_module import open_module, sequences_of
from autotune.core.errors import CompileError
from autotune.core.scripts.marks import TAG


@dataclass(frozen=True)
class Match:
    """Query whether the matcher of a user script accepts the operation of a task.

    Attributes:
        source: Name of the user's file.
        text: Contents of the file.
        matcher: Name of the matcher sequence.
        payload: MLIR text of the task.
        tag: Tag of the operation of the task.
    """

    source: str
    text: str
    matcher: str
    payload: str
    tag: str


def matches(match: Match) -> bool:
    """Return whether the matcher of a script accepts the operation of a task. Runs in the isolated process."""
    with context():
        own = open_module(match.text, match.source)
        drop_unused(own, match.matcher)
        matcher = sequences_of(own.operation)[match.matcher]
        ours = parse(
            main_of(match, ir.FunctionType(ir.TypeAttr(matcher.attributes["function_type"]).value)), "matching"
        )
        ours.body.operations[1].operation.clone(ir.InsertionPoint(own.body))
        try:
            run_script(parse(match.payload, match.source), own, match.text, match.source)
        except CompileError:
            return False
        return True


def main_of(match: Match, function_type: ir.FunctionType) -> str:
    """Return a module whose entry includes the matcher on the operation of the task and propagates its failure."""
    input_type, result_types = str(function_type.inputs[0]), ", ".join(map(str, function_type.results))
    include = f"transform.include @{match.matcher} failures(propagate) (%typed) : ({input_type}) -> ({result_types})"
    return f"""module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence private @{match.matcher}({input_type} {{transform.readonly}}) -> ({result_types})
  transform.named_sequence @{MAIN}(%module: !transform.any_op {{transform.readonly}}) {{
    %ops = transform.structured.match attributes{{{TAG} = "{match.tag}"}} in %module
      : (!transform.any_op) -> !transform.any_op
    transform.foreach %ops : !transform.any_op {{
    ^bb0(%op: !transform.any_op):
      %typed = transform.cast %op : !transform.any_op to {input_type}
      %matched:{len(function_type.results)} = {include}
    }}
    transform.yield
  }}
}}"""
