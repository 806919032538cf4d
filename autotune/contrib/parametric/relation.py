"""Conversion of relations between knobs, given as sets of tuples, to readable constraints."""

from collections.abc import Iterable, Sequence
from itertools import product

from autotune.core.scripts.terms import CONSTANT, VARIABLE, Term
from autotune.core.space import Knob

Members = frozenset[tuple[int, ...]]


def constraints_of(knobs: Sequence[Knob], members: Members) -> tuple[Term, ...]:
    """Return short terms whose conjunction holds for exactly the tuples of a relation.

    Args:
        knobs: Knobs with numeric values.
        members: Tuples of values that are allowed.

    Example:
        >>> from autotune.core.scripts.terms import spell
        >>> tile, unroll = Knob("tile", (4, 6, 8)), Knob("unroll", (1, 4))
        >>> [spell(c) for c in constraints_of((tile, unroll), frozenset({(4, 1), (6, 1), (8, 1), (4, 4), (8, 4)}))]
        ['tile mod unroll = 0']
    """
    everything = frozenset(product(*(numbers_of(knob) for knob in knobs)))
    if members == everything:
        return ()
    if len(knobs) == 1:
        return (membership(knobs[0], {value for (value,) in members}),)
    if len(knobs) == 2:
        for index in (0, 1):
            if all(((m[index] % m[1 - index] == 0) if m[1 - index] else False) == (m in members) for m in everything):
                divided = Term("int.mod", (name_of(knobs[index]), name_of(knobs[1 - index])))
                return (Term("eq", (divided, constant(0))),)
    candidates = [by_cases(knobs, index, members) for index in range(len(knobs))]
    return min(candidates, key=lambda terms: sum(map(weight, terms)))


def by_cases(knobs: Sequence[Knob], index: int, members: Members) -> tuple[Term, ...]:
    """Return constraints by case distinction on one knob: each implies constraints on the other knobs."""
    rest = [knob for number, knob in enumerate(knobs) if number != index]
    slices: dict[Members, list[int]] = {}
    for value in numbers_of(knobs[index]):
        inside = frozenset((*m[:index], *m[index + 1 :]) for m in members if m[index] == value)
        slices.setdefault(inside, []).append(value)
    terms = []
    for inside, values in slices.items():
        case = membership(knobs[index], set(values))
        if not inside:
            terms.append(Term("not", (case,)))
        else:
            terms += [Term("implies", (case, constraint)) for constraint in constraints_of(rest, inside)]
    return tuple(terms)


def membership(knob: Knob, values: set[int]) -> Term:
    """Return the term that a knob has one of some values, as a bound if they are a prefix or suffix of its values."""
    numbers, name = numbers_of(knob), name_of(knob)
    if len(values) == 1:
        return Term("eq", (name, constant(*values)))
    if values == {number for number in numbers if number <= max(values)}:
        return Term("int.cmp le", (name, constant(max(values))))
    if values == {number for number in numbers if number >= min(values)}:
        return Term("int.cmp ge", (name, constant(min(values))))
    return Term("or", tuple(Term("eq", (name, constant(value))) for value in sorted(values)))


def numbers_of(knob: Knob) -> tuple[int, ...]:
    """Return the values of a numeric knob."""
    return tuple(int(value) for value in knob.values)


def name_of(knob: Knob) -> Term:
    """Return the term for the value of a knob."""
    return Term(VARIABLE, value=knob.name)


def constant(number: int) -> Term:
    """Return the term for a constant."""
    return Term(CONSTANT, value=number)


def weight(term: Term) -> int:
    """Return the number of nodes of a term."""
    return 1 + sum(map(weight, term.operands))


def product_of(factor: int, names: Iterable[str]) -> Term:
    """Return the term for a multiple of a product of knobs."""
    terms = tuple(Term(VARIABLE, value=name) for name in names)
    whole = (*terms, constant(factor)) if factor != 1 else terms
    return whole[0] if len(whole) == 1 else Term("int.mul", whole)
