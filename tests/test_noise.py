"""Decisions on recorded noise: equal programs stay equal, five per cent are found; what a noisy machine is told."""

import gzip
import json
from pathlib import Path

import pytest

from autotune.errors import MachineError
from autotune.machine import this_machine
from autotune.noise import LEAST_FLOOR, Pair, floor_of, read_floor, write_floor
from autotune.quiet import Disturbance, Watch, advise
from autotune.stats import is_different, relative_difference

RECORDED = json.loads(gzip.decompress((Path(__file__).parent / "noise" / "busy_core.json.gz").read_bytes()))


def joined(runs, count=2):
    """Pairs of `count` runs each, joined to 60 samples, as finalists are timed."""
    groups = [runs[i : i + count] for i in range(0, len(runs) - count + 1, count)]
    return [Pair(*(tuple(t for run in group for t in run[side]) for side in (0, 1))) for group in groups]


SAME = [pair for kernel in (0, 1) for pair in joined(RECORDED["same"][kernel::2])]
SLOWER = joined(RECORDED["slower_5_percent"])


def test_on_a_busy_core_five_per_cent_are_found_by_the_test_alone():
    assert sum(is_different(pair.a, pair.b, floor=LEAST_FLOOR) for pair in SLOWER) >= 0.95 * len(SLOWER)


def test_on_a_busy_core_equal_programs_are_not_told_apart_above_its_floor():
    half = [*SAME[::2]], [*SAME[1::2]]
    called = sum(is_different(p.a, p.b, floor=floor_of(one)) for one, other in (half, half[::-1]) for p in other)
    assert called <= 0.01 * len(SAME) + 1  # 100 pairs: one more may be chance


def test_differences_below_the_floor_of_a_busy_core_are_ties():
    floor = floor_of(SAME)
    assert floor > 0.03
    near = [pair for pair in SLOWER if relative_difference(pair.a, pair.b) < floor]
    assert near
    assert not any(is_different(pair.a, pair.b, floor=floor) for pair in near)


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
    said = " ".join(advise(0.12, 1, Disturbance(stolen=0.2, others=1.4, loudest="cc1 (77), 80% of a core")))
    for word in ("12.0%", "one core", "hypervisor takes 20%", "cc1 (77)"):
        assert word in said


def test_watch_sees_others_and_not_us():
    watch = Watch()
    sum(range(2_000_000))
    found = watch.read()
    assert found.others >= 0
    assert "pytest" not in found.loudest
