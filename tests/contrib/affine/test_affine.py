"""Affine loops: right for every kind of task, at sizes that vectors do not divide, whatever is chosen."""

import numpy as np
import pytest
from bundle_support import no_care
from tuning_support import MACHINES, agrees, random_configs, run

import autotune as at
import autotune.tensor as T
from autotune.compiler.ir.module import context
from autotune.compiler.lowering.rewrites import Unit
from autotune.compiler.lowering.steps import requested_rewrites, rewrites_now, rewrites_on
from autotune.compiler.passes.pipelines import PLAIN, TAIL
from autotune.compiler.tasks.partition import partition
from autotune.core.candidate import Candidate
from autotune.core.host.machine import this_machine
from autotune.core.scripts.assembly import assemble, write_step
from autotune.registry import families_for, family_for, load_family, load_payload
from autotune.store.store import Store

FAMILY = load_family("affine")
SPECS = (
    "softmax,rows=7,cols=33",
    "softmax,rows=16,cols=64",
    "layer_norm,rows=6,cols=41",
    "gelu,rows=5,cols=37",
    "matmul,m=13,n=31,k=17",
    "matmul,m=32,n=64,k=48",
    "matmul,m=32,n=96,k=64,transpose_b=1,constant_b=1",
    "batch_matmul,batch=3,m=8,n=33,k=9",
    "attention,heads=2,seq=24,d=8,causal=1",
    "conv,batch=1,channels=3,filters=19,size=9",
)
FUNCTIONS = {
    "sums to the left": lambda xp, x: xp.cumulative_sum(x, axis=1),
    "products to the left": lambda xp, x: xp.cumulative_prod(x / 4, axis=1),
    "sums of columns": lambda xp, x: xp.sum(x, axis=0),
    "deviations": lambda xp, x: xp.std(x, axis=1),
    "products": lambda xp, x: xp.prod(x, axis=1),
    "places of maxima": lambda xp, x: xp.argmax(x, axis=1),
    "places of minima, down": lambda xp, x: xp.argmin(x, axis=0),
    "any": lambda xp, x: xp.any(x > 2, axis=1),
    "turned": lambda xp, x: xp.permute_dims(x, (1, 0)) * 2 + 1,
    "neighbours": lambda xp, x: 4 * x[1:-1, 1:-1] - x[:-2, 1:-1] - x[2:, 1:-1] - x[1:-1, :-2] - x[1:-1, 2:],
    "steps": lambda xp, x: x[::2, ::3] + 1,
    "pieces": lambda xp, x: xp.concat([x, x * 2], axis=1),
    "softmax of columns": lambda xp, x: xp.exp(x - xp.max(x, axis=0)) / xp.sum(xp.exp(x - xp.max(x, axis=0)), axis=0),
}
DATA = np.random.default_rng(0).standard_normal((9, 37)).astype("f4")


def right_everywhere(payload, expected, number=0):
    """Check every task of a payload with its default config, then with one of three random ones, all tasks at once."""
    parts, machine, inputs = partition(payload), this_machine(), payload.make_inputs(0)
    if expected is None:
        expected = run(payload, inputs, None, PLAIN)
    for seed in (0, 1 + number % 3):
        steps = [
            write_step(task, FAMILY, random_configs(FAMILY, task, machine, 1 + (seed > 0), seed)[-1], machine)
            for task in parts.tasks
            if FAMILY.covers(task)
        ]
        assert steps
        got = run(payload, inputs, assemble(steps), TAIL, text=parts.payload.text)
        agrees(payload, got, expected)


@pytest.mark.parametrize(("number", "spec"), list(enumerate(SPECS)))
def test_kernels_are_what_their_reference_computes(number, spec):
    payload = load_payload(spec)
    inputs = payload.make_inputs(0)
    right_everywhere(payload, payload.reference(**inputs) if payload.reference else None, number)


@pytest.mark.parametrize(("number", "name"), list(enumerate(FUNCTIONS)))
def test_functions_are_what_the_plain_lowering_computes(number, name):
    right_everywhere(T.payload(lambda x: FUNCTIONS[name](T, x), DATA), None, number)


def test_a_whole_model_is_right_whose_every_task_is_so():
    payload = load_payload("gpt,d_model=32,heads=2,d_ff=64,vocab=67,seq=17,layers=1")
    right_everywhere(payload, payload.reference(**payload.make_inputs(0)))


def task_of(spec):
    (task,) = partition(load_payload(spec)).tasks
    return task


def test_it_is_searched_only_where_it_is_asked_for():
    task = task_of("softmax,rows=8,cols=32")
    assert FAMILY.covers(task)
    assert family_for(task).name == "fused"
    assert FAMILY.name not in [family.name for family in families_for(task)]
    assert [family.name for family in at.tasks("softmax,rows=8,cols=32")[0].families][-1] == FAMILY.name


def test_its_rewrites_are_part_of_what_identifies_a_trial():
    task, machine = task_of("softmax,rows=8,cols=32"), MACHINES["avx512"]
    step = write_step(task, FAMILY, FAMILY.default(task, machine), machine)
    identity = step.program.identity
    assert [str(each) for each in identity.rewrites] == ["affine@1"]
    assert identity.text == f"// loops by upstream's affine passes (affine@1)\n{step.program.body}"
    with context():
        unit = Unit.open(task.payload, Candidate(assemble([step]), TAIL))
        assert requested_rewrites(unit) == ("destinations@1", "affine@1")
        assert rewrites_now(1, ["affine@0"])[-1] == "affine@1"
        assert rewrites_now(1, ["zeros@1"]) == rewrites_on(1)


def test_a_search_beside_another_family_tries_both(tmp_path):
    with no_care():
        found = at.tune(
            "softmax,rows=16,cols=33",
            trials=6,
            beside=["affine"],
            store=tmp_path / "store.journal",
            bundle=tmp_path / "bundle",
            cold=True,
        )
    with Store.open(tmp_path / "store.journal") as store:
        tried = [trial for sweep in store.sweeps() for trial in sweep.records.values()]
    assert {trial.family for trial in tried} == {"fused", "affine"}
    assert {trial.outcome for trial in tried if trial.family == "affine"} <= {"ok", "noisy", "duplicate"}
    assert "--beside affine" in " ".join(at.Bundle.read(found.bundle).manifest.command)


def test_a_bundle_of_affine_loops_replays(tmp_path):
    options = {"store": tmp_path / "store.journal", "bundle": tmp_path / "bundle", "cold": True}
    with no_care():
        at.tune("softmax,rows=16,cols=33", trials=2, family="affine", **options)
        assert "autotune.affine" in (tmp_path / "bundle" / "schedule.mlir").read_text()
        assert at.Bundle.read(tmp_path / "bundle").replay().is_right
