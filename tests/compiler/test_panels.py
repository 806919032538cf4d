"""Weights stored in panels: the layout, who reads it, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tuning_support import MACHINES, contraction_payload, default_steps

from autotune.compiler.ir.module import context, find_function, parse
from autotune.compiler.lowering.program import compile_program
from autotune.compiler.panel_weight import PanelWeight
from autotune.compiler.passes.panels import form_named, insert_panels
from autotune.compiler.passes.pipelines import TAIL
from autotune.compiler.tasks.partition import partition
from autotune.core.candidate import Candidate
from autotune.core.errors import CompileError
from autotune.core.plugs.program import WrittenScript
from autotune.core.scripts.assembly import Step, assemble, panels_of, write_step
from autotune.registry import load_family, load_payload
from autotune.worker.loading.reading import open_payload

SIZES = st.integers(1, 40)


@settings(max_examples=60, deadline=None)
@given(lead=st.integers(0, 3), k=SIZES, n=SIZES, columns=st.sampled_from([1, 2, 8, 16]), transposed=st.booleans())
def test_every_element_lies_where_the_layout_says(lead, k, n, columns, transposed):
    shape = (lead, k, n) if lead else (k, n)
    weight = PanelWeight(0, 3, shape, columns, transposed)
    plain = np.arange(1, np.prod(shape) + 1, dtype="f4").reshape(shape)
    stored = weight.pack(plain.swapaxes(-1, -2).copy() if transposed else plain)
    assert stored.shape == weight.stored_shape
    assert stored.flags.c_contiguous
    j = np.arange(n)
    found = np.stack([stored[..., j // columns, i, j % columns] for i in range(k)], axis=-2)
    np.testing.assert_array_equal(found, plain)
    assert stored.sum(dtype="f8") == plain.sum(dtype="f8"), "what fills up the last panel must be zero"


def script_for(payload, **config):
    parts = partition(payload)
    task = next(t for t in parts.tasks if t.contraction)
    family, machine = load_family("matmul"), MACHINES["sse"]
    chosen = {**family.default(task, machine), **config}
    return parts, task, assemble([write_step(task, family, chosen, machine)]), family.rewrites(task, chosen).panel


def test_only_weights_may_be_stored_beforehand():
    fresh, constant = (partition(contraction_payload(8, 8, 8, role_b=role)).tasks[0] for role in ("input", "weight"))
    family, machine = load_family("matmul"), MACHINES["sse"]
    values = [{k.name: k.values for k in family.space(t, machine).knobs}["pack_b"] for t in (fresh, constant)]
    assert values == [("none", "panels"), ("none", "panels", "beforehand")]
    assert fresh.tag != constant.tag


def test_storing_an_input_beforehand_is_refused():
    payload = contraction_payload(8, 8, 8, role_b="weight")
    parts, task, _, _ = script_for(payload)
    with context():
        module = parse(parts.payload.text, "payload")
        function = find_function(module, payload.entry)
        with pytest.raises(CompileError, match=r"must be a weight to be stored in panels"):
            insert_panels(function, ["input"] * 3, {task.tag: 4})


def test_a_form_that_nothing_brings_is_refused():
    with pytest.raises(CompileError, match=r"stored as one of .*winograd_f2, winograd_f4; got 'winograd_f9'"):
        form_named("winograd_f9")
    assert [form_named(name).name for name in ("int8", "winograd_f4")] == ["int8", "winograd_f4"]


def test_a_schedule_that_reads_panels_by_columns_is_refused():
    payload = contraction_payload(16, 16, 16, role_b="weight")
    parts, task, _, _ = script_for(payload)
    by_columns = "transform.structured.generalize %op : (!transform.any_op) -> !transform.any_op"
    script = assemble([Step(task.tag, task.occurrences, WrittenScript(by_columns))])
    with pytest.raises(CompileError, match=r"must be loaded by rows, not by linalg.generic"):
        compile_program(payload, Candidate(script, TAIL, text=parts.payload.text, panels=((task.tag, 4),)))


def test_layers_share_one_array_of_panels_and_the_embedding_keeps_the_plain_weight():
    payload = load_payload("gpt,d_model=24,heads=3,d_ff=40,vocab=37,seq=7,layers=3")
    parts = partition(payload)
    steps = default_steps(parts, MACHINES["sse"])
    panels = panels_of(steps)
    program = compile_program(payload, Candidate(assemble(steps), TAIL, text=parts.payload.text, panels=panels))
    names = {payload.arguments[weight.source].name: weight.stored_shape for weight in program.weights}
    assert len(panels) == len(program.weights) == 5
    assert sum(shape[0] == 3 and len(shape) == 4 for shape in names.values()) == 4
    assert {weight.transposed for weight in program.weights} == {False, True}


def test_arguments_with_attributes_may_be_stored_in_panels(tmp_path):
    text = contraction_payload(16, 24, 8).text.replace(
        "%b_memref: memref<8x24xf32>", "%b_memref: memref<8x24xf32> WEIGHT"
    )
    path = tmp_path / "mine.mlir"
    path.write_text(text.replace("WEIGHT", '{autotune.role = "weight"}'))
    payload = open_payload(path)
    parts, task, script, panel = script_for(payload, pack_b="beforehand")
    assert payload.arguments[1].role == "weight"
    program = compile_program(payload, Candidate(script, TAIL, text=parts.payload.text, panels=((task.tag, panel),)))
    assert len(program.weights) == 1
