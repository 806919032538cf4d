"""Sections of the report: what each says, as plain data."""

import pandas as pd
import pytest
from sweep_support import fill_store

from autotune.core.stats import Interval
from autotune.reports.holdings import read_holdings
from autotune.reports.sections.again import again_with_store, tune_command
from autotune.reports.sections.blocks import Code, DataTable, FoldedSection, Gallery, Paragraph
from autotune.reports.sections.gained import ends, interval_text, named
from autotune.reports.sections.outcomes import newest_runs, search_outcomes
from autotune.reports.sections.search import search_of
from autotune.reports.sections.shares import shares_of_calls
from autotune.reports.sections.tasks import config_blocks, default_text, tasks_of
from autotune.reports.task_lines import TaskLine

RUN = {
    "payload": "mine",
    "machine": {"cpu": "a desktop"},
    "baseline": {"name": "passes"},
    "best": {"seconds": 1e-3, "roof_fraction": 0.5},
    "speedup": 10.0,
    "speedup_interval": [9.0, 11.0],
    "max_error": 1e-6,
}


def line_of(tag="a", config=None, default=None, **fields):
    """A task line; by default of one knob, run once a call for a millisecond."""
    known = {
        "number": 1,
        "family": "matmul",
        "choices": {},
        "count": 1,
        "seconds": Interval(1e-3, 1e-3, 1e-3),
        "payload": "mine",
    }
    known |= {"roof_fraction": 0.5, "over_default": None, "over_baseline": 2.0, "trials": pd.DataFrame(), "name": tag}
    return TaskLine(tag=tag, config=config, default=default, **(known | fields))


def test_config_shows_what_differs_from_the_default_first_and_all_of_it_folded():
    config = {"tile": 8, "fuse": True, "math": "libm"}
    table, folded = config_blocks(line_of(config=config, default=config | {"fuse": False}))
    assert [row.cells[0].text for row in table.rows] == ["fuse"]
    assert [cell.text for cell in table.rows[0].cells] == ["fuse", "True", "False"]
    (whole,) = folded.blocks
    assert [row.cells[0].text for row in whole.rows] == list(config)
    assert [row.marked for row in whole.rows] == [False, True, False]


def test_config_that_is_the_default_is_folded_and_said_to_be():
    line = line_of(config={"tile": 8}, default={"tile": 8}, over_default=1.0)
    (folded,) = config_blocks(line)
    assert isinstance(folded, FoldedSection)
    assert "all at the default" in folded.title
    assert default_text(line) == "default"


def test_config_without_a_known_default_is_shown_whole_and_a_plain_lowering_is_told():
    (table,) = config_blocks(line_of(config={"tile": 8}))
    assert isinstance(table, DataTable)
    assert [column.name for column in table.columns] == ["knob", "chosen"]
    (said,) = config_blocks(line_of(family=None))
    assert isinstance(said, Paragraph)


def test_script_of_a_task_marks_what_the_search_chose():
    texts = {"schedules/a.mlir": '// tile = 8\n%k = transform.tune.knob<"tile"> = 8\n// a note\n', "tasks/a.mlir": "m"}
    section = tasks_of([line_of(config={"tile": 8})], {}, texts)
    (task,) = section.blocks[-1].tasks
    script, module = (block for block in task.blocks if isinstance(block, Code))
    assert [line.marked for line in script.lines] == [True, True, False]
    assert [line.text for line in module.lines] == ["m"]


def test_shares_of_a_call_are_of_the_whole_the_largest_first():
    lines = [line_of("a"), line_of("b", count=3)]
    (gallery,) = shares_of_calls(lines, {"mine": 8e-3}).blocks
    assert isinstance(gallery, Gallery)
    assert [(row.cells[0].text, row.cells[-1].text) for row in gallery.table.rows] == [("b", "37.5%"), ("a", "12.5%")]
    assert gallery.table.caption == "Tasks timed alone; together they take 4 ms, 50% of a call of the whole."
    assert len(gallery.pictures) == 1


def test_a_payload_that_cannot_be_built_has_no_shares_and_says_so():
    (said,) = shares_of_calls([line_of(count=None)], {}).blocks
    assert isinstance(said, Paragraph)


def test_newest_finished_run_of_a_payload_counts_and_other_notes_are_passed_over(tmp_path):
    held = read_holdings(fill_store(tmp_path / "s", trials=3))
    newer = RUN | {"best": {"seconds": 5e-4, "roof_fraction": None}}
    found = held.__class__(held.frame, held.roofs, (RUN, newer, {"payload": "mine"}, RUN | {"speedup": -1.0}))
    (run,) = newest_runs(found)
    assert run.best.seconds == 5e-4
    assert newest_runs(held) == []
    table = search_outcomes(found, None).blocks[1]
    assert [cell.text for cell in table.rows[0].cells][:3] == ["mine", "500 us", "10x [9, 11], passes"]


def test_search_counts_trials_and_failures_task_by_task(tmp_path):
    held = read_holdings(fill_store(tmp_path / "s", tasks=("first", "second"), trials=20))
    said, gallery, table = search_of(held, {"mine": {"first": "the first"}}).blocks
    assert said.text.startswith("40 trials of 2 tasks: 32 verified (")
    assert len(gallery.pictures) == 7
    assert [row.cells[0].text for row in table.rows] == ["the first", "second"]
    assert "1 crashed" in table.rows[0].cells[3].text


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("autotune", "tune", "a b", "--seed", "0"), "autotune tune 'a b' --seed 0"),
        ((), "autotune tune mine"),
        (("pytest",), "autotune tune mine"),
    ],
)
def test_commands_are_quoted_for_a_shell(command, expected):
    assert tune_command(command, "mine") == expected


def test_store_tells_how_to_go_on():
    (commands,) = again_with_store("my store", ["a;b"]).blocks
    assert "autotune tune 'a;b' --store 'my store'" in commands.lines


def test_one_sample_has_no_interval():
    assert (
        interval_text(Interval(1e-3, 1e-3, 1e-3))
        == ends(Interval(2, 2, 2)) + ", no interval"
        == "one sample, no interval"
    )
    assert ends(None) == "not measured"


def test_notes_tell_tasks_by_name_the_longer_tag_first():
    assert named("a_b and a_b_c", {"a_b": "one", "a_b_c": "two"}) == "one and two"
