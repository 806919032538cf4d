"""A bundle takes the place of another one of the same payload only if that is not faster, or if it was asked for."""

from dataclasses import replace
from pathlib import Path

import pytest
from bundle_support import no_care

import autotune as at
from autotune.core.console import duration
from autotune.store.bundle import PAYLOAD
from autotune.store.manifest import MANIFEST_FILE, parse_manifest, write_manifest
from autotune.store.sessions import recorded_figures
from autotune.tuning.stages.earlier_run import choose_target

RECORDED = Path(__file__).parents[2] / "results/icelake-3c3bf114/bundles/nano" / MANIFEST_FILE


@pytest.fixture(scope="module")
def recorded():
    return parse_manifest(RECORDED.read_bytes(), str(RECORDED))


@pytest.fixture
def folder(recorded, tmp_path):
    """Folder of a bundle that is there already."""
    (tmp_path / "nano").mkdir()
    (tmp_path / "nano" / MANIFEST_FILE).write_bytes(write_manifest(recorded).encode())
    return tmp_path / "nano"


def slower(manifest, factor, drift=1.0):
    """The manifest of a winner that takes so many times as long, on a core that was another's for a part of it."""

    def session(each):
        return replace(
            each,
            best_seconds=tuple(s * factor * drift for s in each.best_seconds),
            reference_seconds=tuple(s * drift for s in each.reference_seconds),
        )

    return replace(manifest, samples=tuple(map(session, manifest.samples)), tasks={})


def target(folder, new, *, unsteady="", anew=False):
    return choose_target(folder, new, unsteady=unsteady, floor=0.02, anew=anew)


def test_a_faster_bundle_stays_and_the_message_has_both_times(folder, recorded):
    found = target(folder, slower(recorded, 1.5))
    assert found.folder == folder.parent / "slower" / "nano"
    was = recorded_figures(recorded).best_seconds
    assert duration(was) in found.note
    assert f"goes to {found.folder}; --anew replaces" in found.note


def test_a_faster_bundle_stays_where_the_machine_is_too_busy_to_say(folder, recorded):
    found = target(folder, slower(recorded, 0.5), unsteady="the core was shared")
    assert found.folder.parent.name == "slower"
    assert "cannot be timed here and now" in found.note


@pytest.mark.parametrize(
    ("change", "options"),
    [
        (lambda m: slower(m, 0.5), {}),
        (lambda m: slower(m, 1.0), {}),
        (lambda m: slower(m, 1.0, drift=3.0), {}),  # a slow minute is no slower program
        (lambda m: slower(m, 1.5), {"anew": True}),
        (lambda m: replace(slower(m, 1.5), machine=replace(m.machine, threads=2)), {}),
        (lambda m: replace(slower(m, 1.5), sha256=m.sha256 | {PAYLOAD: "0" * 64}), {}),
    ],
)
def test_else_it_is_replaced_and_the_message_names_it(folder, recorded, change, options):
    found = target(folder, change(recorded), **options)
    assert found.folder == folder
    assert found.note.startswith(f"replaces {folder}, a bundle of nano with ")


def test_a_recorded_time_that_says_nothing_protects_nothing(folder, recorded):
    samples = tuple(
        replace(each, reference_seconds=tuple(s * (5 if i else 1) for i, s in enumerate(each.reference_seconds)))
        for each in recorded.samples
    )
    (folder / MANIFEST_FILE).write_bytes(write_manifest(replace(recorded, samples=samples)).encode())
    found = target(folder, slower(recorded, 9.0))
    assert found.folder == folder
    assert "a time that was not measurable" in found.note


def test_nothing_is_said_of_a_new_folder_or_of_what_cannot_be_read(folder, recorded):
    assert target(folder.with_name("none"), recorded).note == ""
    (folder / MANIFEST_FILE).write_text("{}")
    assert target(folder, recorded) == choose_target(folder, recorded, unsteady="x", floor=0.0, anew=False)


def test_the_first_bundle_beside_a_faster_one_is_written_to_a_folder_that_is_not_there_yet(tmp_path):
    folder, store = tmp_path / "bundle", tmp_path / "store.journal"

    def tune(trials):
        with no_care():
            return at.tune("matmul,m=16,n=32,k=24", trials=trials, store=store, bundle=folder, cold=True)

    tune(1)
    path = folder / MANIFEST_FILE
    first = parse_manifest(path.read_bytes(), str(path))
    beside = min(seconds for s in first.samples for seconds in s.reference_seconds)
    still = tuple(
        replace(s, best_seconds=(1e-9,) * 9, baseline_seconds=(1e-6,) * 9, reference_seconds=(beside,) * 9)
        for s in first.samples
    )
    path.write_text(write_manifest(replace(first, samples=still)))
    assert tune(2).bundle == str(tmp_path / "slower" / "bundle")
    assert parse_manifest(path.read_bytes(), str(path)).samples == still
    assert at.Bundle.read(tmp_path / "slower" / "bundle").replay().outcome == "ok"
