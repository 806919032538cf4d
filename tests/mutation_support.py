"""Schedules drawn at random and broken at random, and a second, exact opinion on those that the tuner accepts."""

import random
import re

import numpy as np
from tuning_support import contraction_payload, product_of

from autotune.compiler.passes.pipelines import TAIL
from autotune.compiler.tasks.partition import partition
from autotune.core.candidate import Candidate
from autotune.core.host.pages import aligned_empty
from autotune.core.scripts.assembly import assemble, panels_of, write_step
from autotune.registry import families
from autotune.worker.bench.evaluate import build_and_verify
from autotune.worker.bench.testbench import open_testbench

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 17)
NUMBERS = (0, 1, 2, 3, 5, 8, -1, 64)


def draw_task(dice):
    """A contraction of a tiny, odd or prime size and any layout."""
    m, n, k = (dice.choice(SIZES) for _ in range(3))
    layout = {"a": dice.choice(("mk", "km")), "b": dice.choice(("kn", "nk"))}
    payload = contraction_payload(m, n, k, **layout, role_b=dice.choice(("input", "weight")))
    return partition(payload).tasks[0], layout


def draw_config(family, task, machine, dice):
    """A valid config, any there is."""
    space = family.space(task, machine)
    for _ in range(50):
        config = {knob.name: dice.choice(knob.values) for knob in space.knobs}
        if space.broken_constraint(config) is None:
            return config
    return family.default(task, machine)


def mutate(script, dice):
    """Break a script in one place: a line lost, doubled or moved, a number or a handle changed."""
    lines = script.splitlines()
    place = dice.randrange(1, len(lines) - 1)
    kind = dice.choice(("lose", "double", "swap", "number", "number", "number", "handle"))
    if kind == "lose":
        del lines[place]
    elif kind == "double":
        lines.insert(place, lines[place])
    elif kind == "swap":
        lines[place - 1], lines[place] = lines[place], lines[place - 1]
    elif kind == "number":
        places = [i for i, line in enumerate(lines) if re.search(r"\b\d+\b", line.partition("//")[0])]
        place = dice.choice(places)
        spans = list(re.finditer(r"\b\d+\b", lines[place]))
        span = dice.choice(spans)
        lines[place] = f"{lines[place][: span.start()]}{dice.choice(NUMBERS)}{lines[place][span.end() :]}"
    else:
        handles = sorted({handle for line in lines for handle in re.findall(r"%\w+", line)})
        used = re.findall(r"%\w+", lines[place])
        if used:
            lines[place] = lines[place].replace(dice.choice(used), dice.choice(handles), 1)
    return "\n".join(lines) + "\n"


def draw(seed, machine):
    """A task with its layout, and a schedule for it; two in three are broken."""
    dice = random.Random(seed)
    task, layout = draw_task(dice)
    family = dice.choice([family for family in families() if family.covers(task)])
    step = write_step(task, family, draw_config(family, task, machine, dice), machine, alone=True)
    script = assemble([step])
    if dice.random() < 2 / 3:
        script = mutate(script, dice)
    return task, layout, Candidate(script, TAIL, panels=panels_of([step]))


def judge(case):
    """The tuner's outcome for a case, and whether integers, of which every sum is exact, come out right.

    Runs in an isolated process.
    """
    seed, machine = case
    task, layout, candidate = draw(seed, machine)
    bound, found = build_and_verify(task.payload, candidate, open_testbench(task.payload, 0))
    if bound is None:
        return found.outcome, None, found.diagnostic
    got, expected = run_exactly(task.payload, bound.program, layout, np.random.default_rng(seed))
    return "ok", bool(np.array_equal(got, expected)), f"{task.tag}\n{candidate.script}"


def run_exactly(payload, program, layout, rng):
    """What a program makes of small integers, and what it should."""
    arrays = {a.name: aligned_empty(a, "huge") for a in payload.arguments}
    values = {a.name: arrays[a.name] for a in payload.arguments if a.role != "output"}
    for array in values.values():
        array[...] = rng.integers(-9, 10, array.shape)
    everything = list(arrays.values())
    program.bind([*everything, *(weight.pack(everything[weight.source]) for weight in program.weights)]).run()
    (got,) = (arrays[a.name] for a in payload.outputs)
    return got, product_of(payload, dict(zip("ab", values.values(), strict=True)), **layout)
