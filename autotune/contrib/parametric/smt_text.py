"""Text of constraints as ``transform.smt.constrain_params`` operations, in the form that the script reader accepts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autotune.contrib.parametric.lines import PARAM
from autotune.core.scripts.terms import CONSTANT, VARIABLE, Term, names_in, spell

INT, BOOL = "!smt.int", "!smt.bool"


@dataclass
class Region:
    """Region of a constraint under construction.

    Attributes:
        handles: Handles of the block arguments, by knob name.
        lines: Operations so far.
        made: Handles of the terms written so far.
    """

    handles: Mapping[str, str]
    lines: list[str] = field(default_factory=list)
    made: dict[Term, str] = field(default_factory=dict)

    def write(self, term: Term) -> str:
        """Write a term unless it is written already; return its handle."""
        if term.op == VARIABLE:
            return self.handles[str(term.value)]
        if term not in self.made:
            operands = ", ".join(self.write(operand) for operand in term.operands)
            handle = f"%{len(self.made)}"
            self.made[term] = handle
            self.lines.append(f"{handle} = {op_of(term, operands)}")
        return self.made[term]


def op_of(term: Term, operands: str) -> str:
    """Return the text of one operation, without its result."""
    if term.op == CONSTANT:
        return f"smt.int.constant {term.value}"
    if term.op in ("eq", "distinct"):
        smt_type = (
            INT if term.operands[0].op in (CONSTANT, VARIABLE) or term.operands[0].op.startswith("int.") else BOOL
        )
        return f"smt.{term.op} {operands} : {smt_type}"
    return f"smt.{term.op} {operands}"


def write_constraint(constraint: Term, params: Mapping[str, str]) -> list[str]:
    """Return the lines of the operation that asserts a term.

    Args:
        constraint: Term over knobs.
        params: Handles of the knobs' params, by name.
    """
    return [f"// {spell(constraint)}", *write_op("", (constraint,), (), params)]


def write_size(handle: str, term: Term, params: Mapping[str, str]) -> list[str]:
    """Return the lines of the operation that computes a numeric term as a param.

    Args:
        handle: Handle of the resulting param.
        term: Term over knobs.
        params: Handles of the knobs' params, by name.
    """
    return [f"// {spell(term)}", *write_op(f"{handle} = ", (), (term,), params)]


def write_op(head: str, asserted: Sequence[Term], results: Sequence[Term], params: Mapping[str, str]) -> list[str]:
    """Return the lines of a `constrain_params` operation with assertions and results."""
    used = set().union(*map(names_in, (*asserted, *results)))
    names = [name for name in params if name in used]
    region = Region({name: f"%{name}_value" for name in names})
    for term in asserted:
        handle = region.write(term)
        region.lines.append(f"smt.assert {handle}")
    yielded = [region.write(term) for term in results]
    if yielded:
        region.lines.append(f"smt.yield {', '.join(yielded)} : {', '.join([INT] * len(yielded))}")
    operands, types = ", ".join(params[name] for name in names), ", ".join([PARAM] * len(names))
    arguments = ", ".join(f"%{name}_value: {INT}" for name in names)
    return [
        f"{head}transform.smt.constrain_params({operands}) : ({types}) -> ({', '.join([PARAM] * len(yielded))}) {{",
        f"^bb0({arguments}):",
        *(f"  {line}" for line in region.lines),
        "}",
    ]
