"""A task in TVM's tensor expressions: every op becomes one computation over its loops."""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

from autotune.contrib.backends.computation import Computation, ComputedOp, LinearIndex, ScalarOp
from autotune.core.payload import Argument

Tensor = Any
Expr = Any
DTYPES = {
    **{"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16"},
    **{"i1": "bool", "i8": "int8", "i32": "int32", "i64": "int64", "index": "int64"},
}
PREDICATES = {  # in the order of the predicates' numbers
    "arith.cmpi": ("EQ", "NE", *("LT", "LE", "GT", "GE") * 2),  # unsigned ones are asked of places alone
    "arith.cmpf": ("", "EQ", "GT", "GE", "LT", "LE", "NE"),
}
CASTS = (
    *("arith.extf", "arith.truncf", "arith.extsi", "arith.trunci", "arith.sitofp", "arith.fptosi", "arith.index_cast"),
)
NAMES = {  # functions of tvm.tirx
    **dict.fromkeys(("arith.addf", "arith.addi"), "Add"),
    **dict.fromkeys(("arith.subf", "arith.subi"), "Sub"),
    **dict.fromkeys(("arith.mulf", "arith.muli"), "Mul"),
    **dict.fromkeys(("arith.maximumf", "arith.maxnumf", "arith.maxsi"), "Max"),
    **dict.fromkeys(("arith.minimumf", "arith.minnumf", "arith.minsi"), "Min"),
    **{"arith.divf": "Div", "math.powf": "power", "arith.select": "Select", "math.absf": "abs"},
    **{f"math.{name}": name for name in ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh", "erf", "sin", "cos")},
    **{"math.floor": "floor", "math.ceil": "ceil"},
}
SUMS = {  # what sums, and what changes no sum
    **dict.fromkeys(("arith.addf", "arith.addi"), ("sum", 0.0)),
    **dict.fromkeys(("arith.maximumf", "arith.maxnumf"), ("max", -inf)),
    **dict.fromkeys(("arith.minimumf", "arith.minnumf"), ("min", inf)),
}
FAR = 1e37  # beyond it, the start of a maximum or minimum is no number that data has


class UntranslatedOpError(Exception):
    """What a task computes is not written here; the message names it."""


class TensorExpressions:
    """Writes tasks in TVM's language."""

    def __init__(self) -> None:
        """Load TVM."""
        from tvm import te, tirx

        self.te, self.tirx = te, tirx

    def function_of(self, computation: Computation, arguments: Sequence[Argument]) -> Any:  # noqa: ANN401
        """A task as a function.

        Raises:
            UntranslatedOpError: There is an op that is not written here.
        """
        given = [a for a in arguments if a.role != "output"]
        arrays = {a.name: self.te.placeholder(a.shape, DTYPES[a.dtype], name=a.name) for a in given}
        inputs = list(arrays.values())
        for op in computation.ops:
            arrays[op.name] = self.write_op(op, arrays)
        return self.te.create_prim_func([*inputs, arrays[computation.ops[-1].name]])

    def write_op(self, op: ComputedOp, arrays: Mapping[str, Tensor]) -> Tensor:
        """An op as a computation.

        Raises:
            UntranslatedOpError: The op writes elsewhere than at its loops, or something in it is not written here.
        """
        if any(index.loop is None for index in op.written) or not op.shape:
            raise UntranslatedOpError(f"an op of {op.shape} that writes at sums of loops")
        axes = {loop: self.te.reduce_axis((0, op.sizes[loop]), name=f"{op.name}_r{loop}") for loop in op.summed}
        point = Point(self, op, arrays, axes)
        if not axes:
            return self.te.compute(op.shape, lambda *place: point.values(place, op.gives), name=op.name)
        last, value = sum_of(op)
        name, neutral = SUMS[last.name]
        total: Callable[..., Expr] = getattr(self.te, name)
        over = [axes[loop] for loop in op.summed]
        summed = self.te.compute(
            op.shape, lambda *place: total(point.values(place, value), axis=over), name=f"{op.name}_{name}"
        )
        if is_neutral(op.start, neutral):
            return summed
        return self.te.compute(
            op.shape, lambda *i: self.call(NAMES[last.name], point.start(i), summed(*i)), name=op.name
        )

    def call(self, name: str, *operands: Expr) -> Expr:
        """A function of TVM's on expressions."""
        return getattr(self.tirx, name)(*operands)


class Point:
    """The arithmetic of an op at a point.

    Args:
        language: Writes expressions.
        op: The op.
        arrays: Arrays by name.
        axes: Loops that are summed over.
    """

    def __init__(
        self, language: TensorExpressions, op: ComputedOp, arrays: Mapping[str, Tensor], axes: Mapping[int, Any]
    ) -> None:
        self._language, self._op, self._arrays, self._axes = language, op, arrays, axes

    def start(self, place: Sequence[Expr]) -> Expr:
        """What is there before the op writes."""
        op = self._op
        if isinstance(op.start, str):
            return self._arrays[op.start](*place)
        return self._language.tirx.const(0 if op.start is None else op.start, DTYPES[op.dtype])

    def values(self, place: Sequence[Expr], wanted: int) -> Expr:
        """The value of a number, where the op writes an element at a place."""
        op, loops = self._op, [*range(len(self._op.sizes))]
        points: list[Expr] = [self._axes[loop].var if loop in self._axes else None for loop in loops]
        for index, here in zip(op.written, place, strict=True):
            points[index.loop or 0] = here
        known: list[Expr] = [self._arrays[r.array](*(index_at(i, points) for i in r.index)) for r in op.reads]
        known.append(self.start(place))
        for step in op.steps[: max(0, wanted + 1 - len(known))]:
            known.append(self.step(step, [known[number] for number in step.operands], points))
        return known[wanted]

    def step(self, step: ScalarOp, operands: Sequence[Expr], loops: Sequence[Expr]) -> Expr:
        """A step.

        Raises:
            UntranslatedOpError: The step is not written here.
        """
        language, dtype = self._language, DTYPES.get(step.dtype, "")
        if step.name in NAMES:
            return language.call(NAMES[step.name], *operands)
        if step.name == "arith.negf":
            return language.call("Sub", language.tirx.const(-0.0, dtype), operands[0])
        if step.name == "arith.constant" and dtype and step.value is not None:
            return language.tirx.const(step.value, dtype)
        if step.name == "linalg.index":
            return loops[int(step.value or 0)].astype("int64")
        if step.name in CASTS and dtype:
            return operands[0].astype(dtype)
        predicate = dict(enumerate(PREDICATES.get(step.name, ()))).get(int(step.value or 0), "")
        if not predicate:
            raise UntranslatedOpError(step.name)
        return language.call(predicate, *operands)


def is_neutral(start: float | str | None, neutral: float) -> bool:
    """Tell whether a sum, maximum or minimum starts from what changes nothing."""
    if not isinstance(start, int | float):
        return False
    return start == neutral or (abs(neutral) == inf and start * neutral > 0 and abs(start) >= FAR)


def sum_of(op: ComputedOp) -> tuple[ScalarOp, int]:
    """The step that sums, and the number of the value that it sums.

    Raises:
        UntranslatedOpError: The step is no plain sum, maximum or minimum.
    """
    old, base = len(op.reads), len(op.reads) + 1
    last = op.steps[op.gives - base] if op.gives >= base else None
    if last is None or last.name not in SUMS or last.operands.count(old) != 1 or op.start is None:
        raise UntranslatedOpError(f"a sum by {last.name if last is not None else 'nothing'}")
    if any(old in step.operands for step in op.steps if step is not last):
        raise UntranslatedOpError("a sum that is read before it is there")
    return last, last.operands[1 - last.operands.index(old)]


def index_at(index: LinearIndex, loops: Sequence[Expr]) -> Expr:
    """An index at a point."""
    found: Expr = index.constant
    for loop, factor in index.terms:
        found = found + (loops[loop] if factor == 1 else loops[loop] * factor)
    return found
