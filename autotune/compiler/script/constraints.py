"""Constraints of a script: a ``transform.smt.constrain_params`` as terms over knobs, evaluated without a solver.

MLIR's interpreter has no meaning for the op. A function that its region declares is a fact of the machine where its
name is ``autotune.`` and one of `FACTS`; another one must be equal to a term, which then is its value.
"""

from collections.abc import Mapping

from mlir import ir

from autotune.compiler.script.user_module import refuse_at
from autotune.core.scripts.parametric import FACT, FACTS
from autotune.core.scripts.terms import CONSTANT, GIVEN, OPERATIONS, Term

COMPARISONS = ("lt", "le", "gt", "ge")  # smt.int.cmp counts them from 0
DECLARED = "declared"  # a term whose value another one gives


def read_constraint(
    op: ir.Operation, operands: Mapping[ir.Value, Term], source: str
) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    """What an op asserts, and what it gives.

    Args:
        op: The ``transform.smt.constrain_params``.
        operands: Terms of its operands.
        source: Name of the file, for messages.

    Raises:
        ScheduleError: An operand is known at run time only, or an op is none that is evaluated here.
    """
    block = op.regions[0].blocks[0]
    terms: dict[ir.Value, Term] = {}
    for number, (operand, argument) in enumerate(zip(op.operands, block.arguments, strict=True)):
        if operand not in operands:
            raise refuse_at(
                source, op, f"a constraint must be about knobs and constants, its operand {number} is neither"
            )
        terms[argument] = operands[operand]
    asserted: list[Term] = []
    given: list[Term] = []
    for each in block.operations:
        inner = each.operation
        if inner.name == "smt.assert":
            asserted.append(terms[inner.operands[0]])
        elif inner.name == "smt.yield":
            given += [terms[operand] for operand in inner.operands]
        else:
            terms[inner.results[0]] = term_of(inner, terms, len(terms), source)
    known, rest = settle(asserted)
    results = tuple(substitute(term, known) for term in given)
    constraints = tuple(substitute(term, known) for term in rest)
    if any(is_open(term) for term in (*constraints, *results)):
        raise refuse_at(
            source, op, "a declared value must be equal to a term of knobs, one is not; assert smt.eq of it"
        )
    return constraints, results


def term_of(op: ir.Operation, terms: Mapping[ir.Value, Term], number: int, source: str) -> Term:
    """The term of one op of the ``smt`` dialect.

    Raises:
        ScheduleError: The op is none that is evaluated here.
    """
    operands = tuple(terms[operand] for operand in op.operands)
    name = op.name.removeprefix("smt.")
    if name == "int.constant":
        return Term(CONSTANT, value=signed(ir.IntegerAttr(op.attributes["value"])))
    if name == "constant":
        return Term(CONSTANT, value=bool(ir.BoolAttr(op.attributes["value"]).value))
    if name == "declare_fun" and str(op.results[0].type) in ("!smt.int", "!smt.bool"):
        called = str(op.attributes["namePrefix"].value) if "namePrefix" in op.attributes else ""
        if called.removeprefix(FACT) in FACTS and called.startswith(FACT):
            return Term(GIVEN, value=called)
        if called.startswith(FACT):
            facts = ", ".join(FACT + fact for fact in FACTS)
            raise refuse_at(source, op, f"a fact of the machine must be one of {facts}; got {called!r}")
        return Term(DECLARED, value=f"{called}#{number}")
    if name == "int.cmp":
        name += f" {COMPARISONS[int(ir.IntegerAttr(op.attributes['pred']))]}"
    if name not in OPERATIONS:
        raise refuse_at(
            source, op, f"{op.name} is no op that constraints are evaluated with; use integers and truth values"
        )
    return Term(name, operands)


def signed(attribute: ir.IntegerAttr) -> int:
    """The number of an ``smt.int.constant``: its words are signed, though their type says otherwise."""
    value, width = int(attribute), ir.IntegerType(attribute.type).width
    return value - (1 << width) if value >= 1 << (width - 1) else value


def settle(asserted: list[Term]) -> tuple[dict[str, Term], list[Term]]:
    """Values of what is declared, from equations; and the assertions that are no such equation."""
    known: dict[str, Term] = {}
    waiting = [part for term in asserted for part in conjuncts(term)]
    found = True
    while found:
        found = False
        for term in waiting:
            equation = solved(substitute(term, known))
            if equation is not None:
                known[equation[0]] = equation[1]
                waiting.remove(term)
                found = True
                break
    return known, waiting


def conjuncts(term: Term) -> list[Term]:
    """The parts of an assertion that must all hold."""
    return [part for operand in term.operands for part in conjuncts(operand)] if term.op == "and" else [term]


def solved(term: Term) -> tuple[str, Term] | None:
    """The declared name that an equation of two terms gives a value, and the value; `None` if it gives none."""
    if term.op != "eq" or len(term.operands) != 2:
        return None
    for one, other in (term.operands, term.operands[::-1]):
        if one.op == DECLARED and not is_open(other):
            return str(one.value), other
    return None


def is_open(term: Term) -> bool:
    """Tell whether a term is about something declared that has no value."""
    return term.op == DECLARED or any(map(is_open, term.operands))


def substitute(term: Term, known: Mapping[str, Term]) -> Term:
    """A term with the values of what is declared instead of it."""
    if term.op == DECLARED:
        return known.get(str(term.value), term)
    return Term(term.op, tuple(substitute(each, known) for each in term.operands), term.value)
