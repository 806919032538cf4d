"""`Term`: an arithmetic or logical expression of knobs, as plain data that is evaluated without a solver.

The operations are those of SMT-LIB over integers and Booleans, under the names of MLIR's ``smt`` dialect
(https://smt-lib.org/theories-Ints.shtml): a remainder is never negative, whatever the signs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, pairwise
from math import prod

from autotune.core.errors import SpaceError
from autotune.core.space import Value

VARIABLE, CONSTANT, CHOOSE = "variable", "constant", "choose"  # a variable, a constant, a selection by a variable


@dataclass(frozen=True)
class Term:
    """An expression tree of a constraint.

    Attributes:
        op: `VARIABLE`, `CONSTANT`, `CHOOSE`, or a key of `OPERATIONS`.
        operands: Operands; for `CHOOSE`, one for each value of the variable from 0.
        value: Number of a constant; name of the variable for `VARIABLE` and `CHOOSE`.
    """

    op: str
    operands: tuple["Term", ...] = ()
    value: int | bool | str = 0


def divide(a: int, b: int) -> int:
    """Return the Euclidean quotient, whose remainder is not negative."""
    quotient = a // abs(b)
    return quotient if b > 0 else -quotient


OPERATIONS: Mapping[str, Callable[[Sequence[int]], int]] = {
    "int.add": sum,
    "int.mul": prod,
    "int.sub": lambda v: v[0] - v[1],
    "int.div": lambda v: divide(v[0], v[1]),
    "int.mod": lambda v: v[0] % abs(v[1]),
    "int.abs": lambda v: abs(v[0]),
    "int.cmp lt": lambda v: v[0] < v[1],
    "int.cmp le": lambda v: v[0] <= v[1],
    "int.cmp gt": lambda v: v[0] > v[1],
    "int.cmp ge": lambda v: v[0] >= v[1],
    "eq": lambda v: all(a == b for a, b in pairwise(v)),
    "distinct": lambda v: all(a != b for a, b in combinations(v, 2)),
    "and": all,
    "or": any,
    "xor": lambda v: reduce(lambda a, b: bool(a) != bool(b), v),
    "not": lambda v: not v[0],
    "implies": lambda v: not v[0] or bool(v[1]),
    "ite": lambda v: v[1] if v[0] else v[2],
}
INFIX = {
    "int.add": "+",
    "int.mul": "*",
    "int.sub": "-",
    "int.div": "/",
    "int.mod": "mod",
    "int.cmp lt": "<",
    "int.cmp le": "<=",
    "int.cmp gt": ">",
    "int.cmp ge": ">=",
    "eq": "=",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "implies": "implies",
}
LOOSE = {"eq": 1, "and": 0, "or": 0, "xor": 0, "implies": 0}  # operator precedence; 2 and 3 for arithmetic


def evaluate(term: Term, values: Mapping[str, Value]) -> int:
    """Return the value of a term; true is 1.

    Args:
        term: Term to evaluate.
        values: Value of every variable in it.

    Raises:
        ZeroDivisionError: The term divides by zero, which SMT-LIB leaves unspecified.
        SpaceError: The value of a variable is no number.

    Example:
        >>> evaluate(Term("int.mod", (Term("variable", value="tile"), Term("constant", value=4))), {"tile": 6})
        2
    """
    if term.op == CONSTANT:
        return int(term.value)
    if term.op in (VARIABLE, CHOOSE):
        value = values.get(str(term.value))
        if not isinstance(value, int):
            raise SpaceError(f"constraints must be about numbers, {term.value} is {value!r}; leave it out of them")
        return evaluate(term.operands[value], values) if term.op == CHOOSE else value
    if term.op == "ite":
        return evaluate(term.operands[1 if evaluate(term.operands[0], values) else 2], values)
    return int(OPERATIONS[term.op]([evaluate(operand, values) for operand in term.operands]))


def spell(term: Term) -> str:
    """Return a term in infix notation.

    Example:
        >>> six = Term("int.mul", (Term("variable", value="rows"), Term("constant", value=6)))
        >>> spell(Term("int.cmp le", (six, Term("variable", value="autotune.vector_registers"))))
        'rows * 6 <= autotune.vector_registers'
    """
    if term.op in (VARIABLE, CONSTANT):
        return str(term.value)
    if term.op == CHOOSE:
        return f"[{', '.join(map(spell, term.operands))}] of {term.value}"
    if term.op in INFIX:
        parts = [spell(each) if strength(each) > strength(term) else f"({spell(each)})" for each in term.operands]
        return f" {INFIX[term.op]} ".join(parts)
    return f"{term.op.removeprefix('int.')}({', '.join(map(spell, term.operands))})"


def strength(term: Term) -> int:
    """Return the operator precedence of a term: comparisons bind looser than sums, and sums looser than products."""
    if term.op not in INFIX:
        return 4
    if term.op.startswith("int.cmp"):
        return 1
    return LOOSE.get(term.op, 3 if term.op in ("int.mul", "int.div", "int.mod") else 2)


def names_in(term: Term) -> set[str]:
    """Return the variables of a term."""
    names = {str(term.value)} if term.op in (VARIABLE, CHOOSE) else set()
    return names.union(*map(names_in, term.operands))
