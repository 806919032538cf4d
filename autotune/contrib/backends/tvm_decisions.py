"""Mapping of the sampling decisions of MetaSchedule's sketches to knobs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from math import prod
from typing import Any

from autotune.core.space import Condition, Knob, Space, Value

TILE, CHOICE, LOCATION = "SamplePerfectTile", "SampleCategorical", "SampleComputeLocation"
KINDS = {TILE: "tile", CHOICE: "choice", LOCATION: "place"}
SKETCH = "sketch"
LOCATIONS = (-2, -1, 0, 1, 2, 3, 4, 5)  # compute locations: inlined, at the root, in a loop
MOST_FACTORS = 2000  # values of a knob
SPATIAL_LEVELS = 4  # of the tiling SSRSRS
LANES = 16


@dataclass(frozen=True)
class Decision:
    """A sampling decision of a sketch.

    Attributes:
        kind: Sampling instruction, one of `KINDS`.
        knob: Knob of the decision.
        candidates: Values of a categorical decision.
    """

    kind: str
    knob: Knob
    candidates: tuple[int, ...] = ()

    def of(self, value: Value) -> Any:  # noqa: ANN401
        """Convert a value of the knob to TVM's decision."""
        if self.kind == TILE:
            return [int(factor) for factor in str(value).split("x")]
        return self.candidates.index(int(value)) if self.kind == CHOICE else int(value)


def read_decisions(trace: Any, number: int) -> Iterator[Decision]:  # noqa: ANN401
    """Yield the decisions of a sketch, in order."""
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
    """Return the factorizations of a size into the sampled number of factors, the last one at most `most`, in order."""
    size, levels = prod(sampled), len(sampled)
    divisors = [d for d in range(1, size + 1) if size % d == 0]
    factorizations: list[tuple[int, ...]] = []

    def extend(rest: int, inner: tuple[int, ...]) -> None:
        if len(inner) == levels - 1:
            factorizations.append((rest, *inner))
            return
        for factor in divisors:
            if rest % factor == 0 and (inner or factor <= most):
                extend(rest // factor, (factor, *inner))

    extend(size, ())
    return factorizations[:MOST_FACTORS]


def space_of(decisions: Sequence[Sequence[Decision]]) -> tuple[Space, dict[str, Value]]:
    """Return the search space of all sketches and its default; decisions are conditional on their sketch."""
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
    """Return default values: 16 lanes along the last spatial loop, register tiles of 4 for others and reductions."""
    values: list[Value] = []
    for index, each in enumerate(sketch):
        if each.kind != TILE:
            values.append(each.knob.values[-1] if each.kind == CHOICE else -1)
            continue
        levels = str(each.knob.values[0]).count("x") + 1
        after = sketch[index + 1] if index + 1 < len(sketch) else None
        is_spatial = levels == SPATIAL_LEVELS
        is_followed = after is not None and after.kind == TILE and str(after.knob.values[0]).count("x") + 1 == levels
        inner = (1, 1, LANES) if is_spatial and not is_followed else (1, 4, 1) if is_spatial else (4,) * (levels - 1)
        values.append(nearest(each.knob, inner))
    return values


def nearest(knob: Knob, wanted: Sequence[int]) -> Value:
    """Return the tiling whose inner factors are the wanted ones, or the largest below."""

    def score(value: Value) -> tuple[int, ...]:
        inner = [int(factor) for factor in str(value).split("x")][1:]
        return tuple(mine if mine <= most else -mine for mine, most in reversed(list(zip(inner, wanted, strict=True))))

    return max(knob.values, key=score)
