"""The analyses as they are shown: 80 columns wide, of payloads, tasks, imported models and bundles, and on a page."""

import re

import pytest
from bundle_support import shared_bundle
from import_support import import_product

from autotune.contrib.analysis import reading as analysing
from autotune.contrib.analysis.analysed import analyse_bundle, analyse_program
from autotune.contrib.analysis.section import analysed
from autotune.contrib.analysis.text import describe_analysis
from autotune.core.errors import PayloadError
from autotune.core.host.machine import Machine, this_machine
from autotune.reports.page import report_bundle
from autotune.reports.scheduled import as_recorded, candidate_of
from autotune.reports.show import show
from autotune.worker.loading.reading import open_payload, partition

SPEC = "softmax,rows=5,cols=37"
TITLES = ("operations and bytes", "fusion", "values", "arena", "reuse")


@pytest.fixture(scope="module")
def nano():
    """The analyses of nano with default configs."""
    payload, machine = open_payload("nano"), this_machine()
    parts = partition(payload)
    tasks = [as_recorded(task, None, machine) for task in parts.tasks]
    candidate = candidate_of(tasks, machine, parts.payload.text)
    return analyse_program(payload, parts.payload.text, candidate, tasks, machine)


def test_the_text_has_every_section_and_fits_a_terminal(nano):
    text = describe_analysis(nano)
    heads = [line for line in text.splitlines() if line.startswith("# ")]
    assert [any(title in head for title in TITLES) for head in heads] == [True] * len(TITLES)
    drawn = [line for line in text.splitlines() if "|" in line[:6]]
    assert len(drawn) == 14
    assert max(map(len, text.splitlines())) <= 80


def test_arena_is_that_of_the_stage_arena(nano):
    assert str(nano.plan) == show("nano", "arena").note


def test_larger_caches_fetch_less_and_one_that_holds_all_fetches_nothing(nano):
    for op in range(len(nano.facts.ops)):
        fetched = [cache.fetched[op] for cache in nano.caches]
        assert fetched == sorted(fetched, reverse=True)
    assert sum(nano.caches[-1].fetched) == 0


def test_predictions_agree_with_the_simulation_of_small_cases(nano):
    assert len(nano.agreements) > 5
    assert max(case.worst for case in nano.agreements) < 0.06
    assert all(0.8 < case.total < 1.25 for case in nano.agreements)


def test_a_task_alone_and_an_imported_model_are_analysed(tmp_path):
    tag = show("nano", "tasks").text.split()[0]
    assert tag[:8] in show("nano", "analysis", tag).text
    model = show(str(import_product(tmp_path)), "analysis").text
    assert re.search(r"^  0 matmul +4x16xf32 ", model, re.M)
    assert "seen in one evaluation in float64" in model


def test_a_program_that_ends_its_process_is_one_line(monkeypatch):
    monkeypatch.setattr(analysing, "SECONDS", 0.001)
    with pytest.raises(PayloadError, match="must be a program that can be read and evaluated, it is not") as error:
        show(SPEC, "analysis")
    assert "\n" not in str(error.value)


def test_a_page_has_the_section_where_it_is_asked_for(tmp_path):
    folder = shared_bundle(tmp_path, SPEC)
    assert 'id="analysis"' not in report_bundle(folder)
    found = analyse_bundle(folder)
    page = report_bundle(folder, more=[analysed(found)])
    assert 'id="analysis"' in page
    assert "softmax_rows_5_cols_37-arena" not in page  # names of files are none of the page's business
    for op in found.facts.ops:
        assert op.result in page


def test_the_command_of_a_page_takes_the_analysis_of_bundles_alone(tmp_path, autotune):
    folder = shared_bundle(tmp_path, SPEC)
    code, _, said = autotune("report", str(folder), "--analysis", "-o", str(tmp_path / "r.html"))
    assert (code, "r.html" in said) == (0, True)
    assert "What can be known before it runs" in (tmp_path / "r.html").read_text()


def test_machine_without_a_last_cache_has_no_column_of_it(nano):
    assert isinstance(this_machine(), Machine)
    assert [cache.name for cache in nano.caches] == [
        name for name, size in (("L1", 1), ("L2", 1), ("L3", this_machine().l3_bytes)) if size
    ]
