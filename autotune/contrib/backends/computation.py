"""What a task computes, for whoever writes it in another compiler's language: names of its arrays, and what is there.

An op runs over its loops; at each point it reads elements of arrays, computes a number from them, and puts it in its
result, over the number that is there where it sums.
"""

from autotune.core.ops.op import Number, Op, Operand
from autotune.core.task import Task


def is_described(task: Task) -> bool:
    """Tell whether its ops describe all of a task: indices are sums of loops, bodies steps on what is read."""
    return all(op_is_described(op) for op in task.ops) and all(start_of(task, op) != "" for op in task.ops)


def op_is_described(op: Op) -> bool:
    """Tell whether an op is one result of arrays, read at sums of loops, by steps with one result each."""
    plain = op.results == 1 and not op.captured and not any(each.is_scalar for each in op.operands)
    linear = not any(index.parts for each in op.operands for index in each.indices)
    known = all(min((*step.operands, 0)) == 0 and len(step.dtypes) == 1 and not step.nested for step in op.body)
    return plain and linear and known and bool(op.gives) and op.gives[0] >= 0


def name_of(task: Task, position: int) -> str:
    """Name of an op's result, by its position among the task's ops: they are numbered in program order."""
    return f"op{len(task.ops) - 1 - position}"


def array_of(task: Task, operand: Operand) -> str:
    """Name of the argument, or of the result, that an operand is; empty where it is neither."""
    return operand.argument if operand.source is None else name_of(task, operand.source)


def start_of(task: Task, op: Op) -> Number | str | None:
    """What an op finds where it writes: a number, the name of an array, `None` where that is not read.

    An empty name is of what is not known.
    """
    written = op.operands[-1]
    if written.is_filled and written.start is not None:
        return written.start
    return None if written.is_fresh else array_of(task, written)
