"""Decisions on the noise that tests/noise holds: equal ones stay equal, five per cent are found; what is told."""

import gzip
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from autotune.core.errors import MachineError
from autotune.core.host.machine import this_machine
from autotune.core.stats import is_different, relative_difference
from autotune.worker.bench import disturbance
from autotune.worker.bench.disturbance import Disturbance, Watch, advise
from autotune.worker.bench.noise import LEAST_FLOOR, NoisePair, floor_of, read_floor, write_floor

FOLDER = Path(__file__).parents[1] / "noise"
QUIET = 0.03  # a floor below it lets five per cent be seen
SAMPLES = 60  # as finalists are timed


@dataclass(frozen=True)
class Recording:
    """Pairs that `tests/noise/record.py` timed on a machine: of equal programs, and with one that is 5 % slower."""

    same: list[NoisePair]
    slower: list[NoisePair]

    @property
    def floor(self):
        return floor_of(self.same)


def read(path):
    found = json.loads(gzip.decompress(path.read_bytes()))
    kernels = [found["same"][kernel::2] for kernel in (0, 1)]
    return Recording([pair for runs in kernels for pair in joined(runs)], joined(found["slower_5_percent"]))


def joined(runs):
    """Pairs of as many runs as give about 60 samples."""
    count = max(1, round(SAMPLES / max(len(run[0]) for run in runs)))
    groups = [runs[i : i + count] for i in range(0, len(runs) - count + 1, count)]
    return [NoisePair(*(tuple(t for run in group for t in run[side]) for side in (0, 1))) for group in groups]


RECORDED = {path.name.partition(".")[0]: read(path) for path in sorted(FOLDER.glob("*.json.gz"))}
everywhere = pytest.mark.parametrize("recording", RECORDED.values(), ids=RECORDED)
BUSY = RECORDED["busy_core"]


@everywhere
def test_five_per_cent_are_found_by_the_test_alone(recording):
    called = [is_different(pair.a, pair.b, floor=LEAST_FLOOR) for pair in recording.slower]
    assert sum(called) >= 0.95 * len(called)


@pytest.mark.parametrize("name", [name for name, recording in RECORDED.items() if recording.floor < QUIET])
def test_five_per_cent_are_found_above_the_floor_of_a_quiet_machine(name):
    recording = RECORDED[name]
    called = [is_different(pair.a, pair.b, floor=recording.floor) for pair in recording.slower]
    assert sum(called) >= 0.95 * len(called)


@everywhere
def test_equal_programs_are_not_told_apart_above_the_floor(recording):
    half = [*recording.same[::2]], [*recording.same[1::2]]
    called = sum(is_different(p.a, p.b, floor=floor_of(one)) for one, other in (half, half[::-1]) for p in other)
    assert called <= 0.01 * len(recording.same) + 1  # 100 pairs: one more may be chance


@everywhere
def test_differences_below_the_floor_are_ties(recording):
    pairs = [*recording.same, *recording.slower]
    near = [pair for pair in pairs if relative_difference(pair.a, pair.b) < recording.floor]
    assert len(near) > len(recording.same) / 2
    assert not any(is_different(pair.a, pair.b, floor=recording.floor) for pair in near)


def test_floor_of_a_busy_core_makes_ties_of_some_five_per_cent():
    assert BUSY.floor > 0.03
    near = [pair for pair in BUSY.slower if relative_difference(pair.a, pair.b) < BUSY.floor]
    assert near
    assert not any(is_different(pair.a, pair.b, floor=BUSY.floor) for pair in near)


def test_recording_is_made_by_one_command(tmp_path):
    command = [sys.executable, FOLDER / "record.py", "--pairs", "4", "--folder", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.iterdir()
    assert done.stdout.split() == [str(path)]
    found = json.loads(gzip.decompress(path.read_bytes()))
    assert len(found["same"]) == len(found["slower_5_percent"]) == 4
    for a, b in (*found["same"], *found["slower_5_percent"]):
        assert 3 <= len(a) == len(b) <= SAMPLES  # fewer than sixty where the core is busy
        assert min(*a, *b) > 0
    assert read(path).floor >= LEAST_FLOOR


def test_kept_floor_is_read_on_its_own_machine_only(tmp_path):
    machine = this_machine()
    assert read_floor(tmp_path, machine) == LEAST_FLOOR
    path = write_floor(tmp_path / "new", machine, 0.037, 60)
    assert read_floor(tmp_path / "new", machine) == 0.037
    path.write_text(path.read_text().replace(machine.fingerprint, "another"))
    assert read_floor(tmp_path / "new", machine) == LEAST_FLOOR
    path.write_text("{")
    with pytest.raises(MachineError, match="doctor --noise"):
        read_floor(tmp_path / "new", machine)


def test_noisy_machine_is_told_what_to_change():
    said = " ".join(advise(0.12, 1, (3,), Disturbance(stolen=0.2, others=1.4, loudest="cc1 (77), 80% of a core")))
    for word in ("12.0%", "one core", "hypervisor takes 20%", "cc1 (77)", "keep them off core 3, where"):
        assert word in said


def test_advice_is_about_the_cores_that_are_measured_on(tmp_path, monkeypatch):
    monkeypatch.setattr(disturbance, "CPUS", tmp_path)
    for core, siblings in ((0, "0-1"), (1, "0-1"), (2, "2"), (7, "3,7")):
        (tmp_path / f"cpu{core}" / "topology").mkdir(parents=True)
        (tmp_path / f"cpu{core}" / "topology" / "thread_siblings_list").write_text(f"{siblings}\n")
    assert advise(0.01, 8, (2,)) == []
    assert [line.split(":")[0] for line in advise(0.01, 8, (1, 2))] == [
        "core 1, where candidates run, shares its units with 0-1"
    ]
    assert len(advise(0.01, 8, (1, 7))) == 2


def test_watch_sees_others_and_not_us():
    watch = Watch()
    sum(range(2_000_000))
    found = watch.read()
    assert found.others >= 0
    assert "pytest" not in found.loudest
