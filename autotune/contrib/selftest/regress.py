"""Self-test of `regress`: the same bundle is checked repeatedly while another process runs at random times.

A program that became 5 % slower is simulated by a bundle whose recorded times of the schedule are divided by 1.05.
"""

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from autotune.bundles.regress import check
from autotune.bundles.regress_options import RegressOptions
from autotune.bundles.verdict import ALARMS
from autotune.contrib.selftest.figures import Figure, product_payload, share_figure
from autotune.core.listener import SILENT, Listener
from autotune.core.payload import Payload
from autotune.store.bundle import BundleFiles, read_bundle
from autotune.store.records import ProcessTimes
from autotune.store.sessions import speedup_of
from autotune.store.store import Store
from autotune.tuning.options import TuneOptions
from autotune.tuning.tune import tune

OPTIONS = RegressOptions(quick=True)
SLOWER = (1.05, 1.10)
BUSY = """
import os, random, sys, time
dice = random.Random(0)
os.sched_setaffinity(0, {int(sys.argv[1])})
while os.getppid() == int(sys.argv[2]):
    end = time.monotonic() + dice.uniform(0.0, 4.0)
    while time.monotonic() < end:
        sum(range(1000))
    time.sleep(dice.uniform(0.0, 4.0))
"""


def check_regress(checks: int, listener: Listener = SILENT) -> list[Figure]:
    """Check an unchanged program, one 5 % slower and one 10 % slower, beside a random load.

    Args:
        checks: Number of checks of each.
        listener: Notified of the progress.
    """
    if not checks:
        return []
    with tempfile.TemporaryDirectory() as folder, other_work():
        same = make_bundle(product_payload(), Path(folder))
        bundles = (same, *(pretend_faster(same, factor) for factor in SLOWER))
        counts = [Counter[str]() for _ in bundles]
        for number in range(checks):
            listener.stage(f"regress beside other work, round {number + 1} of {checks}")
            for bundle, verdicts in zip(bundles, counts, strict=True):
                verdicts[check(bundle, OPTIONS, SILENT).verdict] += 1
    return judge_checks(*counts)


def judge_checks(same: Counter[str], slower: Counter[str], much: Counter[str]) -> list[Figure]:
    """Return the figures from the verdicts on the unchanged program, the 5 % and the 10 % slower one."""
    alarms, passed = sum(same[verdict] for verdict in ALARMS), slower["ok"] + slower["faster"]
    beside = f"{verdicts_of(same)}; beside other work"
    return [
        share_figure("alarms of regress on an unchanged program", alarms, same.total(), "at most 0 %", beside),
        share_figure(
            "programs 5 % slower that regress calls well", passed, slower.total(), "at most 0 %", verdicts_of(slower)
        ),
        share_figure(
            "programs 10 % slower that regress finds", much["slower"], much.total(), "at least 95 %", verdicts_of(much)
        ),
    ]


def verdicts_of(counts: Counter[str]) -> str:
    """Format the count of each verdict."""
    return "; ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))


def make_bundle(payload: Payload, folder: Path) -> BundleFiles:
    """Tune with a few trials, and record the bundle as `regress --update` does."""
    with Store.open(folder / "store.journal") as store:
        tune(payload, store, folder / "bundle", TuneOptions(trials=3))
    bundle = read_bundle(folder / "bundle")
    check(bundle, replace(OPTIONS, update=True), SILENT)
    return read_bundle(folder / "bundle")


def pretend_faster(bundle: BundleFiles, factor: float) -> BundleFiles:
    """Return a bundle whose recorded schedule is faster by a factor."""
    samples = tuple(sped_up(session, factor) for session in bundle.manifest.samples)
    error = bundle.manifest.baseline.part_error
    return replace(bundle, manifest=replace(bundle.manifest, samples=samples, speedup=speedup_of(samples, error)))


def sped_up(session: ProcessTimes, factor: float) -> ProcessTimes:
    """Return a session whose schedule times are divided by a factor."""
    return replace(session, best_seconds=tuple(seconds / factor for seconds in session.best_seconds))


@contextmanager
def other_work() -> Iterator[None]:
    """Run a process with random load on the lowest core while the ``with`` block runs."""
    core = min(os.sched_getaffinity(0))
    busy = subprocess.Popen([sys.executable, "-c", BUSY, str(core), str(os.getpid())])
    try:
        yield
    finally:
        busy.kill()
        busy.wait()
