"""What is done with a program by walking its ops: it is evaluated, costed, and lowered to linalg."""

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
    """Do a step for every op, in order.

    Args:
        calls: The ops.
        values: What stands for every value, by name; what steps give is added.
        step: Called with an op, what stands for its operands, and `values`; gives what stands for its results.
    """
    for call in calls:
        given = step(call, [values[operand.name] for operand in call.operands], values)
        values.update(zip((result.name for result in call.results), given, strict=True))


def run_body(body: OpBody, values: Values, step: Step, *arguments: Any) -> list[Any]:  # noqa: ANN401 - as in `walk`
    """Walk a body; what it computes is not seen outside."""
    inside = {**values, **dict(zip((a.name for a in body.arguments), arguments, strict=True))}
    walk(body.calls, inside, step)
    return [inside[each.name] for each in body.gives]


def evaluate(program: OpProgram, **arrays: Array) -> tuple[Array, ...]:
    """What states and outputs hold after a call, in float64, by the references of the ops.

    Args:
        program: The program.
        arrays: Every argument but outputs, by name.
    """

    def step(call: OpCall, operands: Sequence[Any], values: Values) -> Sequence[Any]:
        body = () if call.body is None else (partial(run_body, call.body, values, step),)
        return call.op.reference(*body, *operands)

    names = {argument.name for argument in program.arguments}
    values: Values = {f"%{name}": array for name, array in arrays.items() if name in names}
    walk(program.calls, values, step)
    return tuple(values[each.name] for each in program.gives)


def cost(calls: Sequence[OpCall]) -> Cost:
    """What ops take together."""
    return sum(map(cost_of, calls), Cost())


def cost_of(call: OpCall) -> Cost:
    """What an op takes."""
    body = () if call.body is None else (cost(call.body.calls),)
    return call.op.cost(*body, *(operand.kind for operand in call.operands))


def longest_chain(calls: Sequence[OpCall], before: Mapping[str, int] | None = None) -> int:
    """Length of the longest chain of additions behind a value; the body of a block counts once.

    Args:
        calls: The ops.
        before: Lengths behind the values that are there from the start, by name.
    """
    chain = dict(before or {})
    for call in calls:
        behind = max((chain.get(operand.name, 0) for operand in call.operands), default=0)
        here = (
            longest_chain(call.body.calls, chain)
            if call.body is not None
            else call.op.cost(*(operand.kind for operand in call.operands)).longest
        )
        chain |= dict.fromkeys((result.name for result in call.results), behind + (here if here > 1 else 0))
    return max(chain.values(), default=0) or 1


def lower(program: OpProgram) -> list[str]:
    """The lines of the function that a program is: linalg on tensors, memrefs outside.

    Raises:
        PayloadError: An op has no lowering, or cannot be lowered with what it reads; the error has its location.
    """

    def emit(f: Builder, tensors: dict[str, Value]) -> list[Value]:
        values: Values = {f"%{name}": tensor for name, tensor in tensors.items()}
        walk(program.calls, values, partial(lower_call, f))
        gives = [values[each.name] for each in program.gives]
        need_stored(f"@{program.entry}", gives)
        return gives

    return write_function(program.entry, program.arguments, emit)


def lower_call(f: Builder, call: OpCall, operands: Sequence[Any], values: Values) -> Sequence[Any]:
    """Emit an op; give what its results are.

    Raises:
        PayloadError: The op has no lowering, or cannot be lowered with what it reads.
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
    """Raise unless values are stored as they are.

    Raises:
        PayloadError: One is a matrix of whole numbers that is not multiplied yet.
    """
    if any(isinstance(each, Restored) for each in values):
        raise PayloadError(f"{where} must have what is stored in f32, it has a restored matrix; gpt.linear reads it")


def lower_text(*programs: OpProgram) -> str:
    """A module of programs, lowered.

    Raises:
        PayloadError: An op has no lowering, or cannot be lowered with what it reads.
    """
    return write_module(*map(lower, programs))
