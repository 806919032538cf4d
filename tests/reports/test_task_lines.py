"""A line a task: gains are by trials of exactly these configs, and what is not known is not made up."""

import doctest
from dataclasses import replace
from statistics import median

import pytest
from bundle_support import make_bundle
from sweep_support import FLOPS, SUMMARY, fill_store, seconds_of

from autotune.core.host.machine import this_machine
from autotune.reports import task_lines
from autotune.reports.holdings import Holdings, read_holdings
from autotune.reports.overview import changed_knobs
from autotune.reports.task_facts import facts_of_store, machine_of
from autotune.reports.task_lines import gain_over_default, lines_of_bundle, lines_of_store, newest, of_bundle
from autotune.store.bundle import read_bundle

MATMUL = "matmul,m=32,n=32,k=32"
TAG = "matmul_32x32x32_f32"


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A bundle of one task, and the store of its search."""
    folder = tmp_path_factory.mktemp("tuned")
    bundle = read_bundle(make_bundle(folder, MATMUL, trials=6))
    return bundle, read_holdings(folder / "store.journal")


@pytest.fixture
def made_up(tmp_path):
    return read_holdings(fill_store(tmp_path / "s"))


def test_line_of_a_bundle_says_what_its_manifest_says(tuned):
    bundle, holdings = tuned
    (line,) = lines_of_bundle(bundle, holdings)
    record = bundle.manifest.tasks[TAG]
    assert (line.tag, line.name, line.family, line.count) == (TAG, "matmul 32x32x32", "matmul", 1)
    assert line.config == record.config
    assert line.choices == record.knobs
    assert (line.trials["outcome"] != "duplicate").sum() == 6
    flops = 2 * 32**3
    assert line.roof_fraction == pytest.approx(flops / line.seconds.estimate / bundle.manifest.roofs["flops"])
    assert line.over_baseline == pytest.approx(record.baseline_seconds / median(record.seconds))


def test_default_is_that_of_the_family_for_the_recorded_machine(tuned):
    bundle, holdings = tuned
    (line,) = lines_of_bundle(bundle, holdings)
    assert set(line.default) == set(line.config)
    first = holdings.frame.sort_values("number").iloc[0]
    assert all(str(first[f"knob_{name}"]) == str(value) for name, value in line.default.items())


def test_without_trials_a_gain_over_the_default_is_not_told_unless_it_is_the_default(tuned):
    bundle, _ = tuned
    (line,) = lines_of_bundle(bundle)
    assert line.trials.empty
    assert line.over_default == (1.0 if line.config == line.default else None)


def test_trials_of_another_machine_compiler_or_payload_do_not_count(tuned):
    bundle, holdings = tuned
    for column in ("machine", "compiler", "payload"):
        assert of_bundle(bundle, holdings.frame.assign(**{column: "other"})).empty
    assert len(of_bundle(bundle, holdings.frame)) == len(holdings.frame)


def test_lines_of_a_store_of_a_known_payload_are_as_those_of_its_bundle(tuned):
    bundle, holdings = tuned
    (line,), (theirs,) = lines_of_store(holdings, facts_of_store(holdings)), lines_of_bundle(bundle, holdings)
    assert (line.tag, line.name, line.count, line.default) == (theirs.tag, theirs.name, theirs.count, theirs.default)
    assert list(line.config) == list(line.default)


def test_lines_of_a_store_of_an_unknown_payload_keep_to_what_it_records(made_up):
    (line,) = lines_of_store(made_up, facts_of_store(made_up))
    assert (line.payload, line.tag, line.name) == ("mine", "first", "first")
    assert (line.count, line.default, line.over_default, line.call_seconds) == (None, None, None, None)
    steady = made_up.frame["seconds_normalised"].min()
    assert line.roof_fraction == pytest.approx(FLOPS / steady / SUMMARY["roofs"]["flops"])


def test_sweeps_of_one_task_on_two_machines_are_two_lines_and_the_newest_counts(tmp_path):
    fill_store(tmp_path / "s", machine="old")
    held = read_holdings(fill_store(tmp_path / "s", machine="new", factor=0.5))
    lines = lines_of_store(held, facts_of_store(held))
    assert [line.name for line in lines] == ["first, sweep 1 of 2", "first, sweep 2 of 2"]
    assert [line.number for line in lines] == [1, 2]
    assert newest(lines) == lines[1:]


def test_gain_over_the_default_is_by_trials_of_exactly_these_configs(made_up):
    best, plain = ({"tile_m": tile, "order": "ijk", "pack_b": False} for tile in (8, 2))
    gain = gain_over_default(made_up.frame, best, plain)
    assert gain == pytest.approx(seconds_of(plain) / seconds_of(best))
    assert gain_over_default(made_up.frame, best, best) == 1.0
    assert gain_over_default(made_up.frame, best, {**plain, "tile_m": 3}) is None
    assert gain_over_default(made_up.frame, best, {**plain, "another": 3}) is None
    assert gain_over_default(made_up.frame, None, plain) is None


def test_knobs_that_the_default_lacks_are_changed():
    assert changed_knobs({"a": 1, "b": 2}, {"a": 1}) == ("b",)
    assert doctest.testmod(task_lines).failed == 0


def test_machine_of_a_store_is_this_one_or_one_that_a_run_describes(made_up):
    here = this_machine()
    other = replace(here, cpu="another")
    described = Holdings(made_up.frame, summaries=({"machine": {"cpu": 3}}, {"machine": vars(other)}, {}))
    assert machine_of(made_up, here.fingerprint) == here
    assert machine_of(described, other.fingerprint) == other
    assert machine_of(described, "0") is None


def test_a_family_that_is_not_installed_leaves_the_default_unknown(tuned):
    _, holdings = tuned
    gone = Holdings(holdings.frame.assign(family="gone"))
    (fact,) = facts_of_store(gone).values()
    assert (fact.name, fact.default) == ("matmul 32x32x32", None)
