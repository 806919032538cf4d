"""Payloads of f64: contractions alone and in groups have the families of f32, with vectors of half as many elements."""

from dataclasses import replace

import pytest
from test_oracle import BATCHES, PRODUCTS, check_configs
from tuning_support import MACHINES, agrees, contraction_payload, product_of, random_configs, run, run_steps

from autotune.compiler.passes.pipelines import PLAIN
from autotune.compiler.tasks.partition import partition
from autotune.core.host.machine import this_machine
from autotune.core.scripts.assembly import write_step
from autotune.registry import families, load_payload


def in_f64(payload):
    """The payload with f64 in place of f32 throughout."""
    arguments = tuple(replace(a, dtype="f64") if a.dtype == "f32" else a for a in payload.arguments)
    return replace(payload, text=payload.text.replace("f32", "f64"), arguments=arguments)


@pytest.mark.parametrize(("sizes", "a", "b"), [*PRODUCTS, ((130, 197, 139), "mk", "kn")], ids=str)
def test_product_is_right_for_every_layout_and_size(sizes, a, b):
    payload = in_f64(contraction_payload(*sizes, a=a, b=b))
    expected = lambda inputs: [product_of(payload, inputs, a=a, b=b)]  # noqa: E731
    check_configs(payload, expected, machine=this_machine(), count=2, seed=sum(sizes))


@pytest.mark.parametrize("sizes", BATCHES, ids=str)
def test_products_of_a_batch_are_right(sizes):
    batch, *sizes = sizes
    payload = in_f64(contraction_payload(*sizes, batch=batch))
    expected = lambda inputs: [product_of(payload, inputs)]  # noqa: E731
    check_configs(payload, expected, machine=this_machine(), count=2, seed=sum(sizes))


@pytest.mark.parametrize("b", ["kn", "nk"])
def test_weight_stored_in_panels_is_right(b):
    payload = in_f64(contraction_payload(67, 131, 71, b=b, role_b="weight"))
    expected = lambda inputs: [product_of(payload, inputs, b=b)]  # noqa: E731
    check_configs(payload, expected, machine=this_machine(), count=3)


@pytest.mark.parametrize(
    "spec",
    [
        "attention,heads=2,seq=24,d=8,causal=1",
        "attention,heads=1,seq=128,d=8,causal=1",
        "softmax,rows=7,cols=33",
        "layer_norm,rows=6,cols=40",
        "gelu,rows=5,cols=64",
        "gpt,d_model=12,heads=3,d_ff=20,vocab=21,seq=9,layers=1",
    ],
)
def test_groups_are_right_in_double_precision(spec):
    payload = in_f64(load_payload(spec))
    parts, machine = partition(payload), this_machine()
    inputs = payload.make_inputs(0)
    expected = run(payload, inputs, None, PLAIN)  # constants in the text are those of f32
    for seed in (0, 1):
        steps = []
        for task in parts.tasks:
            family = next(f for f in families() if f.covers(task))
            *_, config = random_configs(family, task, machine, 1 + seed, seed)
            steps.append(write_step(task, family, config, machine))
        agrees(payload, run_steps(payload, parts, inputs, steps), expected)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_a_vector_holds_half_as_many_elements(machine):
    wide, narrow = (partition(payload(64, 96, 128)).tasks[0] for payload in (contraction_payload, in_double))
    family = next(f for f in families() if f.covers(narrow))
    knobs = [knob for task in (wide, narrow) for knob in family.space(task, machine).knobs]
    widths = [max(knob.values) for knob in knobs if knob.name == "vector_width"]
    assert widths == [machine.lanes, max(1, machine.lanes // 2)]


def in_double(*sizes):
    """A product of f64."""
    return in_f64(contraction_payload(*sizes))
