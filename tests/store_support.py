"""A store of made-up trials."""

import multiprocessing
import os
import time
from pathlib import Path

import pytest

from autotune.core.space import Knob, Space
from autotune.core.trial import Samples, Trial
from autotune.store import journal as module
from autotune.store.store import Store

SPACE = Space((Knob("tile", (1, 2, 4, 8)), Knob("order", ("ijk", "ikj")), Knob("pack", (False, True))))
IDENTITY = {"payload_sha256": "a" * 64, "machine": "m", "compiler": "22.1"}
PLACES = ":".join(map(str, (Path(module.__file__).parents[2], *Path(__file__).parents[:2])))
FORK = multiprocessing.get_context("fork")
needs_user = pytest.mark.skipif(os.access("/proc/version", os.W_OK), reason="this user may write anywhere")


def make(number: int, outcome: str = "ok", **changes) -> Trial:
    config = {"tile": 2 ** (number % 4), "order": "ijk", "pack": number % 2 == 0}
    samples = Samples((2e-3, 1e-3, 3e-3), (1e-3, 1e-3, 1e-3), 4) if outcome == "ok" else None
    phases = {"transform": 0.1, "lower": 0.2}
    fields = {"samples": samples, "phases": phases} | changes
    return Trial("matmul0", number, config, outcome, f"key{number}", "matmul", **fields)


def fill(location, count: int, first: int = 0) -> None:
    with Store.open(location) as store:
        sweep = store.sweep("nano", "matmul0", IDENTITY, flops=2e9)
        for number in range(first, first + count):
            sweep.add(make(number), SPACE)


def numbers(location) -> list[int]:
    with Store.open(location) as store:
        return [trial.number for trial in store.sweep("nano", "matmul0", IDENTITY).trials()]


def one_line(error) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


def sweep_of(store, **identity):
    return store.sweep("nano", "matmul0", IDENTITY | identity)


def write_trials(url, count, told, claimed):
    """Record trials that are missing, telling which; then hold a claim for ever."""
    with Store.open(url, pause=lambda _: time.sleep(0.02)) as store:
        sweep = sweep_of(store)
        for number in range(count):
            if sweep.claim(f"key{number}"):
                sweep.add(make(number), SPACE)
                sweep.release(f"key{number}")
                told.send(number)
        if claimed:
            sweep.claim(claimed)
            told.send(claimed)
            time.sleep(60)


def start_writer(url, count, claimed=""):
    """A tuner in a process of its own, and the end of a pipe that it tells on what it did."""
    here, there = FORK.Pipe(duplex=False)
    process = FORK.Process(target=write_trials, args=(url, count, there, claimed))
    process.start()
    there.close()
    return process, here
