"""Walks over the ops of a program: evaluation in NumPy, cost estimation, and lowering to linalg."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from autotune.core.errors import PayloadError
from autotune.core.payload import Array
from payload.builder import Builder, Value, write_function, write_module
from payload.dialect.op import Cost, Restored
from payload.dialect.program import OpBody, OpCall, OpProgram

Values = dict[str, Any]
Step = Callable[[OpCall, Sequence[Any], Values], Sequence[Any]]


def walk(calls: Sequence[OpCall], values: Values, step: Step) -> None:
    """Interpret ops in program order.

    Args:
        calls: Ops in program order.
        values: Interpretation of every value by name, such as an array or a lowered value; those of results are added.
        step: Callback that interprets an op, given the interpretations of its operands and `values`.
    """
    for call in calls:
        results = step(call, [values[operand.name] for operand in call.operands], values)
        values.update(zip((result.name for result in call.results), results, strict=True))


def run_body(body: OpBody, values: Values, step: Step, *arguments: Any) -> list[Any]:  # noqa: ANN401 - as in `walk`
    """Interpret a region; values it defines are not visible outside."""
    scope = {**values, **dict(zip((a.name for a in body.arguments), arguments, strict=True))}
    walk(body.calls, scope, step)
    return [scope[each.name] for each in body.gives]


def evaluate(program: OpProgram, **arrays: Array) -> tuple[Array, ...]:
    """Compute the final values of states and outputs in float64, with the references of the ops.

    Args:
        program: Program to evaluate.
        arrays: Arrays of all arguments but outputs, by name.
    """

    def step(call: OpCall, operands: Sequence[Any], values: Values) -> Sequence[Any]:
        body = () if call.body is None else (partial(run_body, call.body, values, step),)
        return call.op.reference(*body, *operands)

    names = {argument.name for argument in program.arguments}
    values: Values = {f"%{name}": array for name, array in arrays.items() if name in names}
    walk(program.calls, values, step)
    return tuple(values[each.name] for each in program.gives)


def cost(calls: Sequence[OpCall]) -> Cost:
    """Return the combined cost of ops."""
    return sum(map(cost_of, calls), Cost())


def cost_of(call: OpCall) -> Cost:
    """Return the cost of an op."""
    body = () if call.body is None else (cost(call.body.calls),)
    return call.op.cost(*body, *(operand.kind for operand in call.operands))


def longest_chain(calls: Sequence[OpCall], before: Mapping[str, int] | None = None) -> int:
    """Return the length of the longest chain of dependent additions; the body of a block counts once.

    Args:
        calls: Ops in program order.
        before: Chain lengths of values defined before, by name.
    """
    chain = dict(before or {})
    for call in calls:
        start = max((chain.get(operand.name, 0) for operand in call.operands), default=0)
        own = (
            longest_chain(call.body.calls, chain)
            if call.body is not None
            else call.op.cost(*(operand.kind for operand in call.operands)).longest
        )
        chain |= dict.fromkeys((result.name for result in call.results), start + (own if own > 1 else 0))
    return max(chain.values(), default=0) or 1


def lower(program: OpProgram) -> list[str]:
    """Lower a program to the lines of a function over memrefs, with linalg on tensors inside.

    Raises:
        PayloadError: An op has no lowering, or not for these operands; the message has its location.
    """

    def emit(f: Builder, tensors: dict[str, Value]) -> list[Value]:
        values: Values = {f"%{name}": tensor for name, tensor in tensors.items()}
        walk(program.calls, values, partial(lower_call, f))
        gives = [values[each.name] for each in program.gives]
        need_stored(f"@{program.entry}", gives)
        return gives

    return write_function(program.entry, program.arguments, emit)


def lower_call(f: Builder, call: OpCall, operands: Sequence[Any], values: Values) -> Sequence[Any]:
    """Lower an op and return the values of its results.

    Raises:
        PayloadError: The op has no lowering, or not for these operands.
    """
    where, inner = f"{call.location}{call.name}", call.body
    emit = getattr(call.op, "lower", None)
    if emit is None:
        raise PayloadError(f"{where} must have a lowering, it has none; write its method `lower`")
    if not getattr(call.op, "restores", False):
        need_stored(where, operands)
    hints = tuple(result.hint for result in call.results)
    if inner is None:
        try:
            return list(emit(f, hints, *operands))
        except PayloadError as error:
            raise PayloadError(f"{where}: {error}") from error

    def body(*arguments: Any) -> list[Any]:  # noqa: ANN401 - as in `walk`
        gives = run_body(inner, values, partial(lower_call, f), *arguments)
        need_stored(where, gives)
        return gives

    return list(emit(body, f, hints, *operands))


def need_stored(where: str, values: Sequence[Any]) -> None:
    """Raise if a value is a quantized matrix whose scales are not applied yet.

    Raises:
        PayloadError: A value is a `Restored` matrix.
    """
    if any(isinstance(each, Restored) for each in values):
        raise PayloadError(f"{where} must have what is stored in f32, it has a restored matrix; gpt.linear reads it")


def lower_text(*programs: OpProgram) -> str:
    """Lower programs to a module.

    Raises:
        PayloadError: An op has no lowering, or not for these operands.
    """
    return write_module(*map(lower, programs))
