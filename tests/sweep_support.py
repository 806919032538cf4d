"""A store of made-up trials: one knob decides, one hardly matters, some trials fail, roofs are known."""

import math
import random
from statistics import median

from autotune.core.space import Knob, Space
from autotune.core.trial import Samples, Trial
from autotune.store.store import Store

SPACE = Space((Knob("tile_m", (1, 2, 4, 8, 16)), Knob("order", ("ijk", "ikj", "kij")), Knob("pack_b", (False, True))))
FLOPS, BYTES = 2e7, 1e6
QUARTILE = 0.995  # lower one of the samples of a trial, over its time
FAILURES = {7: "crashed", 11: "timed-out", 13: "wrong-result", 14: "duplicate"}
PHASES = {"transform": 0.01, "lower": 0.02, "jit": 0.03, "verify": 0.001, "measure": 0.2}
SUMMARY = {
    "roofs": {"flops": 1e11, "dram_bytes": 2e10, "l2_bytes": 9e10},
    "machine": {"cpu": "a desktop"},
}


def seconds_of(config):
    """Seconds of a call: tile_m decides, the best is 8; order is worth 2 %."""
    away = abs(math.log2(int(config["tile_m"]) / 8))
    return 2.5e-4 * 2**away * (1.02 if config["order"] == "kij" else 1.0)


def make_trial(task, number, factor=1.0):
    """The n-th trial of a task."""
    configs = list(SPACE.configs())
    config = configs[(number * 7) % len(configs)]
    outcome = FAILURES.get(number % 20, "ok")
    seconds = factor * seconds_of(config)
    samples = Samples((seconds, seconds * 1.01, seconds * 0.99), (1e-4,) * 3, 4, 1e-4) if outcome == "ok" else None
    phases = {"transform": 0.01, "lower": 0.02, "jit": 0.03 + 0.001 * number}
    if samples:
        phases |= {"verify": 0.001, "measure": 0.2}
    return Trial(task, number, config, outcome, f"{task}{number}{factor}", "matmul", samples, phases=phases)


def fill_store(path, *, tasks=("first",), trials=60, payload="mine", machine="m", factor=1.0, summary=True):
    """Write a store."""
    with Store.open(path) as store:
        for task in tasks:
            sweep = store.sweep(payload, task, {"machine": machine}, flops=FLOPS, size=BYTES)
            for number in range(trials):
                sweep.add(make_trial(task, number, factor), SPACE)
        if summary:
            store.write_summary(payload, SUMMARY)
    return path


def fill_for_bundle(path, bundle, tasks=3, trials=12):
    """Write a store of made-up trials of a bundle's first tasks, as if made where it was recorded: first its winner."""
    data, draw = bundle.manifest, random.Random(0)
    identity = {"machine": data.fingerprint, "compiler": data.versions.compiler}
    with Store.open(path) as store:
        for tag, task in list(data.tasks.items())[:tasks]:
            space = Space(tuple(Knob(name, values) for name, values in task.knobs.items()))
            sweep = store.sweep(data.payload, tag, identity, flops=FLOPS, size=BYTES)
            for number in range(trials):
                config = {name: draw.choice(values) for name, values in task.knobs.items()} if number else task.config
                seconds, outcome = median(task.seconds) * (1 + number * draw.random()), FAILURES.get(number, "ok")
                samples = Samples((seconds,) * 3, (1e-4,) * 3, 4, 1e-4) if outcome == "ok" else None
                key = f"{tag}{number}"
                trial = Trial(tag, number, dict(config), outcome, key, task.schedule, samples, phases=PHASES)
                sweep.add(trial, space)
        store.write_summary(data.payload, {"roofs": dict(data.roofs), "machine": {"cpu": data.machine.cpu}})
    return path


WIDE = Space(tuple(Knob(f"register_width_{number}", (1, 2, 4, 8)) for number in range(22)))
WIDE_DEFAULT = {knob.name: 4 for knob in WIDE.knobs}
WIDE_TASK = "attention_12x128x64_causal_fused_with_everything_0e2539"


def fill_wide_store(path, *, changed=9, default=True):
    """A store of one task with 22 knobs: the default config takes 2 ms, the best 1 ms; it differs in `changed`."""
    best = WIDE_DEFAULT | {knob.name: 8 for knob in WIDE.knobs[:changed]}
    slow = WIDE_DEFAULT | {WIDE.knobs[0].name: 1}
    tried = [(WIDE_DEFAULT, "ok", 2e-3), (best, "ok", 1e-3), (slow, "crashed", None)]
    with Store.open(path) as store:
        kept = WIDE_DEFAULT if default else None
        sweep = store.sweep("wide", WIDE_TASK, {"machine": "m"}, flops=FLOPS, size=BYTES, default=kept)
        for number, (config, outcome, seconds) in enumerate(tried):
            samples = Samples((seconds,) * 3, (1e-4,) * 3, 4, 1e-4) if seconds else None
            sweep.add(Trial(WIDE_TASK, number, config, outcome, f"wide{number}", "fused", samples), WIDE)
        store.write_summary("wide", SUMMARY)
    return path
