"""Views on a terminal: no line is wider than it, and no number is cut, whatever the width."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from sweep_support import FLOPS, WIDE, WIDE_DEFAULT, WIDE_TASK, fill_store, fill_wide_store
from tuning_support import MACHINES

from autotune.bundles.finding import RegressionFinding
from autotune.bundles.replay import Replay
from autotune.bundles.reproduce import Reproduction
from autotune.cli.compare import show_comparison
from autotune.cli.doctor import show_diagnosis
from autotune.cli.layout import Column, Table, TextRow, lay_out, shorten
from autotune.cli.regress import show_findings
from autotune.cli.replay import show_replay
from autotune.cli.reproduce import show_failures, show_reproduction
from autotune.cli.show import folded
from autotune.cli.tune import show_result
from autotune.contrib.explain.ablation import Measured
from autotune.contrib.explain.counters import Counts
from autotune.contrib.explain.explanation import Explanation, Memory
from autotune.contrib.explain.verb import show_explanation
from autotune.contrib.selftest.figures import Figure
from autotune.contrib.selftest.verb import show_figures
from autotune.core.console import terminal
from autotune.core.evaluator import Evaluation
from autotune.core.host.machine import Roofs
from autotune.core.printable import fold
from autotune.core.stats import Interval
from autotune.reports.comparison import Comparison
from autotune.reports.comparison import Row as ComparisonRow
from autotune.reports.holdings import read_holdings
from autotune.store.store import Store, trials
from autotune.tuning.result import TuneResult
from autotune.worker.doctor import Diagnosis

RESULTS = Path(__file__).parents[2] / "results"
RECORDED = sorted(RESULTS.glob("*/bundles/nano"))[0]
LARGE = sorted(RESULTS.glob("*/bundles/gpt2"))[0]
FIGURES = json.loads(sorted(RESULTS.glob("*/selftest.json"))[0].read_text())["figures"]
PAYLOAD = "gpt,d_model=384,heads=6,d_ff=1536,vocab=50257,layers=6,seq=128,weights=bf16"
MACHINE, ROOFS = MACHINES["avx512"], Roofs(1.234e11, 1.2345e10, 9.1e10)
FACTOR, TIME = Interval(121.25, 123.5, 126.75), Interval(1.225e-3, 1.234e-3, 1.243e-3)
WHY = "12.3% slower against its baseline, +11.9% in time against the FMA kernel; give or take 1.2%"
NOTE = "the schedule was recorded on a machine whose L2 was 120 KiB, it is 2048 KiB here, so times cannot be compared"
FAILED = "transform.structured.tile_using_for must hold a handle to something, it holds nothing: " * 3

FINDINGS = [
    RegressionFinding("b", PAYLOAD, "slower", WHY, 1.123, FACTOR, FACTOR, notes=(NOTE,)),
    RegressionFinding("c", "nano", "inconclusive", "left out by --quick"),
]
REPLAY = Replay("nano", "ok", "", 1e-3, 2e-3, FACTOR, FACTOR, "holds", "", 1.25e-6, (NOTE, NOTE), True)
COMPARISON = Comparison(
    PAYLOAD,
    MACHINE,
    ROOFS,
    0.0123,
    (
        ComparisonRow("best", "ok", "MLIR 22.1.8", TIME, 0.612, 1.2e-6, Interval(1, 1, 1)),
        ComparisonRow(PAYLOAD, "ok", "MLIR 22.1.8", TIME, 0.612, 1.2e-6, FACTOR),
        ComparisonRow("onnxruntime", "crashed", diagnostic=FAILED),
    ),
    "best",
    0,
)
MEASURED = (
    Measured("the winner", (), TIME, Interval(1, 1, 1), 1.2e-6, "ok"),
    Measured("weights stored in panels beforehand", ("a", "b"), TIME, FACTOR, 1.2e-6, "ok"),
    Measured("online softmax", (), None, None, None, "crashed: SIGSEGV"),
)
EXPLANATION = Explanation(
    PAYLOAD, "leave-one-out", MEASURED, Counts({"cycles": 1.234e9}, NOTE), Memory(1, 2**20, 2**21, 2**30), MACHINE
)
DIAGNOSIS = Diagnosis(
    replace(MACHINE, cpu="A CPU " * 12), ROOFS, 0.0123, "MLIR 22.1.8", (NOTE,), (NOTE,), ("seccomp",), ("fork",)
)
RESULT = TuneResult(
    payload=PAYLOAD,
    machine=MACHINE,
    roofs=ROOFS,
    baseline_name="passes",
    baseline_seconds=1.5,
    best_seconds=1.234e-3,
    roof_fraction=0.612,
    configs={WIDE_TASK: WIDE_DEFAULT},
    speedup=FACTOR,
    max_error=1.2e-6,
    trials={"ok": 180, "crashed": 12, "duplicate": 5, "wrong-result": 3, "timed-out": 7, "transform-failed": 11},
    evaluated=213,
    seconds=345.0,
    search_seconds=300.0,
    overhead_seconds=1.0,
    noise_floor=0.0123,
    notes=(f"{WIDE_TASK}: {NOTE}",),
    bundle="b",
)


def reproduction(place):
    with Store.open(fill_wide_store(place / "w")) as store:
        trial = next(store.sweeps()).trials()[-1]
    show_reproduction(Reproduction(replace(trial, diagnostic=FAILED), Evaluation("ok"), Path("trial"), NOTE))


def failures(place):
    frame = trials(fill_wide_store(place / "w"))
    show_failures(frame.assign(diagnostic=FAILED))


SHOWN = {
    "tune": lambda place: show_result(RESULT),
    "replay": lambda place: show_replay(REPLAY),
    "replay of what fails": lambda place: show_replay(replace(REPLAY, outcome="crashed", diagnostic=FAILED)),
    "regress": lambda place: show_findings(FINDINGS),
    "compare": lambda place: show_comparison(COMPARISON),
    "explain": lambda place: show_explanation(EXPLANATION),
    "explain --steps": lambda place: show_explanation(replace(EXPLANATION, kind="build-up")),
    "doctor": lambda place: show_diagnosis(DIAGNOSIS),
    "selftest": lambda place: show_figures([Figure(**figure) for figure in FIGURES]),
    "reproduce": reproduction,
    "failures": failures,
}
COMMANDS = {
    "inspect a store": lambda place: ("inspect", fill_wide_store(place / "s")),
    "inspect a store of several": lambda place: ("inspect", fill_store(place / "s", tasks=("first", "second"))),
    "inspect a store --full": lambda place: ("inspect", fill_wide_store(place / "s"), "--full"),
    "inspect a store --top": lambda place: ("inspect", fill_wide_store(place / "s"), "--top", 2),
    "inspect an old store": lambda place: ("inspect", fill_wide_store(place / "s", default=False)),
    "inspect a bundle": lambda place: ("inspect", RECORDED),
    "inspect a large bundle": lambda place: ("inspect", LARGE),
    "inspect a bundle --full": lambda place: ("inspect", RECORDED, "--full"),
    "inspect --compare": lambda place: (
        *("inspect", fill_wide_store(place / "s"), "--compare"),
        fill_wide_store(place / "t", changed=3),
    ),
}


@pytest.fixture
def render(tmp_path, monkeypatch, autotune, capsys):
    """What a view prints at a width."""
    monkeypatch.chdir(tmp_path)

    def run(name, width):
        place = Path(str(width))  # paths are never broken, so that they must be short here
        place.mkdir()
        monkeypatch.setenv("COLUMNS", str(width))
        if name in SHOWN:
            SHOWN[name](place)
            return capsys.readouterr().out
        code, out, said = autotune(*COMMANDS[name](place))
        assert code == 0, said
        return out

    return run


def numbers(text):
    """Words with digits that are no shortened name."""
    return {word for word in text.split() if "…" not in word and any(c.isdigit() for c in word)}


@pytest.mark.parametrize("name", [*SHOWN, *COMMANDS])
def test_views_fit_the_terminal_and_cut_no_number(render, name):
    wide = render(name, 1000).replace("1000/", "")
    for width in (80, 120):
        shown = render(name, width)
        assert shown
        assert max(map(len, shown.splitlines())) <= width, shown
        assert numbers(shown.replace(f"{width}/", "")) <= numbers(wide), shown


def test_inspect_shows_a_line_a_task_and_below_it_what_is_not_as_by_default(render):
    head, line, *below = render("inspect a store", 80).splitlines()
    assert head.split() == ["wide", "time", "roof", "trials", "failed", "speed-up"]
    assert line.split()[1:] == ["1", "ms", f"{FLOPS / 1e-3 / 1e11:.1%}", "3", "1", "2.00x"]
    said = " ".join(below[: next(i for i, text in enumerate(below) if "best so far" in text)])
    assert said.split() == ["fused:", *(f"{knob.name}=8" for knob in WIDE.knobs[:9])]


def test_a_wider_terminal_shows_more_columns(render):
    assert "GFLOP/s" not in render("inspect a store", 80).splitlines()[0]
    head, line, *_ = render("inspect a store", 120).splitlines()
    assert "GFLOP/s" in head
    assert WIDE_TASK in line


def test_inspect_in_full_shows_every_knob_and_outcome(render):
    shown = render("inspect a store --full", 80).split()
    assert all(f"{knob.name}=8" in shown or f"{knob.name}=4" in shown for knob in WIDE.knobs)
    assert {"ok,", "crashed"} <= set(shown)


def test_where_no_default_is_recorded_every_knob_is_shown_and_why(render):
    shown = " ".join(render("inspect an old store", 80).split())
    assert all(f"{knob.name}=" in shown for knob in WIDE.knobs)
    assert "default not recorded" in shown
    assert "are recorded by the next `autotune tune`" in shown


def test_a_default_that_was_a_duplicate_took_as_long_as_its_twin(tmp_path):
    fill_wide_store(tmp_path / "s")
    with Store.open(tmp_path / "s") as store:
        (sweep,) = store.sweeps()
        first = sweep.trials()[0]
    with Store.open(tmp_path / "t") as store:
        sweep = store.sweep("wide", WIDE_TASK, {"machine": "m"}, default=WIDE_DEFAULT)
        twin = {**WIDE_DEFAULT, WIDE.knobs[0].name: 2}
        sweep.add(replace(first, config=twin, key="twin"), WIDE)
        sweep.add(replace(first, number=1, outcome="duplicate", samples=None, twin="twin"), WIDE)
    (default,) = read_holdings(tmp_path / "t").defaults.values()
    assert (default.config, default.seconds) == (WIDE_DEFAULT, first.seconds)


def test_a_pipe_is_80_columns_wide(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    show_findings(FINDINGS)
    assert 70 < max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_a_width_of_nothing_is_one_that_is_not_known(monkeypatch):
    monkeypatch.setenv("COLUMNS", "0")
    assert terminal().width == 80


def test_text_stands_beside_the_numbers_only_where_all_of_it_has_room():
    table = Table(
        "task", (Column("time"),), (TextRow("a", ("1 s",), "short"), TextRow("b", ("2 s",), "longer text")), "why"
    )
    assert [line.dim for line in lay_out(table, 80)] == ["  why", "  short", "  longer text"]
    assert [line.dim for line in lay_out(table, 20)] == ["", "", "    short", "", "    longer text"]


def test_optional_columns_go_before_names_lose_their_room():
    name = "n" * 40
    table = Table("task", (Column("time"), Column("rate", optional=True)), (TextRow(name, ("1.23 ms", "45.6")),))
    narrow, wide = (lay_out(table, width)[1].plain.split() for width in (50, 60))
    assert (narrow, wide) == ([name, "1.23", "ms"], [name, "1.23", "ms", "45.6"])


def test_shortened_names_keep_their_ends():
    short = shorten("matmul_128x768x3072_f32_w_fused_4adc51", 20)
    assert (len(short), short[:6], short[-6:]) == (20, "matmul", "4adc51")


def test_paths_are_never_broken():
    path = "/" + "x" * 100
    assert path in fold(f"see {path} for more", 40)


def test_sweeps_of_two_machines_are_told_apart(tmp_path, autotune):
    fill_store(fill_store(tmp_path / "s"), machine="another")
    _, out, _ = autotune("inspect", tmp_path / "s", "--full")
    machines = [line.split()[1] for line in out.splitlines() if line.startswith("    machine ")]
    assert machines == ["m,", "another,"]


def test_tasks_go_by_the_names_that_tuning_recorded(tmp_path, autotune):
    with Store.open(fill_wide_store(tmp_path / "s")) as store:
        store.sweep("wide", WIDE_TASK, {"machine": "m"}, name="attention 12x128x64 + everything")
    _, out, _ = autotune("inspect", tmp_path / "s")
    assert out.splitlines()[1].startswith("attention 12x128x64 + everything ")
    (default,) = read_holdings(tmp_path / "s").defaults.values()
    assert default.config == WIDE_DEFAULT


def test_constraints_of_a_space_go_on_below_where_a_line_is_too_long():
    text = "knob  default\ntile_m  0\n\nconstraint: " + "a panel of B fits the cache " * 4
    lines = folded(text).splitlines()
    assert lines[:3] == ["knob  default", "tile_m  0", ""]
    assert max(map(len, lines)) <= 80
    assert all(line.startswith("  ") for line in lines[4:])
    assert len(lines) > 4
