"""Schedules of ops whose trip count is known at run time only, and of contractions whose B is not stored in f32."""

import numpy as np
import pytest
from tuning_support import MACHINES, call

from autotune.compiler.lowering.program import compile_program
from autotune.compiler.passes.pipelines import TAIL
from autotune.compiler.tasks.partition import partition
from autotune.core.candidate import Candidate
from autotune.core.errors import ScheduleError
from autotune.core.evaluator import Effort, Job
from autotune.core.host.machine import this_machine
from autotune.core.plugs.program import WrittenScript
from autotune.core.scripts.assembly import Step, assemble, panels_of, write_step
from autotune.registry import family_for
from autotune.tuning.candidates import candidate_alone
from autotune.worker.bench.evaluate import evaluate
from payload import gpt
from schedules.growing import GROWING

SIZES = {"d_model": "24", "heads": "2", "d_ff": "16", "vocab": "11", "layers": "1", "positions": "21"}
QUICK = Effort(samples=1, seconds=0.01, sample_seconds=1e-4)


def growing_task(**changes):
    payload = gpt.gpt({**SIZES, "function": "decode", **changes})
    (task,) = [task for task in partition(payload).tasks if task.grows]
    return task


def configs(task):
    """The default, and each knob's other values in turn."""
    default = dict(GROWING.default(task, MACHINES["avx2"]))
    yield default
    for knob in GROWING.space(task, MACHINES["avx2"]).knobs:
        yield from ({**default, knob.name: value} for value in knob.values if value != default[knob.name])


def test_attention_over_a_cache_is_one_task_of_this_family_measured_at_several_lengths():
    task = growing_task()
    assert family_for(task) is GROWING
    assert task.tag.startswith("growing_")
    assert [case.values for case in task.payload.cases] == [(("extent", n),) for n in (1, 2, 10, 21)]
    assert any(member.nest.growing for member in task.ops)


@pytest.mark.parametrize(("depth", "most"), [(12, 99), (8, 1), (32, 1)])
def test_every_config_is_right_at_every_length(depth, most):
    task = growing_task(d_model=str(2 * depth))
    inputs = task.payload.make_inputs(0)
    bodies = dict.fromkeys(GROWING.build(task, config, MACHINES["avx2"]) for config in configs(task))
    programs = [assemble([Step(task.tag, 1, WrittenScript(body))]) for body in bodies][:most]
    job = Job(task.payload, tuple(Candidate(script, TAIL) for script in programs), this_machine(), effort=QUICK)
    assert [(e.outcome, e.diagnostic) for e in evaluate(job)] == [("ok", "")] * len(programs)
    program = compile_program(task.payload, Candidate(programs[0], TAIL))
    for length in (1, 7, 8, 9, 16, 17, 21):
        inputs["extent"][:] = length
        (got,) = call(task.payload, program, inputs)
        np.testing.assert_allclose(got, attention(length, **inputs), rtol=2e-5)


def attention(length, *, in0, in1, in2, extent):
    """What the outlined task computes: queries are scaled in it."""
    assert extent == length
    q, k, v = (array.astype(np.float64) for array in (in0, in1[:, :length], in2[:, :length]))
    scores = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])
    power = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return power / power.sum(axis=-1, keepdims=True) @ v


def test_another_task_is_refused():
    (task, *_) = partition(gpt.gpt(SIZES | {"seq": "4"})).tasks
    assert not GROWING.covers(task)
    with pytest.raises(ScheduleError, match="schedule 'growing' needs a group with a growing loop"):
        GROWING.build(task, {"vectors": 2, "strands": 4, "unroll": 2}, MACHINES["avx2"])


def test_decode_needs_no_memory_but_its_arena():
    payload = gpt.gpt({**SIZES, "function": "decode"})
    parts = partition(payload)
    steps = []
    for task in parts.tasks:
        family = family_for(task)
        config = family.default(task, MACHINES["avx2"])
        steps.append(write_step(task, family, config, MACHINES["avx2"]))
    candidate = Candidate(assemble(steps), TAIL, parts.payload.text, panels_of(steps))
    (found,) = evaluate(Job(payload, (candidate,), this_machine(), effort=QUICK))
    assert found.outcome == "ok", found.diagnostic
    assert found.buffers.others == 0


@pytest.mark.parametrize(("storage", "batch"), [("bf16", "1"), ("int8", "3")])
def test_stored_weights_are_contracted_by_the_families_of_matmuls(storage, batch):
    payload = gpt.gpt({**SIZES, "function": "decode", "weights": storage, "batch": batch})
    tasks = [task for task in partition(payload).tasks if task.contractions]
    assert {c.stored_b for task in tasks for c in task.contractions} == {"bf16" if storage == "bf16" else "i8"}
    for task in tasks:
        family = family_for(task)
        config = family.default(task, MACHINES["avx2"])
        step = write_step(task, family, config, MACHINES["avx2"], alone=True)
        job = Job(task.payload, (candidate_alone(step),), this_machine(), effort=QUICK)
        (found,) = evaluate(job)
        assert found.outcome == "ok", (task.tag, found.diagnostic)
        assert config["pack_b"] == "beforehand"
        assert step.rewrites.panel > 0


def test_a_single_strip_of_rows_streams_whole_panels():
    payload = gpt.gpt({**SIZES, "function": "decode", "d_model": "512", "d_ff": "1024"})
    for task in partition(payload).tasks:
        if task.contractions:
            config = family_for(task).default(task, MACHINES["avx2"])
            assert (config["tile_n"], config["tile_k"]) == (0, 0), task.tag
