"""Translation of a task to TVM's tensor expressions: every operation becomes one ``te.compute``."""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

from autotune.contrib.backends.computation import array_of, name_of, start_of
from autotune.core.ops.op import BodyOp, Index, Number, Op
from autotune.core.task import Task

Tensor = Any
Expr = Any
DTYPES = {
    **{"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16"},
    **{"i1": "bool", "i8": "int8", "i32": "int32", "i64": "int64", "index": "int64"},
}
PREDICATES = {  # indexed by MLIR's predicate numbers
    "arith.cmpi": ("EQ", "NE", *("LT", "LE", "GT", "GE") * 2),  # unsigned ones occur on indices only
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
SUMS = {  # reduction operation -> TVM's reducer, neutral element
    **dict.fromkeys(("arith.addf", "arith.addi"), ("sum", 0.0)),
    **dict.fromkeys(("arith.maximumf", "arith.maxnumf"), ("max", -inf)),
    **dict.fromkeys(("arith.minimumf", "arith.minnumf"), ("min", inf)),
}
FAR = 1e37  # a start of a maximum or minimum beyond this counts as infinite


class UntranslatedOpError(Exception):
    """An operation has no translation; the message names it."""


class TensorExpressions:
    """Translator of tasks to TVM."""

    def __init__(self) -> None:
        """Import TVM."""
        from tvm import te, tirx

        self.te, self.tirx = te, tirx

    def function_of(self, task: Task) -> Any:  # noqa: ANN401
        """Translate a task to a PrimFunc.

        Raises:
            UntranslatedOpError: An operation has no translation.
        """
        inputs_ = [a for a in task.payload.arguments if a.role != "output"]
        arrays = {a.name: self.te.placeholder(a.shape, DTYPES[a.dtype], name=a.name) for a in inputs_}
        inputs = list(arrays.values())
        for position in reversed(range(len(task.ops))):
            arrays[name_of(task, position)] = self.write_op(task, position, arrays)
        return self.te.create_prim_func([*inputs, arrays[name_of(task, 0)]])

    def write_op(self, task: Task, position: int, arrays: Mapping[str, Tensor]) -> Tensor:
        """Translate an operation to a computation.

        Raises:
            UntranslatedOpError: The operation or its output indexing has no translation.
        """
        op, name, start = task.ops[position], name_of(task, position), start_of(task, task.ops[position])
        shape = op.operands[-1].shape
        if None in op.operands[-1].loops or not shape:
            raise UntranslatedOpError(f"an op of {shape} that writes at sums of loops")
        axes = {loop: self.te.reduce_axis((0, op.sizes[loop]), name=f"{name}_r{loop}") for loop in op.reduced}
        point = Point(self, op, [arrays.get(array_of(task, each)) for each in op.inputs], axes, start, arrays)
        if not axes:
            return self.te.compute(shape, lambda *indices: point.values(indices, op.gives[0]), name=name)
        last, value = sum_of(op, start)
        reducer, neutral = SUMS[last.name]
        total: Callable[..., Expr] = getattr(self.te, reducer)
        over = [axes[loop] for loop in op.reduced]
        summed = self.te.compute(
            shape, lambda *indices: total(point.values(indices, value), axis=over), name=f"{name}_{reducer}"
        )
        if is_neutral(start, neutral):
            return summed
        return self.te.compute(shape, lambda *i: self.call(NAMES[last.name], point.start(i), summed(*i)), name=name)

    def call(self, name: str, *operands: Expr) -> Expr:
        """Call a TVM function on expressions."""
        return getattr(self.tirx, name)(*operands)


class Point:
    """The expressions of an operation at one point of its iteration space.

    Args:
        language: Translator.
        op: Operation to translate.
        inputs: Input arrays, in order.
        axes: Reduction axes by loop.
        start: Initial value of the output; a name refers to `arrays`.
        arrays: Arrays by name.
    """

    def __init__(
        self,
        language: TensorExpressions,
        op: Op,
        inputs: Sequence[Tensor],
        axes: Mapping[int, Any],
        start: Number | str | None,
        arrays: Mapping[str, Tensor],
    ) -> None:
        self._language, self._op, self._inputs, self._axes = language, op, inputs, axes
        self._start = arrays[start] if isinstance(start, str) else start

    def start(self, indices: Sequence[Expr]) -> Expr:
        """Return the initial value of the output at an index."""
        if self._start is None or isinstance(self._start, int | float):
            return self._language.tirx.const(self._start or 0, DTYPES[self._op.operands[-1].dtype])
        return self._start(*indices)

    def values(self, indices: Sequence[Expr], wanted: int) -> Expr:
        """Return the expression of the body value with number `wanted`, for the output element at an index."""
        op, loops = self._op, [*range(len(self._op.sizes))]
        points: list[Expr] = [self._axes[loop].var if loop in self._axes else None for loop in loops]
        for loop, here in zip(op.operands[-1].loops, indices, strict=True):
            points[loop or 0] = here
        pairs = zip(self._inputs, op.inputs, strict=True)
        body_values: list[Expr] = [array(*(index_at(i, points) for i in read.indices)) for array, read in pairs]
        body_values.append(self.start(indices))
        for step in op.body[: max(0, wanted + 1 - len(body_values))]:
            body_values.append(self.step(step, [body_values[number] for number in step.operands], points))
        return body_values[wanted]

    def step(self, step: BodyOp, operands: Sequence[Expr], loops: Sequence[Expr]) -> Expr:
        """Translate an operation of the body.

        Raises:
            UntranslatedOpError: The operation has no translation.
        """
        language, dtype = self._language, DTYPES.get(step.dtypes[0], "")
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
    """Return whether a reduction starts from its neutral element."""
    if not isinstance(start, int | float):
        return False
    return start == neutral or (abs(neutral) == inf and start * neutral > 0 and abs(start) >= FAR)


def sum_of(op: Op, start: Number | str | None) -> tuple[BodyOp, int]:
    """Return the reduction operation of a body, and the number of the value that it reduces.

    Raises:
        UntranslatedOpError: The reduction is no plain sum, maximum or minimum.
    """
    old, last = len(op.inputs), op.maker(op.gives[0])
    if last is None or last.name not in SUMS or last.operands.count(old) != 1 or start is None:
        raise UntranslatedOpError(f"a sum by {last.name if last is not None else 'nothing'}")
    if any(old in step.operands for step in op.body if step is not last):
        raise UntranslatedOpError("a sum that is read before it is there")
    return last, last.operands[1 - last.operands.index(old)]


def index_at(index: Index, loops: Sequence[Expr]) -> Expr:
    """Return the expression of an affine index at a point."""
    expression: Expr = index.constant
    for loop, factor in index.terms:
        expression = expression + (loops[loop] if factor == 1 else loops[loop] * factor)
    return expression
