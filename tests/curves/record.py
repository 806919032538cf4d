"""Record how the best time of every task of GPT-2 falls in a search: the curves that test_scheduler replays.

The space is the matmul family's own, for a machine written down here; the time of a config is made up from what decides
it on real machines (register tile, footprints in caches, loop order, leftovers), with jumps no model foresees and
noise: searches of thousands of trials take a minute. `python tests/curves/record.py` writes gpt2.json.
"""

import hashlib
import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from autotune.core.host.machine import Machine
from autotune.core.ops.op import Contraction
from autotune.core.space import Config, Space
from autotune.tuning.samplers.search import Search
from schedules.matmul_space import matmul_space

CURVES = Path(__file__).resolve().parent / "gpt2.json"
DESKTOP = Machine("a desktop", "haswell", "avx2", 256, 16, 32 << 10, 512 << 10, 8 << 20, 4)
FLOPS = 100e9  # a second, of that machine
NOISE = 0.02
ORDERS = {"nkm": 1.0, "nmk": 0.97, "knm": 0.96, "mnk": 0.93, "kmn": 0.9, "mkn": 0.9}

# Contractions of GPT-2 small at 128 tokens: executions a call, and sizes m, n, k.
GPT2 = {
    "qkv": (12, Contraction(128, 2304, 768)),
    "scores": (144, Contraction(128, 128, 64, transposed_b=True)),
    "values": (144, Contraction(128, 64, 128)),
    "projection": (12, Contraction(128, 768, 768)),
    "up": (12, Contraction(128, 3072, 768)),
    "down": (12, Contraction(128, 768, 3072)),
    "head": (1, Contraction(128, 50257, 768, transposed_b=True)),
}
# Its other operations: executions a call, elements, and configs in their space.
ROWS = {
    "layer_norm": (25, 128 * 768, 60),
    "bias": (12, 128 * 2304, 14),
    "softmax": (12, 12 * 128 * 128, 60),
    "transpose": (36, 12 * 128 * 64, 12),
    "residual": (24, 128 * 768, 14),
    "gelu": (12, 128 * 3072, 14),
}


def share_of_roof(c: Contraction, config: Config) -> float:
    """Made-up part of the FMA rate that a config reaches."""
    rows, vectors, width = (int(config[name]) for name in ("register_m", "register_n", "vector_width"))
    m, n, k = (int(config[f"tile_{dim}"]) or size for dim, size in (("m", c.m), ("n", c.n), ("k", c.k)))
    accumulators, packed = rows * vectors * width / DESKTOP.lanes, config["pack_b"] != "none"
    share = min(1, accumulators / 10) ** 0.7 * (1 if width == DESKTOP.lanes else 0.75)
    share *= min(1, 0.95 / (0.35 + (rows + vectors) / (rows * vectors)))
    share *= over(4 * k * vectors * width, DESKTOP.l1_bytes / 1.4, 0.25)
    share *= over(4 * k * m, DESKTOP.l2_bytes / 2, 0.12)
    share *= over(4 * k * n, DESKTOP.l2_bytes * (1 if packed else 0.25), 0.15)
    share *= 1 - 0.1 * (packed and m < 64)
    if not packed:
        share *= 0.8 if c.n >= 512 else 0.95
    if config["tile_m"] or config["tile_n"]:
        share *= ORDERS[str(config["order"])]
    share *= 1 if (config["register_order"] == "nm") == (m <= n) else 0.96
    share *= 1 + 0.02 * math.log2(int(config["unroll_k"])) * (1 if accumulators < 10 else -0.5)
    for size, tile in ((c.m, rows), (c.n, vectors * width), (c.m, m), (c.n, n), (c.k, k)):
        share *= 1 - 0.3 * (size % tile) / size if tile <= size else 0.9
    surprise = int(hashlib.sha256(repr(sorted(config.items())).encode()).hexdigest()[:8], 16) / 2**32
    return share / (1 + 0.06 * surprise)


def over(size: float, room: float, slope: float) -> float:
    """What is left of the rate when `size` bytes do not fit `room`: a little less for every doubling."""
    return 1 / (1 + slope * max(0.0, math.log2(size / room)))


def any_config(space: Space, rng: random.Random) -> Config:
    """A random valid config."""
    while True:
        config = {knob.name: rng.choice(knob.values) for knob in space.knobs}
        if space.broken_constraint(config) is None:
            return config


def sweep(space: Space, seconds: Callable[[Config], float], sampler: str, seed: int, trials: int) -> list[float]:
    """Seconds of every trial of a search that begins anywhere; the sampler hears them with noise."""
    rng = random.Random(f"sweep {seed}")
    search = Search(space, any_config(space, rng), sampler=sampler, seed=seed)
    times: list[float] = []
    while len(times) < trials and (config := search.ask()) is not None:
        times.append(seconds(config))
        search.tell(config, times[-1] * (1 + abs(rng.gauss(0, NOISE))))
    return times


def curves(
    seeds: Annotated[int, typer.Option(help="Models.")] = 4,
    trials: Annotated[int, typer.Option(help="Of each task.")] = 300,
) -> None:
    """Record how the best time of every task of GPT-2 falls, each searched alone: the trials that improved it."""
    models = [
        [contraction_curve(name, seed, trials) for name in GPT2] + [row_curve(name, seed) for name in ROWS]
        for seed in range(seeds)
    ]
    lines = ",\n".join("[" + ",\n ".join(json.dumps(task) for task in model) + "]" for model in models)
    CURVES.write_text(f"[{lines}]\n")


def contraction_curve(name: str, seed: int, trials: int) -> dict[str, object]:
    """One contraction searched with TPE."""
    count, c = GPT2[name]
    space, roof = matmul_space(c, DESKTOP), c.flops / FLOPS
    times = sweep(space, lambda config: roof / share_of_roof(c, config), "tpe", seed, trials)
    return curve(name, count, roof, times)


def row_curve(name: str, seed: int) -> dict[str, object]:
    """One row-wise operation, searched until its small space is exhausted."""
    count, elements, size = ROWS[name]
    rng = random.Random(f"{name} {seed}")
    times = [12 * elements / 60e9 * math.exp(abs(rng.gauss(0, 0.6))) for _ in range(size)]
    return curve(name, count, 0.0, times)


def curve(name: str, count: int, roof: float, times: list[float]) -> dict[str, object]:
    """What is recorded of a task: ``improved`` lists the trial's number and its seconds."""
    improved = [[i, float(f"{t:.4g}")] for i, t in enumerate(times) if t < min(times[:i], default=math.inf)]
    return {"task": name, "count": count, "roof": float(f"{roof:.4g}"), "trials": len(times), "improved": improved}


if __name__ == "__main__":
    typer.run(curves)
