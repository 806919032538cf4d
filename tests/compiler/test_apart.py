"""While schedules are applied, groups stand in functions of their own: what comes out is the model that it was."""

import re

import numpy as np
import pytest
from tuning_support import default_steps, run, tensor_payload

from autotune.compiler.ir.module import context, find_function, parse
from autotune.compiler.lowering.stages import compile_to
from autotune.compiler.passes.apart import FUNCTION, set_apart
from autotune.compiler.passes.pipelines import TAIL
from autotune.compiler.tasks.partition import partition
from autotune.core.candidate import Candidate, Claim
from autotune.core.errors import CompileError
from autotune.core.host.machine import this_machine
from autotune.core.payload import Argument
from autotune.core.scripts.assembly import assemble, panels_of
from autotune.registry import load_payload
from autotune.worker.bench.proof import transform

SIZE = 24
KIND = f"tensor<{SIZE}x{SIZE}xf32>"


def layers(count):
    """So many products one after the other, into tensors of zeros that are made of one that is empty."""
    lines, last = [f"%zero = arith.constant 0.0 : f32\n    %empty = tensor.empty() : {KIND}"], "%x"
    for number in range(count):
        following = "%result" if number == count - 1 else f"%next{number}"
        lines.append(f"""%zeros{number} = linalg.fill ins(%zero : f32) outs(%empty : {KIND}) -> {KIND}
    {following} = linalg.matmul ins({last}, %w{number} : {KIND}, {KIND}) outs(%zeros{number} : {KIND}) -> {KIND}""")
        last = following
    weights = [Argument(f"w{number}", "weight", (SIZE, SIZE)) for number in range(count)]
    arguments = [Argument("x", "input", (SIZE, SIZE)), *weights, Argument("y", "output", (SIZE, SIZE))]
    return tensor_payload("layers", arguments, "\n    ".join(lines), reduction=SIZE)


def compiled(payload):
    parts = partition(payload)
    steps = default_steps(parts, this_machine())
    return Candidate(assemble(steps), TAIL, parts.payload.text, panels_of(steps))


def test_each_group_is_moved_with_what_it_alone_reads_and_brought_back():
    payload = layers(3)
    with context():
        module = parse(partition(payload).payload.text, "layers")
        function = find_function(module, payload.entry)
        groups = set_apart(module, function)
        assert module.operation.verify()
        apart = str(module)
        for group in groups:
            group.bring_back()
        assert module.operation.verify()
        back = str(module)
    assert len(groups) == 3
    for body in re.findall(rf"func.func private @{FUNCTION}.*?\n  }}", apart, re.S):
        assert [body.count(op) for op in ("linalg.fill", "linalg.matmul", "func.call")] == [1, 1, 0]
    assert apart.count(f"call @{FUNCTION}") == 3
    assert FUNCTION not in back
    assert back.count("linalg.matmul") == 3


@pytest.mark.parametrize("count", [2, 4])
def test_a_model_computes_what_it_does_when_its_groups_stay_together(count, monkeypatch):
    payload, found = layers(count), []
    candidate = compiled(payload)
    for together in (False, True):
        if together:
            monkeypatch.setattr("autotune.compiler.lowering.rewrites.set_apart", lambda *_: [])
        inputs = payload.make_inputs(0)
        found += run(payload, inputs, candidate.script, TAIL, text=candidate.text, panels=candidate.panels)
    np.testing.assert_array_equal(*found)
    assert FUNCTION not in compile_to("lowered", payload, candidate).text


def test_a_schedule_that_fails_apart_is_named_by_its_line():
    payload = layers(2)
    candidate = compiled(payload)
    broken = candidate.script.replace(
        "%wanted_0 = transform.param.constant 2 ", "%wanted_0 = transform.param.constant 3 "
    )
    assert broken != candidate.script
    line = next(i for i, text in enumerate(broken.splitlines(), 1) if "cmpi eq %found_0" in text)
    with pytest.raises(CompileError, match=rf"schedule:{line}:\d+: transform.match.param.cmpi"):
        compile_to("script", payload, Candidate(broken, TAIL, candidate.text, candidate.panels))


def test_programs_say_where_groups_stood_apart():
    several, one = layers(2), load_payload("matmul,m=16,n=16,k=16")
    assert "apart@1" in transform(Claim(several, compiled(several))).rewrites
    assert "apart@1" not in transform(Claim(one, compiled(one))).rewrites
    candidate = compiled(several)
    own = Candidate(f"{candidate.script}\n", TAIL, candidate.text, candidate.panels)
    assert "apart@1" in transform(Claim(several, own)).rewrites
    lowers_alone = candidate.script.replace("shuffle_1d", "eltwise")
    own = Candidate(lowers_alone, TAIL, candidate.text, candidate.panels)
    assert "apart@1" not in transform(Claim(several, own)).rewrites
