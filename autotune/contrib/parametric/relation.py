"""Relations between knobs, which are known by their tuples alone, as the constraints that people write."""

from collections.abc import Iterable, Sequence
from itertools import product

from autotune.core.scripts.terms import CONSTANT, GIVEN, Term
from autotune.core.space import Knob

Members = frozenset[tuple[int, ...]]


def constraints_of(knobs: Sequence[Knob], members: Members) -> tuple[Term, ...]:
    """Terms that are all true of the tuples of a relation, and of no others; as few as there are to be found.

    Args:
        knobs: Knobs whose values are numbers.
        members: Values of the knobs that are allowed together.

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
    found = [by_cases(knobs, index, members) for index in range(len(knobs))]
    return min(found, key=lambda terms: sum(map(weight, terms)))


def by_cases(knobs: Sequence[Knob], index: int, members: Members) -> tuple[Term, ...]:
    """The constraints that hold of the other knobs where one of them has certain values."""
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
    """That a knob has one of some values, by the bound of them where they have one."""
    numbers, name = numbers_of(knob), name_of(knob)
    if len(values) == 1:
        return Term("eq", (name, constant(*values)))
    if values == {number for number in numbers if number <= max(values)}:
        return Term("int.cmp le", (name, constant(max(values))))
    if values == {number for number in numbers if number >= min(values)}:
        return Term("int.cmp ge", (name, constant(min(values))))
    return Term("or", tuple(Term("eq", (name, constant(value))) for value in sorted(values)))


def numbers_of(knob: Knob) -> tuple[int, ...]:
    """The values of a knob of numbers."""
    return tuple(int(value) for value in knob.values)


def name_of(knob: Knob) -> Term:
    """The value of a knob in a constraint."""
    return Term(GIVEN, value=knob.name)


def constant(number: int) -> Term:
    """A number in a constraint."""
    return Term(CONSTANT, value=number)


def weight(term: Term) -> int:
    """How long a term is."""
    return 1 + sum(map(weight, term.operands))


def product_of(factor: int, names: Iterable[str]) -> Term:
    """A multiple of the product of knobs."""
    terms = tuple(Term(GIVEN, value=name) for name in names)
    whole = (*terms, constant(factor)) if factor != 1 else terms
    return whole[0] if len(whole) == 1 else Term("int.mul", whole)
