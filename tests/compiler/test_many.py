"""Functions of many arguments, results and ops: what is done in Python for twice as many is done about twice."""

import sys

import pytest

from autotune.compiler.tasks.partition import partition
from autotune.compiler.tasks.payload_file import read_payload

KIND = "tensor<2xf32>"


def chain(count, other):
    """A chain of additions, each of an argument whose number follows from that of the addition."""
    steps = (f"  %s{i} = arith.addf %{f's{i - 1}' if i else 'a0'}, %a{other(i)} : {KIND}" for i in range(count))
    given = ", ".join(f"%a{number}: {KIND}" for number in range(other(count - 1) + 1))
    return "\n".join((f"func.func @f({given}) -> {KIND} {{", *steps, f"  return %s{count - 1} : {KIND}", "}"))


def one_result_many_times(count):
    kinds, values = ", ".join([KIND] * count), ", ".join(["%a"] * count)
    return f"func.func @f(%a: {KIND}) -> ({kinds}) {{ return {values} : {kinds} }}"


FORMS = {
    "results": (200, one_result_many_times),
    "arguments": (40, lambda count: chain(count, lambda i: i)),
    "steps": (100, lambda count: chain(count, lambda i: 0)),
}


def calls_of(function):
    """Calls that Python makes, of functions of Python and of others, until a function comes back."""
    found = 0

    def count(frame, event, argument):
        nonlocal found
        found += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize("form", FORMS)
def test_work_grows_as_the_function_does(form):
    count, write = FORMS[form]
    read_and_partition(write(2))  # imports what it needs
    few, many = (read_and_partition(write(each)) for each in (count, 2 * count))
    assert many < 2.5 * few


def read_and_partition(text):
    """Calls of Python for a function that is read and cut into tasks."""
    return calls_of(lambda: partition(read_payload("mine.mlir", text)))
