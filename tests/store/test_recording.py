"""Recordings as files: they come back as they were, are small, and what is none of them is refused in one line."""

import lzma
from dataclasses import replace
from pathlib import Path

import pytest
from hostile_corpus import KINDS
from recording_support import made_up_recording

from autotune.core.errors import StoreError
from autotune.reports.holdings import read_holdings
from autotune.store.recording import MAGIC, RECORDING, is_recording, read_recording, write_recording

RESULTS = Path(__file__).parents[2] / "results"
RECORDED = sorted(RESULTS.glob("*/spaces/*.xz"))


def test_recording_comes_back_as_it_was_written(tmp_path):
    recording = made_up_recording()
    write_recording(tmp_path / "a.xz", recording)
    again = read_recording(tmp_path / "a.xz")
    write_recording(tmp_path / "b.xz", again)
    assert read_recording(tmp_path / "b.xz") == again
    assert again.space.knobs == recording.space.knobs
    assert [trial.config for trial in again.trials] == [trial.config for trial in recording.trials]
    assert again.trials[0].seconds == pytest.approx(recording.trials[0].seconds, rel=1e-3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.xz", "b.xz"]


def test_values_keep_their_types(tmp_path):
    write_recording(tmp_path / "a.xz", made_up_recording())
    types = {knob.name: {type(value) for value in knob.values} for knob in read_recording(tmp_path / "a.xz").knobs}
    assert types == {"tile_m": {int}, "order": {str}, "pack_b": {bool}}


def test_a_busy_core_does_not_show_in_the_time():
    recording = made_up_recording()
    first, *rest = recording.trials
    busy = replace(first.samples, seconds=(8e-4, 2e-4, 9e-4), reference_seconds=(5e-4, 2e-4, 4e-4))
    found = replace(recording, trials=(replace(first, samples=busy), *rest))
    assert found.quiet == 1e-4
    assert found.seconds_of(found.trials[0]) == pytest.approx(1e-4)
    assert found.frame["seconds_normalised"][0] == pytest.approx(1e-4)
    assert found.seconds_of(replace(first, samples=None)) is None


def test_a_duplicate_is_found_as_its_twin():
    recording = made_up_recording()
    first, second, *rest = recording.trials
    duplicate = replace(second, outcome="duplicate", samples=None, twin=first.key)
    found = replace(recording, trials=(first, duplicate, *rest)).trials_by_values
    assert found[recording.values_of(second.config)] is first


def test_what_was_not_recorded_breaks_the_law_of_its_space():
    recording = made_up_recording()
    missing, *rest = recording.trials
    space = replace(recording, trials=tuple(rest)).space
    assert [config for config in space.configs() if config == missing.config] == []
    assert len(list(space.configs())) == len(rest)
    assert space.broken_constraint(missing.config) == "the config was recorded"


def test_frame_has_a_row_a_trial_and_inspect_reads_it(tmp_path):
    recording = made_up_recording()
    write_recording(tmp_path / "a.xz", recording)
    frame = read_holdings(tmp_path / "a.xz").frame
    assert len(frame) == len(recording.trials)
    assert set(frame.columns) >= {"knob_tile_m", "knob_order", "jit_seconds", "seconds_normalised", "outcome"}
    assert frame["outcome"].tolist() == [trial.outcome for trial in recording.trials]
    assert len(read_holdings(tmp_path / "a.xz", where="tile_m >= 8").frame) < len(frame)


def put(data, old, new):
    """A recording with other text inside."""
    return lzma.compress(lzma.decompress(data).replace(old, new))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda data: data[: len(data) // 2], "must be a recording"),
        (lambda data: data[:40] + b"\0" * 40 + data[80:], "must be an xz file"),
        (lambda data: b"no xz at all", "must be an xz file"),
        (lambda data: lzma.compress(b"{}"), "format_version is not"),
        (lambda data: put(data, b'"format_version":3', b'"format_version":4'), "format_version is not"),
        (lambda data: put(data, b'"outcome":"ok"', b'"outcome":"fine"'), "outcome"),
    ],
)
def test_damaged_recording_is_one_line(tmp_path, damage, words):
    path = tmp_path / "a.xz"
    write_recording(path, made_up_recording())
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(StoreError, match=words) as caught:
        read_recording(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("most", "law"), [("MOST_TEXT", "must be a recording"), ("MOST_MEMORY", "must be an xz file")])
def test_a_bomb_is_not_unpacked(tmp_path, monkeypatch, most, law):
    monkeypatch.setattr(f"autotune.store.recording.{most}", 1000)
    path = tmp_path / "a.xz"
    write_recording(path, made_up_recording())
    with pytest.raises(StoreError, match=law):
        read_recording(path)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_regular_file_is_no_recording(tmp_path, kind):
    KINDS[kind](tmp_path / "a.xz")
    assert not is_recording(tmp_path / "a.xz")


def test_missing_file_is_one_line(tmp_path):
    assert not is_recording(tmp_path / "a.xz")
    with pytest.raises(StoreError, match="readable file"):
        read_recording(tmp_path / "a.xz")


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_recorded_spaces_are_small_and_finished(path):
    assert path.stat().st_size < 200_000
    assert path.read_bytes().startswith(MAGIC)
    recording = read_recording(path)
    assert len(recording.trials) == recording.lawful
    assert recording.values_of(recording.default) in recording.trials_by_values
    assert RECORDING.validate_json(RECORDING.dump_json(recording)) == recording


def test_recordings_of_format_1_are_read_with_the_facts_of_each_op():
    tasks = {
        path.stem: read_recording(path).task for path in RECORDED if path.stem in ("attention_512", "matmul_512_fresh")
    }
    group, alone = tasks.values()
    assert (group.is_group, group.occurrences, group.root.nest.sizes) == (True, 1, (1, 512, 64))
    assert (len(alone.ops), alone.contraction.m, alone.root.gathers) == (1, 512, False)
