"""Decisions that MetaSchedule's sketches leave open, as knobs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from math import prod
from typing import Any

from autotune.core.space import Condition, Knob, Space, Value

TILE, CHOICE, LOCATION = "SamplePerfectTile", "SampleCategorical", "SampleComputeLocation"
KINDS = {TILE: "tile", CHOICE: "choice", LOCATION: "place"}
SKETCH = "sketch"
LOCATIONS = (-2, -1, 0, 1, 2, 3, 4, 5)  # inlined, at the top, in a loop
MOST_FACTORS = 2000  # values of a knob
SPATIAL_LEVELS = 4  # of the tiling SSRSRS
LANES = 16


@dataclass(frozen=True)
class Decision:
    """A decision that a sketch leaves open.

    Attributes:
        kind: One of `KINDS`.
        knob: The knob that it is.
        candidates: What a choice is among.
    """

    kind: str
    knob: Knob
    candidates: tuple[int, ...] = ()

    def of(self, value: Value) -> Any:  # noqa: ANN401
        """The decision in TVM's terms."""
        if self.kind == TILE:
            return [int(factor) for factor in str(value).split("x")]
        return self.candidates.index(int(value)) if self.kind == CHOICE else int(value)


def read_decisions(trace: Any, number: int) -> Iterator[Decision]:  # noqa: ANN401
    """The decisions of a sketch, in order, what it sampled for itself first among the values."""
    positions = count()
    for instruction in trace.insts:
        kind = instruction.kind.name
        if kind not in KINDS:
            continue
        name, decided = f"s{number}_{KINDS[kind]}_{next(positions)}", trace.get_decision(instruction)
        if kind == TILE:
            sampled = [int(factor) for factor in decided]
            most = int(instruction.attrs[1])
            yield Decision(kind, Knob(name, tuple("x".join(map(str, f)) for f in tilings(sampled, most))))
        elif kind == CHOICE:
            candidates = tuple(int(candidate) for candidate in instruction.attrs[0])
            yield Decision(kind, Knob(name, candidates), candidates)
        else:
            yield Decision(kind, Knob(name, LOCATIONS))


def tilings(sampled: Sequence[int], most: int) -> list[tuple[int, ...]]:
    """All ways to write a size as a product of as many factors, the last one at most so large, in order."""
    size, levels = prod(sampled), len(sampled)
    divisors = [d for d in range(1, size + 1) if size % d == 0]
    found: list[tuple[int, ...]] = []

    def extend(rest: int, inner: tuple[int, ...]) -> None:
        if len(inner) == levels - 1:
            found.append((rest, *inner))
            return
        for factor in divisors:
            if rest % factor == 0 and (inner or factor <= most):
                extend(rest // factor, (factor, *inner))

    extend(size, ())
    return found[:MOST_FACTORS]


def space_of(decisions: Sequence[Sequence[Decision]]) -> tuple[Space, dict[str, Value]]:
    """The knobs of all sketches: a decision counts where its sketch is chosen."""
    knobs = [Knob(SKETCH, tuple(range(len(decisions))))]
    conditions, default = [], dict[str, Value]({SKETCH: 0})
    for number, sketch in enumerate(decisions):
        values = defaults_of(sketch)
        for each, value in zip(sketch, values, strict=True):
            knobs.append(each.knob)
            default[each.knob.name] = value
            if len(decisions) > 1:
                conditions.append(Condition(each.knob.name, (((SKETCH, number),),), value))
    return Space(tuple(knobs), (), tuple(conditions)), default


def defaults_of(sketch: Sequence[Decision]) -> list[Value]:
    """Vectors along the last loop that is tiled in space, four steps of the others in registers, four of sums."""
    values: list[Value] = []
    for index, each in enumerate(sketch):
        if each.kind != TILE:
            values.append(each.knob.values[-1] if each.kind == CHOICE else -1)
            continue
        levels = str(each.knob.values[0]).count("x") + 1
        after = sketch[index + 1] if index + 1 < len(sketch) else None
        spatial = levels == SPATIAL_LEVELS
        more = after is not None and after.kind == TILE and str(after.knob.values[0]).count("x") + 1 == levels
        wanted = (1, 1, LANES) if spatial and not more else (1, 4, 1) if spatial else (4,) * (levels - 1)
        values.append(nearest(each.knob, wanted))
    return values


def nearest(knob: Knob, wanted: Sequence[int]) -> Value:
    """The tiling whose inner factors are as wanted, or the largest below."""

    def score(value: Value) -> tuple[int, ...]:
        inner = [int(factor) for factor in str(value).split("x")][1:]
        return tuple(mine if mine <= most else -mine for mine, most in reversed(list(zip(inner, wanted, strict=True))))

    return max(knob.values, key=score)
