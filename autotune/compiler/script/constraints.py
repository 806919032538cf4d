"""Constraints of a script: ``transform.smt.constrain_params`` as terms over knobs, evaluated without a solver.

The MLIR interpreter does not evaluate this operation. A symbol declared in its region denotes a property of the
machine if its name is ``autotune.`` followed by one of `FACTS`; any other symbol must be asserted equal to a term,
which defines its value.
"""

from collections.abc import Mapping

from mlir import ir

from autotune.compiler.script.user_module import refuse_at
from autotune.core.scripts.parametric import FACT, FACTS
from autotune.core.scripts.terms import CONSTANT, OPERATIONS, VARIABLE, Term

COMPARISONS = ("lt", "le", "gt", "ge")  # predicates of smt.int.cmp, by their enum value
DECLARED = "declared"  # term of a declared symbol, whose value an equation defines


def read_constraint(
    op: ir.Operation, operands: Mapping[ir.Value, Term], source: str
) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    """Return the terms that a constraint operation asserts and the terms that it yields.

    Args:
        op: Operation ``transform.smt.constrain_params``.
        operands: Terms of known values, among them the operands of `op`.
        source: Name of the file, for error messages.

    Raises:
        ScheduleError: An operand is neither a knob nor a constant, or an operation in the region is not supported.
    """
    block = op.regions[0].blocks[0]
    terms: dict[ir.Value, Term] = {}
    for position, (operand, argument) in enumerate(zip(op.operands, block.arguments, strict=True)):
        if operand not in operands:
            raise refuse_at(
                source, op, f"a constraint must be about knobs and constants, its operand {position} is neither"
            )
        terms[argument] = operands[operand]
    asserted: list[Term] = []
    yielded: list[Term] = []
    for each in block.operations:
        inner = each.operation
        if inner.name == "smt.assert":
            asserted.append(terms[inner.operands[0]])
        elif inner.name == "smt.yield":
            yielded += [terms[operand] for operand in inner.operands]
        else:
            terms[inner.results[0]] = term_of(inner, terms, len(terms), source)
    known, remaining = settle(asserted)
    results = tuple(substitute(term, known) for term in yielded)
    constraints = tuple(substitute(term, known) for term in remaining)
    if any(is_open(term) for term in (*constraints, *results)):
        raise refuse_at(
            source, op, "a declared value must be equal to a term of knobs, one is not; assert smt.eq of it"
        )
    return constraints, results


def term_of(op: ir.Operation, terms: Mapping[ir.Value, Term], number: int, source: str) -> Term:
    """Return the term of an operation of the ``smt`` dialect.

    Raises:
        ScheduleError: The operation is not supported.
    """
    operands = tuple(terms[operand] for operand in op.operands)
    name = op.name.removeprefix("smt.")
    if name == "int.constant":
        return Term(CONSTANT, value=signed(ir.IntegerAttr(op.attributes["value"])))
    if name == "constant":
        return Term(CONSTANT, value=bool(ir.BoolAttr(op.attributes["value"]).value))
    if name == "declare_fun" and str(op.results[0].type) in ("!smt.int", "!smt.bool"):
        symbol = str(op.attributes["namePrefix"].value) if "namePrefix" in op.attributes else ""
        if symbol.removeprefix(FACT) in FACTS and symbol.startswith(FACT):
            return Term(VARIABLE, value=symbol)
        if symbol.startswith(FACT):
            facts = ", ".join(FACT + fact for fact in FACTS)
            raise refuse_at(source, op, f"a fact of the machine must be one of {facts}; got {symbol!r}")
        return Term(DECLARED, value=f"{symbol}#{number}")
    if name == "int.cmp":
        name += f" {COMPARISONS[int(ir.IntegerAttr(op.attributes['pred']))]}"
    if name not in OPERATIONS:
        raise refuse_at(
            source, op, f"{op.name} is no op that constraints are evaluated with; use integers and truth values"
        )
    return Term(name, operands)


def signed(attribute: ir.IntegerAttr) -> int:
    """Return the value of an ``smt.int.constant`` as a signed integer, whatever the signedness of its type."""
    value, width = int(attribute), ir.IntegerType(attribute.type).width
    return value - (1 << width) if value >= 1 << (width - 1) else value


def settle(asserted: list[Term]) -> tuple[dict[str, Term], list[Term]]:
    """Solve equations for the declared symbols; return their values and the assertions that are not such equations."""
    known: dict[str, Term] = {}
    pending = [part for term in asserted for part in conjuncts(term)]
    changed = True
    while changed:
        changed = False
        for term in pending:
            solution = solved(substitute(term, known))
            if solution is not None:
                known[solution[0]] = solution[1]
                pending.remove(term)
                changed = True
                break
    return known, pending


def conjuncts(term: Term) -> list[Term]:
    """Return the operands of a conjunction, flattened; a term that is not a conjunction is returned alone."""
    return [part for operand in term.operands for part in conjuncts(operand)] if term.op == "and" else [term]


def solved(term: Term) -> tuple[str, Term] | None:
    """Return the declared symbol that an equation defines and its value; `None` if the term defines none."""
    if term.op != "eq" or len(term.operands) != 2:
        return None
    for side, value in (term.operands, term.operands[::-1]):
        if side.op == DECLARED and not is_open(value):
            return str(side.value), value
    return None


def is_open(term: Term) -> bool:
    """Return whether a term contains a declared symbol without a value."""
    return term.op == DECLARED or any(map(is_open, term.operands))


def substitute(term: Term, known: Mapping[str, Term]) -> Term:
    """Return a term with declared symbols replaced by their known values."""
    if term.op == DECLARED:
        return known.get(str(term.value), term)
    return Term(term.op, tuple(substitute(each, known) for each in term.operands), term.value)
