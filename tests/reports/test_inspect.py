"""Inspect: what a store holds is shown as it is, in numbers and in pictures."""

import io
import json
import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from bundle_support import shared_bundle
from hypothesis import given
from hypothesis import strategies as st
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from sweep_support import FLOPS, QUARTILE, fill_store, make_trial

from autotune.cli.curve import draw_curve
from autotune.core.errors import StoreError
from autotune.core.stats import Interval
from autotune.core.trial import OUTCOMES
from autotune.reports.courses import best_so_far, course_of, speed_shares
from autotune.reports.holdings import keep, read_holdings
from autotune.reports.importance import knob_importance
from autotune.reports.overview import overview_of, seconds_so_far
from autotune.reports.pictures.gallery import draw_all, save_all, to_svg
from autotune.reports.pictures.style import DARK, HEIGHT, INK, MOST_BARS, OUTCOME_COLOURS, WIDTH, shorten
from autotune.reports.pictures.whole import budget, speedups
from autotune.reports.pictures.winner import draw_budget, draw_rivals, draw_speedups, draw_times
from autotune.reports.winner import read_winner
from autotune.store.frames import to_frame


@pytest.fixture
def holdings(tmp_path):
    return read_holdings(fill_store(tmp_path / "s", tasks=("first", "second")))


def rows_of(outcomes):
    trials = []
    for number, seconds in enumerate(outcomes):
        trial = make_trial("first", 0, factor=seconds) if seconds else make_trial("first", 7)
        trials.append((type(trial)(**{**vars(trial), "number": number}), {"payload": "mine"}))
    return to_frame(trials)


@given(st.lists(st.one_of(st.none(), st.floats(1e-3, 1e3)), min_size=1, max_size=30))
def test_best_so_far_never_rises_and_ends_at_the_best(factors):
    rows = rows_of(factors)
    curve = best_so_far(rows)
    known = curve[np.isfinite(curve)]
    assert len(curve) == len(rows)
    assert (np.diff(known) <= 0).all()
    if any(factors):
        assert known[-1] == rows["seconds_normalised"].min()
    else:
        assert not len(known)


@given(st.lists(st.one_of(st.none(), st.floats(1e-3, 1e3)), min_size=1, max_size=30))
def test_course_is_the_best_so_far_at_every_place(factors):
    rows = rows_of(factors)
    course = course_of(rows)
    assert course.trials == len(rows)
    np.testing.assert_array_equal(course.at(np.arange(len(rows))), best_so_far(rows))
    shares = speed_shares([course, course_of(rows_of([1.0]))], 7)
    assert (np.diff(shares) >= 0).all()
    assert shares[-1] == pytest.approx(1)


def test_seconds_so_far_end_at_all_that_was_spent(holdings):
    rows = holdings.frame[holdings.frame["task"] == "first"]
    (first, _) = overview_of(holdings, 1).describe()
    assert seconds_so_far(rows)[-1] == pytest.approx(sum(first["phase_seconds"].values()))
    assert first["trials_per_second"] == pytest.approx(57 / sum(first["phase_seconds"].values()))


def test_share_of_the_roof_is_that_of_the_recorded_roofs(holdings):
    best = overview_of(holdings, 1).describe()[0]["best"][0]
    assert best["roof_fraction"] == pytest.approx(FLOPS / (QUARTILE * 2.5e-4) / 1e11)
    assert overview_of(replace(holdings, roofs=None), 1).describe()[0]["best"][0]["roof_fraction"] is None


def test_where_takes_knobs_by_their_own_names(holdings):
    kept = keep(holdings.frame, "outcome == 'ok' and tile_m >= 8 and not pack_b")
    assert 0 < len(kept) < len(holdings.frame)
    assert set(kept["knob_tile_m"]) == {8, 16}
    assert set(kept["outcome"]) == {"ok"}
    assert set(kept["knob_pack_b"]) == {False}


@pytest.mark.parametrize(
    "query",
    ["tile_q > 1", "tile_m >", "", "@frame", "__import__('os')", "tile_m", "tile_m > 99", "task.str.len()", "outcome"],
)
def test_where_refuses_what_is_no_query_or_true_of_nothing(holdings, query):
    with pytest.raises(StoreError, match="--where must") as error:
        keep(holdings.frame, query)
    assert "\n" not in str(error.value)


def test_importance_finds_the_knob_that_decides(holdings):
    shares = knob_importance(holdings.frame[holdings.frame["task"] == "first"])
    assert next(iter(shares)) == "tile_m"
    assert shares["tile_m"] > 0.5
    assert sum(shares.values()) == pytest.approx(1)


def test_importance_of_too_few_trials_is_not_told(tmp_path):
    assert knob_importance(read_holdings(fill_store(tmp_path / "s", trials=8)).frame) == {}


def test_every_picture_has_a_title_labels_and_a_legend_where_it_has_series(holdings):
    pictures = list(draw_all(holdings))
    names = {picture.name.removeprefix("mine-") for picture in pictures}
    assert {"best-over-trials", "best-over-seconds", "distribution", "costs", "roofline", "outcomes", "phases"} <= names
    assert {"first-importance", "first-slices", "first-pair", "second-slices"} <= names
    for picture in pictures:
        axes = [a for a in picture.figure.axes if a.axison and a.get_label() != "<colorbar>"]
        assert any(a.get_title(loc="left") for a in axes) or picture.figure.get_suptitle(), picture.name
        assert all(a.get_xlabel() for a in axes), picture.name
        assert axes[0].get_ylabel(), picture.name
        labelled = len(axes[0].get_legend_handles_labels()[0])
        assert labelled < 2 or axes[0].get_legend() or picture.figure.legends, picture.name
        assert picture.caption.endswith(".")


def test_every_outcome_has_a_colour_of_its_own():
    assert set(OUTCOME_COLOURS) == set(OUTCOMES)
    assert len(set(OUTCOME_COLOURS.values())) == len(OUTCOMES)


def test_shortened_names_still_differ_by_their_hashes():
    names = [f"matmul_32x256x64_f32_w_fused_{tail}" for tail in ("9188e4", "a33819")]
    assert len({*shorten(names, 28)}) == 2
    assert {len(name) for name in shorten(names, 28)} == {28}
    assert shorten(["short"]) == ["short"]


def test_pictures_are_written_and_as_svg_follow_the_page(holdings, tmp_path):
    paths = save_all(draw_all(holdings), tmp_path / "plots")
    assert len(paths) == len(set(paths)) == 13
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
    svg = to_svg(next(draw_all(holdings)).figure)
    assert svg.startswith("<svg")
    assert "currentColor" in svg
    assert svg == to_svg(next(draw_all(holdings)).figure)


@pytest.mark.parametrize("trials", [1, 2, 3])
def test_pictures_of_hardly_any_trials_are_drawn(tmp_path, trials):
    assert save_all(
        draw_all(read_holdings(fill_store(tmp_path / "s", trials=trials, summary=False))), tmp_path / "plots"
    )


def test_pictures_where_nothing_succeeded_tell_what_became_of_the_trials(tmp_path):
    fill_store(tmp_path / "s")
    found = read_holdings(tmp_path / "s", where="outcome != 'ok'")
    names = [picture.name for picture in draw_all(found)]
    assert names == ["mine-outcomes", "mine-phases"]
    assert draw_curve(overview_of(found, 1).courses("mine"), 80) == ["no trial succeeded"]


def test_curve_on_the_terminal_ends_full(holdings):
    head, *bars, foot = draw_curve(overview_of(holdings, 1).courses("mine"), 48)
    assert "120" not in head
    assert all(line.endswith("█") for line in bars)
    assert {len(line) for line in (*bars, foot)} == {48}


def test_optuna_dashboard_opens_the_store(tmp_path):
    dashboard = pytest.importorskip("optuna_dashboard")
    path = fill_store(tmp_path / "s", tasks=("first", "second"))
    app = dashboard.wsgi(JournalStorage(JournalFileBackend(str(path))))
    said = []

    def ask(url):
        environ = {
            **{"REQUEST_METHOD": "GET", "PATH_INFO": url, "SERVER_NAME": "s", "SERVER_PORT": "1", "QUERY_STRING": ""},
            **{"wsgi.input": io.BytesIO(), "wsgi.url_scheme": "http", "wsgi.errors": sys.stderr},
        }
        return json.loads(b"".join(app(environ, lambda status, *rest: said.append(status))))

    studies = {study["study_name"]: study["study_id"] for study in ask("/api/studies")["study_summaries"]}
    first = next(number for name, number in studies.items() if name.startswith("mine/first"))
    found = ask(f"/api/studies/{first}")
    assert len(found.get("trials", [])) == 60, found
    assert all(status.startswith("200") for status in said)


def test_a_bundle_is_read_at_a_glance(tmp_path):
    folder = shared_bundle(tmp_path, "softmax,rows=5,cols=37")
    winner = read_winner(folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert winner.seconds.low <= winner.seconds.estimate <= winner.seconds.high
    assert [task.tag for task in winner.tasks] == list(manifest["tasks"])
    assert winner.speedup.estimate == manifest["speedup"]["estimate"]
    assert json.dumps(winner.to_json())


def test_pictures_of_tasks_name_every_task():
    figures = [budget("p", [("a", 2, 1e-3), ("b", 1, 3e-3)], 5e-3), speedups("p", [("a", 2.0), ("b", 30.0)], "passes")]
    for figure in figures:
        (axes,) = figure.axes
        assert {text.get_text().partition(",")[0] for text in axes.get_yticklabels()} == {"a", "b"}
        assert figure.get_suptitle().split()[-1] in ("p", "goes")
        assert axes.get_xlabel()
    assert [text.get_text().strip() for text in figures[0].axes[0].texts] == ["60.0%", "40.0%"]


def test_pictures_of_many_tasks_show_the_largest_and_sum_the_rest():
    tasks = [(f"task {number}", 1, 1e-3 * number) for number in range(1, 31)]
    (axes,) = budget("p", tasks, 1.0).axes
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert len(names) == MOST_BARS
    assert names[0] == "task 30, 1 x"
    assert names[-1] == f"{31 - MOST_BARS} others"
    assert sum(bar.get_width() for bar in axes.patches) == pytest.approx(sum(seconds for *_, seconds in tasks))


def test_all_pictures_are_of_one_size(holdings):
    few = [("a", 1, 1e-3), ("b", 2, 2e-3)]
    spread = Interval(1.0, 1.1, 1.2)
    sessions = [((1e-3, 2e-3) * 5, (1e-2,) * 10)]
    pictures = [
        *draw_all(holdings),
        *draw_budget("p", 1e-2, few),
        *draw_speedups("p", "passes", [("a", 2.0), ("b", 1.0)]),
        *draw_rivals("p", [("best", spread, "1 s"), ("torch", spread, "2x")], "best"),
        *draw_times("p", sessions, "passes"),
    ]
    assert len(pictures) >= 17
    assert {tuple(picture.figure.get_size_inches()) for picture in pictures} == {(WIDTH, HEIGHT)}
    assert all(picture.caption.endswith(".") for picture in pictures)


def test_of_one_task_or_hardly_any_sample_there_is_no_picture():
    assert list(draw_budget("p", 1e-3, [("a", 1, 1e-3)])) == list(draw_speedups("p", "passes", [("a", 2.0)])) == []
    assert list(draw_times("p", [((1e-3,), (1e-2,))], "passes")) == []


def test_names_in_pictures_are_left_as_they_are_and_colours_follow_the_page():
    name = 'style="fill: #0072b2" id="x" $y_{z}$'
    (picture,) = draw_speedups(name, "passes", [(name, 2.0), ("b", 3.0)])
    svg = to_svg(picture.figure, "p1-")
    assert name in svg
    drawn = svg.replace(name, "")
    assert "var(--c009e73, #009e73)" in drawn
    assert "currentColor" in drawn
    assert not re.search(r'id="(?!p1-)', drawn)
    assert not set(re.findall(r"(?<!, )#[0-9a-f]{6}", drawn)) & {colour.lower() for colour in (*DARK, INK)}
