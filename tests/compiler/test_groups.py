"""Groups: which ops are scheduled together, and that every way to do it computes the same."""

import pytest
from tuning_support import agrees, random_configs, run, run_steps

from autotune.compiler.passes.pipelines import PLAIN, TAIL
from autotune.compiler.tasks.partition import partition
from autotune.core.host.machine import this_machine
from autotune.core.scripts.assembly import assemble, write_step
from autotune.registry import family_for, load_payload

ODD = "gpt,d_model=72,heads=3,d_ff=200,vocab=101,seq=17,layers=2"
GROUPS = {
    "softmax,rows=12,cols=33": [(4, 0)],
    "layer_norm,rows=10,cols=50": [(4, 0)],
    "attention,heads=2,seq=24,d=16": [(7, 2)],
    "attention,heads=1,seq=17,d=5,causal=1": [(8, 2)],
    "gelu,rows=4,cols=8": [(1, 0)],
    "matmul,m=8,n=8,k=8": [(1, 1)],
}


@pytest.mark.parametrize(("spec", "expected"), GROUPS.items(), ids=str)
def test_members_and_contractions_of_a_kernel(spec, expected):
    tasks = partition(load_payload(spec)).tasks
    assert [(len(task.ops), len(task.contractions)) for task in tasks] == expected


def test_every_contraction_of_a_gpt_takes_its_epilogue_but_not_its_prologue():
    tasks = [task for task in partition(load_payload(ODD)).tasks if task.contractions]
    plain = [task for task in tasks if len(task.contractions) == 1]
    assert [len(task.ops) for task in plain] == [2, 2, 2, 2, 1], "four with an epilogue, and the head"
    for task in plain[:-1]:
        root, product = task.ops
        assert product.contraction is not None
        assert set(root.nest.iterators) == {"parallel"}


def test_members_lead_from_the_root_to_every_op():
    for spec in ("nano", "attention,heads=2,seq=24,d=16"):
        for task in partition(load_payload(spec)).tasks:
            for position, member in enumerate(task.ops):
                assert member.reader < position or position == member.reader == 0


@pytest.mark.parametrize("spec", [spec for spec, found in GROUPS.items() if found[0][0] > 1])
def test_every_config_computes_what_the_plain_lowering_does(spec):
    payload = load_payload(spec)
    parts = partition(payload)
    (task,) = parts.tasks
    family, machine, inputs = family_for(task), this_machine(), payload.make_inputs(0)
    assert family.name == "fused"
    plain = run(payload, inputs, None, PLAIN)
    agrees(payload, plain, payload.reference(**inputs))
    fused = set()
    for config in random_configs(family, task, machine, 3, 1):
        fused.add(config["fuse"])
        steps = [write_step(task, family, config, machine)]
        agrees(payload, run(payload, inputs, assemble(steps), TAIL, text=parts.payload.text), plain)
    assert True in fused


def test_whole_gpt_of_odd_sizes_is_right_with_any_configs():
    payload = load_payload(ODD.replace("layers=2", "layers=1"))
    parts, machine, inputs = partition(payload), this_machine(), payload.make_inputs(0)
    expected = payload.reference(**inputs)
    for seed in range(2):
        steps = []
        for task in parts.tasks:
            family = family_for(task)
            *_, config = random_configs(family, task, machine, 2, seed)
            steps.append(write_step(task, family, config, machine))
        got = run_steps(payload, parts, inputs, steps)
        agrees(payload, got, expected)
