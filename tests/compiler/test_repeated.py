"""Nests that a program has several times become one function: the same results, and code that is written once."""

import re

import numpy as np
import pytest
from precision_support import WORDS
from tuning_support import default_steps, run, tensor_payload

from autotune.compiler.ir.module import context, find_function, parse
from autotune.compiler.lowering.stages import compile_to
from autotune.compiler.passes.pipelines import TAIL, tail
from autotune.compiler.passes.repeated import FUNCTION, MANY, share_nests
from autotune.compiler.tasks.partition import partition
from autotune.core.candidate import Candidate, Claim
from autotune.core.host.machine import this_machine
from autotune.core.payload import Argument
from autotune.core.scripts.assembly import assemble, panels_of, write_step
from autotune.registry import family_for, load_payload
from autotune.worker.bench.proof import transform


def layers(count, size=24):
    """So many products one after the other, each of the last one's result and a weight."""
    kind = f"tensor<{size}x{size}xf32>"
    lines, last = [f"%zero = arith.constant 0.0 : f32\n    %empty = tensor.empty() : {kind}"], "%x"
    for number in range(count):
        following = "%result" if number == count - 1 else f"%next{number}"
        lines.append(f"""%zeros{number} = linalg.fill ins(%zero : f32) outs(%empty : {kind}) -> {kind}
    {following} = linalg.matmul ins({last}, %w{number} : {kind}, {kind}) outs(%zeros{number} : {kind}) -> {kind}""")
        last = following
    weights = [Argument(f"w{number}", "weight", (size, size)) for number in range(count)]
    arguments = [Argument("x", "input", (size, size)), *weights, Argument("y", "output", (size, size))]
    return tensor_payload("layers", arguments, "\n    ".join(lines), reduction=size)


def expected(inputs):
    value = inputs["x"].astype("f8")
    for name, weight in inputs.items():
        if name != "x":
            value = value @ weight.astype("f8")
    return value


def compiled(payload, pipeline=TAIL):
    """The partition of a payload, and a candidate with the default of every task."""
    parts = partition(payload)
    steps = default_steps(parts, this_machine())
    return Candidate(assemble(steps), pipeline, parts.payload.text, panels_of(steps))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_layers_are_written_once_and_compute_what_they_did(count):
    payload = layers(count)
    candidate = compiled(payload)
    text = compile_to("arena", payload, candidate).text
    functions, calls = re.findall(rf"func.func private @{FUNCTION}\d", text), re.findall(rf"call @{FUNCTION}", text)
    assert bool(functions) == (count > 1)
    assert len(calls) == count * len(functions)
    inputs = payload.make_inputs(0)
    (got,) = run(payload, inputs, candidate.script, TAIL, text=candidate.text, panels=candidate.panels)
    np.testing.assert_allclose(got, expected(inputs), rtol=1e-4, atol=1e-3)


def test_what_was_asked_for_says_so_where_nests_are_shared_alone():
    several, one = layers(3), load_payload("matmul,m=16,n=16,k=16")
    assert "repeated@3" in transform(Claim(several, compiled(several))).rewrites
    assert "repeated@3" not in transform(Claim(one, compiled(one))).rewrites
    assert "repeated@3" not in transform(Claim(several, compiled(several, tail(2)))).rewrites


NESTS = """
func.func @f(%a: memref<8x16xf32>, %b: memref<8x16xf32>, %n: index) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %eight = arith.constant 8 : index
  SCALE
  scf.for %i = %zero to %eight step %one {
    %x = memref.load %a[%i, %n] : memref<8x16xf32>
    %y = arith.mulf %x, %first : f32
    memref.store %y, %b[%i, %zero] : memref<8x16xf32>
  }
  scf.for %i = %zero to %eight step %one {
    %x = memref.load SOURCE[%i, %n] : memref<8x16xf32>
    %y = arith.mulf %x, %second : f32
    memref.store %y, TARGET[%i, PLACE] : memref<8x16xf32>
  }
  return
}
"""
CONSTANTS = "%first = arith.constant 2.0 : f32\n  %second = arith.constant {} : f32"


@pytest.mark.parametrize(
    ("scale", "source", "target", "place", "shared"),
    [
        ("2.0", "%a", "%b", "%zero", True),
        ("2.0", "%b", "%a", "%zero", True),
        ("3.0", "%a", "%b", "%zero", False),  # another constant
        ("2.0", "%a", "%a", "%zero", False),  # what was two buffers is one
        ("2.0", "%a", "%b", "%one", False),  # another column
        ("2.0", "%a", "%b", "%n", False),  # one that is known at run time only
    ],
)
def test_nests_are_the_same_only_if_they_read_and_write_alike(scale, source, target, place, shared):
    text = NESTS.replace("SCALE", CONSTANTS.format(scale)).replace("SOURCE", source)
    with context():
        module = parse(text.replace("TARGET", target).replace("PLACE", place), "nests")
        share_nests(module, find_function(module, "f"))
        module.operation.verify()
        said = str(module)
    assert said.count(f"call @{FUNCTION}0(") == (2 if shared else 0)
    assert said.count("scf.for") == (1 if shared else 2)
    assert said.count("func.func") == (2 if shared else 1)


@pytest.mark.parametrize(("count", "functions"), [(MANY - 1, 0), (MANY, MANY)])
def test_each_of_many_nests_is_a_function(count, functions):
    head, rest = NESTS.split("  SCALE\n")
    loop = rest.split("  scf.for")[1]
    loops = [f"  %s{n} = arith.constant {n}.0 : f32\n  scf.for{loop.replace('%first', f'%s{n}')}" for n in range(count)]
    with context():
        module = parse(f"{head}{''.join(loops)}  return\n}}\n", "nests")
        share_nests(module, find_function(module, "f"))
        module.operation.verify()
        said = str(module)
    assert said.count("func.func private") == functions
    assert said.count(f"call @{FUNCTION}") == functions
    assert said.count("scf.for") == count


@pytest.mark.parametrize("family", WORDS, ids=lambda family: family.name)
def test_layers_have_the_bits_that_they_have_apart(family, monkeypatch):
    monkeypatch.setenv("AUTOTUNE_TILES", "emulate")
    if family.precision.lacking:
        pytest.skip(family.precision.lacking)
    payload = layers(2, 40)
    parts, machine = partition(payload), this_machine()
    chosen = [(task, family if family.covers(task) else family_for(task)) for task in parts.tasks]
    assert any(each is family for _, each in chosen)
    steps = [write_step(task, each, each.default(task, machine), machine) for task, each in chosen]
    found = []
    for shares in (True, False):
        monkeypatch.setattr("autotune.compiler.lowering.rewrites.repeats_tasks", lambda _, shares=shares: shares)
        inputs = payload.make_inputs(0)
        found += run(payload, inputs, assemble(steps), TAIL, text=parts.payload.text, panels=panels_of(steps))
    np.testing.assert_array_equal(*found)
