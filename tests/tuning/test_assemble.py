"""Assembling: a task with which the whole is not right keeps the plain lowering alone, and a note says why."""

from dataclasses import dataclass
from typing import Any

import pytest
from bundle_support import no_care
from payload_support import ENDLESS

from autotune.compiler.tasks.partition import partition
from autotune.compiler.tasks.payload_file import read_payload
from autotune.core.errors import ScheduleError
from autotune.core.host.machine import this_machine
from autotune.core.plugs.family import Family
from autotune.registry import load_baseline, load_payload
from autotune.store.store import Store
from autotune.tuning.options import TuneOptions
from autotune.tuning.stages.assemble import assemble_model
from autotune.tuning.stages.choose import Choice
from autotune.tuning.stages.opening import open_searches, setting_of
from autotune.tuning.stages.run import Run
from autotune.tuning.stages.slow_baseline import TimedBaseline
from autotune.worker.worker import Worker

HANDLE = "!transform.any_op"


@dataclass(frozen=True)
class OnlyOne:
    """A family that takes its op for the only generic one of the function: right for a task alone, not in the whole."""

    family: Any
    name: str = "only-one"
    fallback: bool = False

    def __getattr__(self, name):
        return getattr(self.family, name)

    plan = Family.plan

    def build(self, task, config, machine):
        found = f'%found = transform.structured.match ops{{["linalg.generic"]}} in %function : ({HANDLE}) -> {HANDLE}'
        return (
            f"%function = transform.get_parent_op %op {{isolated_from_above}} : ({HANDLE}) -> {HANDLE}\n{found}\n"
            f"%one = transform.split_handle %found {{fail_on_payload_too_small = false}} : ({HANDLE}) -> {HANDLE}\n"
            + self.family.build(task, config, machine)
        )


def assembled(tmp_path, spoilt):
    """A small model by default configs, the families of some tasks spoilt; and its choices."""
    payload, machine = load_payload("gpt,d_model=8,heads=1,d_ff=8,vocab=9,layers=1,seq=4"), this_machine()
    parts, baseline = partition(payload), TimedBaseline(load_baseline("passes"))
    with no_care(), Store.open(tmp_path / "store.journal") as store, Worker() as worker:
        searches = open_searches(parts.tasks, setting_of(payload, machine, store, TuneOptions()))
        for search in searches:
            if spoilt(search.task):
                search.family = OnlyOne(search.family)
        choices = [Choice(search, search.family.default(search.task, machine)) for search in searches]
        return assemble_model(Run(payload, parts, machine, worker), choices, baseline), choices


def test_a_task_that_fails_in_the_whole_keeps_the_plain_lowering_alone(tmp_path):
    assembly, choices = assembled(tmp_path, lambda task: task.tag.startswith(("rows_", "attention_")))
    spoilt = {c.search.task.tag for c in choices if c.search.family.name == "only-one"}
    assert len(spoilt) > 1
    assert set(assembly.tags) == {c.search.task.tag for c in choices} - spoilt
    assert len(assembly.notes) == len(spoilt)
    for note, tag in zip(sorted(assembly.notes), sorted(spoilt), strict=True):
        assert note.startswith(f"{tag} keeps the plain lowering: with its schedule the whole was transform-failed (")
    assert assembly.max_error < 1e-4


def test_a_whole_that_is_right_says_nothing(tmp_path):
    assembly, choices = assembled(tmp_path, lambda task: False)
    assert set(assembly.tags) == {c.search.task.tag for c in choices}
    assert assembly.notes == ()


def test_a_payload_that_does_not_end_is_refused_within_a_few_times_the_timeout():
    payload = read_payload("endless.mlir", ENDLESS)
    with Worker() as worker:
        run = Run(payload, partition(payload), this_machine(), worker, TuneOptions(timeout=0.5))
        assert run.whole_seconds == 1
        with pytest.raises(ScheduleError, match=r"oracle of endless.mlir must end in time, .* longer than 1 s; give"):
            assemble_model(run, [], TimedBaseline(load_baseline("passes")))
