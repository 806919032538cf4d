"""Constraints as text: a ``transform.smt.constrain_params`` op, as the reader of scripts takes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autotune.contrib.parametric.lines import PARAM
from autotune.core.scripts.terms import CONSTANT, GIVEN, Term, names_in, spell

INT, BOOL = "!smt.int", "!smt.bool"


@dataclass
class Region:
    """The ops of a constraint under construction.

    Attributes:
        handles: Handles of what is given, by name.
        lines: Ops so far.
        made: Handles of the terms that are written.
    """

    handles: Mapping[str, str]
    lines: list[str] = field(default_factory=list)
    made: dict[Term, str] = field(default_factory=dict)

    def write(self, term: Term) -> str:
        """Write a term; gives its handle."""
        if term.op == GIVEN:
            return self.handles[str(term.value)]
        if term not in self.made:
            operands = ", ".join(self.write(operand) for operand in term.operands)
            handle = f"%{len(self.made)}"
            self.made[term] = handle
            self.lines.append(f"{handle} = {op_of(term, operands)}")
        return self.made[term]


def op_of(term: Term, operands: str) -> str:
    """The text of one op, without its result."""
    if term.op == CONSTANT:
        return f"smt.int.constant {term.value}"
    if term.op in ("eq", "distinct"):
        kind = INT if term.operands[0].op in (CONSTANT, GIVEN) or term.operands[0].op.startswith("int.") else BOOL
        return f"smt.{term.op} {operands} : {kind}"
    return f"smt.{term.op} {operands}"


def write_constraint(constraint: Term, params: Mapping[str, str]) -> list[str]:
    """Lines of the op that asserts a term.

    Args:
        constraint: Term over knobs.
        params: Handles of the knobs' params, by name.
    """
    return [f"// {spell(constraint)}", *write_op("", (constraint,), (), params)]


def write_size(handle: str, term: Term, params: Mapping[str, str]) -> list[str]:
    """Lines of the op that gives the value of a term, a number, as a param; arguments as of `write_constraint`."""
    return [f"// {spell(term)}", *write_op(f"{handle} = ", (), (term,), params)]


def write_op(head: str, asserted: Sequence[Term], results: Sequence[Term], params: Mapping[str, str]) -> list[str]:
    """Lines of the op."""
    used = set().union(*map(names_in, (*asserted, *results)))
    names = [name for name in params if name in used]
    region = Region({name: f"%{name}_value" for name in names})
    for term in asserted:
        handle = region.write(term)
        region.lines.append(f"smt.assert {handle}")
    given = [region.write(term) for term in results]
    if given:
        region.lines.append(f"smt.yield {', '.join(given)} : {', '.join([INT] * len(given))}")
    taken, kinds = ", ".join(params[name] for name in names), ", ".join([PARAM] * len(names))
    arguments = ", ".join(f"%{name}_value: {INT}" for name in names)
    return [
        f"{head}transform.smt.constrain_params({taken}) : ({kinds}) -> ({', '.join([PARAM] * len(given))}) {{",
        f"^bb0({arguments}):",
        *(f"  {line}" for line in region.lines),
        "}",
    ]
