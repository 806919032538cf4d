"""Explain: a technique is taken out within the laws of its space, and what is measured is verified."""

import json
import re
from dataclasses import replace

import pytest
from bundle_support import make_bundle, no_care, shared_bundle

from autotune.compiler.tasks.partition import partition
from autotune.contrib.explain import counters
from autotune.contrib.explain.ablation import (
    VECTORIZE,
    Measured,
    build_up,
    is_knob,
    leave_one_out,
    load_techniques,
    winner_of,
    without,
)
from autotune.contrib.explain.counters import Counts, count_events
from autotune.contrib.explain.explanation import Explanation
from autotune.contrib.explain.section import draw_techniques, techniques_of
from autotune.core.host.machine import this_machine
from autotune.core.scripts.technique import Technique
from autotune.core.space import Constraint, Knob, Space
from autotune.core.stats import Interval
from autotune.registry import family_for, load_payload
from autotune.reports.page import report_bundle
from autotune.reports.pictures.style import HEIGHT, WIDTH
from autotune.store.bundle import read_bundle

GPT = "gpt,d_model=32,heads=2,d_ff=64,vocab=50,seq=8,layers=1"
SPACE = Space(
    (
        Knob("tile", (0, 8, 16)),
        Knob("pack_1", ("none", "panels")),
        Knob("pack_2", ("none", "panels")),
        Knob("n", (1, 2, 3)),
    ),
    (Constraint("n is 1 where nothing is tiled", lambda c: c["tile"] != 0 or c["n"] == 1),),
)
FULL = {"tile": 16, "pack_1": "panels", "pack_2": "panels", "n": 3}


def test_a_technique_is_taken_out_and_the_laws_still_hold():
    assert without(FULL, SPACE, [Technique("pack", {"pack": "none"})]) == FULL | {"pack_1": "none", "pack_2": "none"}
    assert without(FULL, SPACE, [Technique("tile", {"tile": 0})]) == FULL | {"tile": 0, "n": 1}
    assert without(FULL, SPACE, [Technique("other", {"colour": 1})]) == FULL


def test_where_no_lawful_config_does_without_it_there_is_none():
    never = Space(SPACE.knobs, (Constraint("everything is tiled", lambda c: c["tile"] != 0),))
    assert without(FULL, never, [Technique("tile", {"tile": 0})]) is None


def test_a_repair_changes_one_knob_where_one_is_enough_and_to_a_near_value():
    law = Constraint("n is less than 3", lambda c: c["n"] < 3)
    assert without(FULL, Space(SPACE.knobs, (law,)), []) == FULL | {"n": 2}


@pytest.mark.parametrize(("name", "knob", "same"), [("a", "a", True), ("a_2", "a", True), ("a_b", "a", False)])
def test_numbered_knobs_go_by_their_names(name, knob, same):
    assert is_knob(name, knob) == same


@pytest.mark.parametrize(
    "spec", ["matmul,m=64,n=64,k=64", "attention,heads=2,seq=32,d=16", "softmax,rows=16,cols=64", "nano"]
)
def test_every_technique_of_every_task_leaves_a_lawful_config(spec):
    machine = this_machine()
    for task in partition(load_payload(spec)).tasks:
        family = family_for(task)
        space = family.space(task, machine)
        for technique in load_techniques():
            found = without(family.default(task, machine), space, [technique])
            assert found is not None
            space.check(found)
            assert space.broken_constraint(found) is None
        assert without(family.default(task, machine), space, load_techniques()) is not None


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A bundle of a small model."""
    return read_bundle(make_bundle(tmp_path_factory.mktemp("model"), GPT))


def test_steps_begin_at_the_baseline_and_end_at_the_search(model):
    names = [variant.name for variant in build_up(model.payload, this_machine(), model, "passes")]
    techniques = [f"+ {technique.name}" for technique in load_techniques()]
    assert names == ["passes", f"+ {VECTORIZE}", *techniques, "+ search"]
    first, *_ = leave_one_out(model, this_machine())
    assert build_up(model.payload, this_machine(), model, None)[-1].candidate == first.candidate


def test_every_technique_is_used_by_some_task_of_the_model(model):
    used = {variant.name for variant in leave_one_out(model, this_machine()) if variant.tasks}
    assert {"register tile", "fuse", "vector math"} <= used


def test_a_config_from_before_a_knob_gets_its_default(model):
    records = {
        tag: replace(record, config={k: v for k, v in record.config.items() if k != "math"} if record.config else None)
        for tag, record in model.manifest.tasks.items()
    }
    older = replace(model, manifest=replace(model.manifest, tasks=records))
    tasks, _ = winner_of(older, this_machine())
    for task in tasks:
        if task.config is not None:
            task.family.space(task.task, this_machine()).check(task.config)
            recorded = older.manifest.tasks[task.task.tag].config
            assert recorded.items() <= dict(task.config).items()


def test_counters_that_are_refused_are_told_with_the_reason(monkeypatch):
    def refuse(config):
        raise PermissionError(13, "no")

    monkeypatch.setattr(counters, "open_counter", refuse)
    found = count_events(lambda calls: None, 3)
    assert found.events == {}
    assert found.missing.startswith("cycles, instructions")
    assert "perf_event_paranoid" in found.missing


def test_counters_count_or_say_why_not():
    found = count_events(lambda calls: sum(range(100_000 * calls)), 2)
    assert isinstance(found, Counts)
    for name, count in found.events.items():
        assert count >= 0, name
    assert found.missing or found.events["instructions"] > 100_000


def explanation():
    rows = (
        Measured("the winner", (), Interval(1e-3, 1e-3, 1e-3), Interval(1, 1, 1), 1e-6, "ok"),
        Measured("pack", ("a",), Interval(1e-3, 2e-3, 3e-3), Interval(1.5, 2, 2.5), 1e-6, "ok"),
    )
    return Explanation("nano", "leave-one-out", rows, Counts({}), None, this_machine())


def test_a_page_has_the_section_where_it_is_asked_for(tmp_path):
    folder = shared_bundle(tmp_path, "softmax,rows=5,cols=37")
    assert 'id="techniques"' not in report_bundle(folder)
    page = report_bundle(folder, more=[techniques_of(explanation())])
    assert 'id="techniques"' in page
    assert "without pack" in page


def test_its_picture_is_of_the_size_of_all_and_of_nothing_there_is_none():
    (picture,) = draw_techniques("p", [("pack", Interval(1.0, 1.1, 1.2))])
    assert tuple(picture.figure.get_size_inches()) == (WIDTH, HEIGHT)
    assert picture.caption.endswith(".")
    assert not list(draw_techniques("p", []))


def test_command_explains_a_bundle(autotune, tmp_path, monkeypatch):
    monkeypatch.setattr("autotune.contrib.explain.explanation.unsteady_here", lambda *_: "")  # times are shown, any
    bundle = shared_bundle(tmp_path, "softmax,rows=5,cols=37")
    with no_care():
        code, out, said = autotune("explain", bundle, "--json")
    assert code == 0, said
    found = json.loads(out)
    assert found["rows"][0]["name"] == "the winner"
    for row in found["rows"]:
        assert row["seconds"]["low"] <= row["seconds"]["estimate"] <= row["seconds"]["high"]
        assert row["max_error"] < 1e-5
    libm = next(row for row in found["rows"] if row["name"] == "vector math")
    assert libm["tasks"]
    assert found["memory"]["arguments"] == 2 * 5 * 37 * 4
    assert found["counts"]["events"] or found["counts"]["missing"]
    with no_care():
        code, out, _ = autotune("explain", bundle, "--steps")
    assert code == 0
    assert re.search(r"^\+ vectorize +[\d.e+]+ [mun]?s +[\d.e+]+x", out, re.M)
    code, _, said = autotune("explain", bundle / "nothing")
    assert code == 2
    assert "must be a bundle's folder" in said
