"""Payload and schedule in one file, as upstream's examples and tests write them: unchanged but for knobs."""

import re
from pathlib import Path

import numpy as np
import pytest
from own_support import HANDLE, read
from tuning_support import run

from autotune.compiler.normalise.adopt import INTRINSICS
from autotune.compiler.passes.pipelines import PLAIN, TAIL
from autotune.compiler.script.instantiate import concrete_text
from autotune.compiler.tasks.payload_file import read_payload
from autotune.core.errors import ScheduleError
from autotune.core.host.machine import this_machine

FILES = sorted((Path(__file__).parent / "upstream_style").glob("*.mlir"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_of_payload_and_schedule_runs_with_its_first_and_last_config(path):
    payload = read_payload(path.name, path.read_text())
    script, machine = read(payload.schedule), this_machine()
    assert payload.schedule == path.read_text()
    assert script.knobs
    *_, last = script.space(machine).configs()
    inputs = payload.make_inputs(0)
    (wanted,) = run(payload, inputs, None, PLAIN)
    for config in (script.default(machine), last):
        (found,) = run(payload, inputs, concrete_text(script.choose(config, machine)), TAIL)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_what_is_selected_stays_and_what_is_a_constant_is_no_choice():
    (path,) = [path for path in FILES if path.stem == "choices_made"]
    script = read(path.read_text())
    assert {knob.name: knob.first for knob in script.knobs} == {
        "animal": "dog", "bounded": 4242, "size": 4, "way": 0, "columns": 1,
    }  # fmt: skip
    assert next(knob.values for knob in script.knobs if knob.name == "size") == tuple(range(2, 17, 2))


def function(body, kind="f32"):
    return f"func.func @f(%a: tensor<8x{kind}>, %b: tensor<8x{kind}>) -> tensor<8x{kind}> {{\n{body}\n}}"


@pytest.mark.parametrize("name", INTRINSICS)
def test_every_intrinsic_has_an_op_that_takes_the_same(name):
    kind = "i32" if INTRINSICS[name].endswith("i") else "f32"
    count = 3 if name.endswith("fma") else 2 if re.search("max|min|pow|copysign", name) else 1
    operands, kinds = ", ".join(["%x", "%y", "%z"][:count]), ", ".join([kind] * count)
    body = f"""%r = linalg.generic {{indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>],
      iterator_types = ["parallel"]}} ins(%a : tensor<8x{kind}>) outs(%b : tensor<8x{kind}>) {{
    ^bb0(%x: {kind}, %y: {kind}):
      %z = arith.constant {"3" if kind == "i32" else "3.0"} : {kind}
      %o = {name}({operands}) : ({kinds}) -> {kind}
      linalg.yield %o : {kind}
    }} -> tensor<8x{kind}>
    return %r : tensor<8x{kind}>"""
    payload = read_payload("f.mlir", function(body, kind))
    assert "llvm." not in payload.text
    assert INTRINSICS[name] in payload.text


def test_a_sequence_that_goes_on_where_an_op_fails_is_refused():
    text = f"""module attributes {{transform.with_named_sequence}} {{
      transform.sequence failures(suppress) {{
      ^bb0(%module: {HANDLE}):
        transform.yield
      }}
    }}"""
    with pytest.raises(ScheduleError, match=r"mine.mlir:2:7: a schedule must fail where an op does; write failures"):
        read(text)
