"""Description of a task's computation for translation to another compiler: names and initial values of its arrays.

An operation runs over an iteration space. At each point it reads elements of arrays, computes a value and writes it to
its result; a reduction combines it with the current value of the result.
"""

from autotune.core.ops.op import Number, Op, Operand
from autotune.core.task import Task


def is_described(task: Task) -> bool:
    """Return whether a task is completely described by its operations, with affine indices and known initial values."""
    return all(op_is_described(op) for op in task.ops) and all(start_of(task, op) != "" for op in task.ops)


def op_is_described(op: Op) -> bool:
    """Return whether an operation has one result, linear indices, no captured values, and single-result body steps."""
    has_plain_operands = op.results == 1 and not op.captured and not any(each.is_scalar for each in op.operands)
    is_linear = not any(index.parts for each in op.operands for index in each.indices)
    is_simple = all(min((*step.operands, 0)) == 0 and len(step.dtypes) == 1 and not step.nested for step in op.body)
    return has_plain_operands and is_linear and is_simple and bool(op.gives) and op.gives[0] >= 0


def name_of(task: Task, position: int) -> str:
    """Return the name of an operation's result, numbered in program order."""
    return f"op{len(task.ops) - 1 - position}"


def array_of(task: Task, operand: Operand) -> str:
    """Return the name of the argument or result that an operand refers to; empty if it is neither."""
    return operand.argument if operand.source is None else name_of(task, operand.source)


def start_of(task: Task, op: Op) -> Number | str | None:
    """Return the initial value of an operation's output: a number, the name of an array, or `None` if it is not read.

    The name is empty if the value is unknown.
    """
    written = op.operands[-1]
    if written.is_filled and written.start is not None:
        return written.start
    return None if written.is_fresh else array_of(task, written)
