"""Which tasks a user's script is for, where it says so itself: by a sequence of ``transform.match`` ops."""

from dataclasses import dataclass

from mlir import ir

from autotune.compiler.ir.module import context, parse
from autotune.compiler.script.apply import run_script
from autotune.compiler.script.instantiate import drop_unused
from autotune.compiler.script.user_module import MAIN, open_module, sequences_of
from autotune.core.errors import CompileError
from autotune.core.scripts.marks import TAG


@dataclass(frozen=True)
class Match:
    """A question whether a script is for a task.

    Attributes:
        source: Name of the user's file.
        text: The file.
        matcher: Name of the sequence that says which ops it is for.
        payload: Text of the task's payload.
        tag: Tag of its op.
    """

    source: str
    text: str
    matcher: str
    payload: str
    tag: str


def matches(match: Match) -> bool:
    """Tell whether a script's own matcher takes the op of a task. In the isolated process."""
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


def main_of(match: Match, kind: ir.FunctionType) -> str:
    """A module whose entry gives the task's op to the matcher, and fails where that does."""
    taken, given = str(kind.inputs[0]), ", ".join(map(str, kind.results))
    include = f"transform.include @{match.matcher} failures(propagate) (%typed) : ({taken}) -> ({given})"
    return f"""module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence private @{match.matcher}({taken} {{transform.readonly}}) -> ({given})
  transform.named_sequence @{MAIN}(%module: !transform.any_op {{transform.readonly}}) {{
    %ops = transform.structured.match attributes{{{TAG} = "{match.tag}"}} in %module
      : (!transform.any_op) -> !transform.any_op
    transform.foreach %ops : !transform.any_op {{
    ^bb0(%op: !transform.any_op):
      %typed = transform.cast %op : !transform.any_op to {taken}
      %matched:{len(kind.results)} = {include}
    }}
    transform.yield
  }}
}}"""
