"""One number a fact: every verb gives the same time of one bundle's winner, and none gives a number that cannot be."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from autotune.bundles.replay import summarize
from autotune.bundles.timing import Timing
from autotune.cli.compare import show_comparison
from autotune.cli.inspect_bundle import show_winner
from autotune.cli.replay import show_replay
from autotune.cli.tune import show_result
from autotune.contrib.explain.ablation import Variant, against_first
from autotune.contrib.explain.explanation import Explanation, quiet_here, unsteady_here
from autotune.contrib.explain.verb import show_explanation
from autotune.core.candidate import Candidate
from autotune.core.console import duration
from autotune.core.evaluator import Evaluation
from autotune.core.host.machine import Roofs
from autotune.core.trial import Samples
from autotune.core.winner_time import winner_time
from autotune.reports.compare import make_row, unsteady_race
from autotune.reports.comparison import Comparison
from autotune.reports.comparison_run import EntryTimes
from autotune.reports.entries import Contender
from autotune.reports.page import report_bundle
from autotune.reports.sections.gained import gained_of_bundle
from autotune.reports.task_lines import lines_of_bundle
from autotune.reports.winner import describe
from autotune.store.bundle import read_bundle
from autotune.tuning.result import TuneResult
from autotune.worker.bench.entry import Verification

FOLDER = Path(__file__).parents[2] / "results/icelake-3c3bf114/bundles/nano"
FLOPS = 1e6


def slowed(bundle, factor):
    """The bundle as a core records it that takes so many times as long for all but the first rounds of each process."""

    def slow(seconds):
        return tuple(s * (factor if place > 2 else 1.0) for place, s in enumerate(seconds))

    samples = tuple(
        replace(
            session,
            best_seconds=slow(session.best_seconds),
            baseline_seconds=slow(session.baseline_seconds),
            reference_seconds=slow(session.reference_seconds),
        )
        for session in bundle.manifest.samples
    )
    return replace(bundle, manifest=replace(bundle.manifest, samples=samples))


def interrupted(bundle, factor):
    """The bundle as a core records it that others have for milliseconds: programs are interrupted, or the kernel is."""
    samples = tuple(
        replace(
            session,
            best_seconds=tuple(s * (factor if i % 4 else 1.0) for i, s in enumerate(session.best_seconds)),
            baseline_seconds=tuple(s * (factor if i % 4 else 1.0) for i, s in enumerate(session.baseline_seconds)),
            reference_seconds=tuple(s * (1.0 if i % 4 else factor) for i, s in enumerate(session.reference_seconds)),
        )
        for session in bundle.manifest.samples
    )
    return replace(bundle, manifest=replace(bundle.manifest, samples=samples))


def measured_now(bundle):
    """The bundle's program and baseline as a worker measures them: the samples that the bundle records."""
    sessions = bundle.manifest.samples
    mine, theirs, beside = (
        tuple(s for session in sessions for s in getattr(session, kind))
        for kind in ("best_seconds", "baseline_seconds", "reference_seconds")
    )
    return [Evaluation("ok", samples=Samples(each, beside), max_error=1e-6) for each in (mine, theirs)]


@dataclass(frozen=True)
class Shown:
    """What a verb shows of a bundle: for people, in numbers, and as JSON."""

    show: Callable[[], None]
    seconds: float
    data: dict[str, Any]
    path: str  # to the seconds in the JSON

    @property
    def json_seconds(self):
        """The seconds that a program reads."""
        found = json.loads(json.dumps(self.data))
        for step in self.path.split("."):
            found = found[int(step) if isinstance(found, list) else step]
        return found


def shown_by(bundle):
    """What each verb shows of a bundle, by its name."""
    data, winner = bundle.manifest, describe(bundle)
    machine, quiet, ours = data.machine, min(s for x in data.samples for s in x.reference_seconds), measured_now(bundle)
    result = TuneResult(
        payload=data.payload,
        machine=machine,
        roofs=Roofs(**data.roofs),
        baseline_name=data.baseline.name,
        baseline_seconds=winner.baseline_seconds,
        best_seconds=winner.seconds.estimate,
        roof_fraction=winner.roof_fraction,
        configs={},
        speedup=data.speedup,
        max_error=winner.max_error,
        trials={"ok": 3},
        evaluated=3,
        seconds=1.0,
        search_seconds=1.0,
        overhead_seconds=0.0,
        noise_floor=data.noise_floor,
        clock_seconds=winner.clock,
        unsteady=winner.unsteady,
        bundle="b",
    )
    replayed = summarize(bundle, Timing(ours[1], ours[0]), data.samples, machine, None)
    variants = [Variant("the winner", Candidate(None, "p"), ()), Variant("tiles", Candidate(None, "q"), ("t",))]
    rows = tuple(against_first(variants, ours, quiet_here(bundle, machine, ours)))
    explained = Explanation(
        data.payload, "leave-one-out", rows, None, None, machine, unsteady=unsteady_here(bundle, machine, ours)
    )
    best = make_row(
        Contender("best", None), Verification("ok"), EntryTimes(ours[0].samples, None), FLOPS, machine, quiet=quiet
    )
    times = {"best": EntryTimes(ours[0].samples, None)}
    unsteady = unsteady_race(times, "best", quiet, machine, Roofs(**data.roofs))
    compared = Comparison(
        data.payload, machine, Roofs(**data.roofs), data.noise_floor, (best,), "best", 0, unsteady=unsteady
    )
    seconds = winner.seconds.estimate
    return {
        "tune": Shown(lambda: show_result(result), result.best_seconds, result.to_json(), "best.seconds"),
        "inspect": Shown(
            lambda: show_winner(winner, lines_of_bundle(bundle)), seconds, winner.to_json(), "seconds.estimate"
        ),
        "replay": Shown(lambda: show_replay(replayed), replayed.best_seconds, replayed.to_json(), "best_seconds"),
        "explain": Shown(
            lambda: show_explanation(explained),
            rows[0].seconds.estimate,
            explained.to_json(),
            "rows.0.seconds.estimate",
        ),
        "compare": Shown(
            lambda: show_comparison(compared), best.seconds.estimate, compared.to_json(), "rows.0.seconds"
        ),
    }


def tiles_of(bundle):
    """The tiles of the report that head it, as text by their label."""
    section = gained_of_bundle(bundle, describe(bundle), None, None)
    return {tile.name: tile.text for tile in section.blocks[0].tiles}


@pytest.mark.parametrize("factor", [1.0, 1.3])
def test_every_verb_has_the_same_time_of_one_bundle_whatever_the_core_did(factor, capsys):
    still = describe(read_bundle(FOLDER))
    bundle = slowed(read_bundle(FOLDER), factor)
    for verb, shown in shown_by(bundle).items():
        assert shown.seconds == pytest.approx(still.seconds.estimate, rel=still.noise_floor), verb
        assert shown.json_seconds == shown.seconds, verb
        assert shown.data["unsteady"] == "", verb
        shown.show()
        out = " ".join(capsys.readouterr().out.split())
        assert duration(shown.seconds) in out, verb
        assert "not measurable" not in out, verb
    assert duration(describe(bundle).seconds.estimate) in tiles_of(bundle).values()


def test_the_clocks_own_time_stands_beside_one_that_differs_by_more_than_noise(capsys):
    bundle = slowed(read_bundle(FOLDER), 1.3)
    for verb in ("tune", "inspect", "replay"):
        shown_by(bundle)[verb].show()
        said = re.search(r"([\d.]+) us \(([\d.]+) us by the clock\)", capsys.readouterr().out)
        assert float(said[2]) / float(said[1]) == pytest.approx(1.3, rel=0.1), verb


def test_the_report_has_the_time_that_inspect_has():
    winner = describe(read_bundle(FOLDER))
    assert next(iter(tiles_of(read_bundle(FOLDER)).values())) == duration(winner.seconds.estimate)
    assert duration(winner.seconds.estimate) in report_bundle(FOLDER)


@pytest.mark.parametrize("core", ["busy", "interrupted", "too quick"])
def test_a_busy_machine_is_said_to_be_one_instead_of_numbers_that_cannot_be(core, capsys):
    """The core is shared from the third round on, or by turns, or samples are too quick to be true."""
    bundle = read_bundle(FOLDER)
    if core == "too quick":
        quick = (replace(s, best_seconds=tuple(t / 4 for t in s.best_seconds)) for s in bundle.manifest.samples)
        bundle = replace(bundle, manifest=replace(bundle.manifest, samples=tuple(quick)))
    else:
        bundle = (slowed if core == "busy" else interrupted)(bundle, 4.0)
    for verb, shown in shown_by(bundle).items():
        if core == "too quick" and verb in ("explain", "compare"):
            continue  # it knows no operations of what it times here
        assert shown.data["unsteady"], verb
        assert shown.json_seconds == shown.seconds, verb
        shown.show()
        out = capsys.readouterr().out
        assert "not measurable here and now" in " ".join(out.split()), verb
        shares = [float(share) for share in re.findall(r"([\d.]+)%", out)]
        assert all(share <= 100.0 for share in shares), verb
        assert "by the clock" not in out, verb
        assert not re.search(r"\d x|\dx \[", out) or verb == "replay"  # which repeats what was recorded


@pytest.mark.parametrize("core", ["busy", "interrupted"])
def test_the_report_of_a_busy_machine_has_no_time_and_no_share(core):
    bundle = (slowed if core == "busy" else interrupted)(read_bundle(FOLDER), 4.0)
    assert set(tiles_of(bundle)) == {"time of a call", "largest error"}
    assert tiles_of(bundle)["time of a call"] == "not measurable"


def test_shares_of_a_call_add_up(capsys):
    bundle = read_bundle(FOLDER)
    show_winner(describe(bundle), lines_of_bundle(bundle))
    table = capsys.readouterr().out.partition("call: share")[0]
    lines = [line for line in table.splitlines() if re.search(r" (us|ns|ms) ", line) and "clock" not in line]
    shares = [float(re.search(r"([\d.]+)%", line)[1]) for line in lines if "%" in line and "naive" not in line]
    assert sum(shares) == pytest.approx(100.0, abs=1.0)


def test_a_drift_is_never_below_one_and_none_without_a_reference():
    assert winner_time([2.0, 2.0], []).drift == 1.0
    assert winner_time([2.0, 2.0], [1.0, 1.0], quiet=3.0).seconds.estimate == 2.0


def test_notes_of_earlier_bundles_on_knobs_without_effect_are_left_out(capsys):
    bundle = read_bundle(FOLDER)
    assert any("made no difference" in note for note in bundle.manifest.notes)
    show_winner(describe(bundle), lines_of_bundle(bundle))
    assert "made no difference" not in " ".join(capsys.readouterr().out.split())
    assert "made no difference" not in report_bundle(FOLDER)
