"""Time against error of a whole whose tasks round: each step, its price, and where the report shows it."""

from dataclasses import replace

import pytest

from autotune.core.stats import Interval
from autotune.reports.error_front import error_front
from autotune.reports.sections.rounding import rounding_of
from autotune.reports.winner import RoundedTask, Winner

EMPTY = Winner(
    payload="p",
    cpu="c",
    isa="avx2",
    roofs={},
    seconds=Interval(9.0, 10.0, 11.0),
    baseline="loops",
    baseline_seconds=None,
    speedup=None,
    roof_fraction=None,
    max_error=0.0,
    oracle="reference",
    unproved=False,
    noise_floor=0.01,
    buffers=None,
    tasks=(),
    notes=(),
    command=(),
    compiler="m",
)
DEAR = RoundedTask("dear", "int8", 1.0, {"matmul": 9.0, "bf16": 2.0}, 3e-3)
CHEAP = RoundedTask("cheap", "bf16", 2.0, {"int8": 1.5, "fused": 3.0}, 4e-3)
ALONE = RoundedTask("alone", "bf16", 2.0, {"int8": 1.5}, 12e-3)


def test_tasks_go_back_to_f32_where_that_costs_least_for_what_it_regains():
    points = error_front(replace(EMPTY, rounded=(DEAR, CHEAP), spent=5e-3))
    assert [(p.exact, p.family, p.seconds) for p in points] == [
        ("", "", 10),
        ("cheap", "bf16", 11),
        ("dear", "int8", 19),
    ]
    assert [p.error for p in points] == pytest.approx([5e-3, 3e-3, 0.0])


def test_what_was_never_measured_in_f32_stays_rounded():
    points = error_front(replace(EMPTY, rounded=(DEAR, CHEAP, ALONE), spent=26e-3))
    assert [p.exact for p in points] == ["", "cheap", "dear"]
    assert points[-1].error == pytest.approx(24e-3), "13 by the three of them was 26 of the whole"


def test_the_report_has_a_picture_and_a_row_a_step_where_something_rounds():
    assert rounding_of(EMPTY) == []
    (section,) = rounding_of(replace(EMPTY, rounded=(DEAR, CHEAP), spent=5e-3, error=1e-2))
    (gallery,) = section.blocks
    assert gallery.pictures[0].caption == "Time against error. All of it in f32 takes 19 s, as recorded 10 s."
    rows = [[cell.text for cell in row.cells] for row in gallery.table.rows]
    assert rows == [
        ["as recorded", "", "10 s", "", "5.0e-03"],
        ["cheap", "bf16", "11 s", "1 s", "3.0e-03"],
        ["dear", "int8", "19 s", "8 s", "0.0e+00"],
    ]
    (legend,) = gallery.pictures[0].figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["as recorded", "cheap in f32", "dear in f32", "allowed, 0.01"]
