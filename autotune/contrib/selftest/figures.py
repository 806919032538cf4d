"""Parts of the self-test: numbers of repetitions, the guarantees and their evaluation, and a small search."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from autotune.core.errors import ScheduleError
from autotune.core.evaluator import Evaluation, Job
from autotune.core.host.machine import Machine
from autotune.core.payload import Argument, Payload
from autotune.core.stats import is_different, ratio_interval, share_interval
from autotune.core.task import Task
from autotune.core.trial import Samples
from autotune.registry import family_for
from autotune.store.store import Store
from autotune.tuning.stages.task_search import SearchSetting, TaskSearch
from autotune.worker.bench.evaluate import evaluate
from autotune.worker.bench.noise import NoisePair, floor_of
from autotune.worker.loading.reading import partition

BLOCK = 10  # trials per block; blocks with and without isolation are compared
SIZES = (96, 80, 64)  # m, n, k of the matrix product that is tuned


@dataclass(frozen=True)
class Amounts:
    """Number of repetitions of each check.

    Attributes:
        crashes: Number of crashes of the isolated process.
        trials: Number of trials, each with and without isolation.
        kills: Number of kills of a tuner.
        pairs: Number of pairs of unequal programs; there are twice as many of equal ones.
        sweeps: Number of sweeps whose winners are measured again.
        sweep_trials: Number of trials of each sweep.
        checks: Number of checks of `regress`, each of a program unchanged, 5 % and 10 % slower.
    """

    crashes: int = 1000
    trials: int = 100
    kills: int = 100
    pairs: int = 100
    sweeps: int = 20
    sweep_trials: int = 20
    checks: int = 20


FULL = Amounts()
QUICK = Amounts(crashes=50, trials=20, kills=10, pairs=5, sweeps=1, checks=1)


@dataclass(frozen=True)
class Figure:
    """Guarantee with its measured value and constraint.

    Attributes:
        name: Name of the guarantee.
        value: Measured value.
        law: Constraint on the value, in words.
        holds: Whether the value satisfies the constraint.
        detail: Details of the measurement.
    """

    name: str
    value: float
    law: str
    holds: bool
    detail: str = ""

    @property
    def shown(self) -> str:
        """Value as text: a share in per cent, a count or seconds as a number."""
        return f"{self.value:.1%}" if self.law.endswith("%") else f"{self.value:.3g}"


@dataclass(frozen=True)
class Report:
    """Report of a self-test.

    Attributes:
        machine: The host.
        load: Load average of the minute before the test.
        seconds: Wall-clock time of the self-test, in seconds.
        figures: Guarantees with their values.
        format_version: Format version of the file; version 1 was only the list of figures.
    """

    machine: Machine
    load: float
    seconds: float
    figures: tuple[Figure, ...]
    format_version: int = 2

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON-compatible dict."""
        return asdict(self)


def judge_isolation(isolated: Sequence[float], direct: Sequence[float]) -> Figure:
    """Evaluate the cost of isolation from blocks of the same trials; the whole 95 % interval must satisfy the bound."""
    rates = [60 * len(times) / sum(times) for times in (isolated, direct)]
    starts = range(0, len(direct), BLOCK)
    ours, theirs = ([sum(times[i : i + BLOCK]) for i in starts] for times in (isolated, direct))
    ratio = ratio_interval(theirs, ours)
    low, high = 1 - ratio.high, 1 - ratio.low
    detail = (
        f"95 % interval {low:.1%} to {high:.1%}; {rates[0]:.0f} trials a minute, {rates[1]:.0f} without isolation, "
    )
    detail += f"{len(direct)} each, in turn"
    return Figure("trials a minute lost to isolation", 1 - ratio.estimate, "at most 10 %", high <= 0.10, detail)


def judge_pairs(same: Sequence[NoisePair], unequal: Sequence[NoisePair]) -> list[Figure]:
    """Evaluate how often pairs are judged different; each half of the equal pairs uses the other half's noise floor."""
    halves = [[pair for i, pair in enumerate(same) if i // 2 % 2 == half] for half in (0, 1)]
    floors = [floor_of(half) for half in halves]
    wrong = sum(called(half, floor) for half, floor in zip(halves, reversed(floors), strict=True))
    detected = called(unequal, floor_of(same))
    detail = f"floors {' and '.join(f'{floor:.2%}' for floor in floors)}"
    return [
        share_figure("equal programs called different", wrong, len(same), "at most 1 %", detail),
        share_figure(
            "programs 5 % slower found out", detected, len(unequal), "at least 95 %", f"floor {floor_of(same):.2%}"
        ),
    ]


def called(pairs: Sequence[NoisePair], floor: float) -> int:
    """Return the number of pairs that are judged different."""
    return sum(is_different(pair.a, pair.b, floor=floor) for pair in pairs)


def share_figure(name: str, count: int, of: int, law: str, detail: str) -> Figure:
    """Return the figure of a share with a constraint such as ``at most 5 %`` or ``at least 95 %``."""
    share, bound = share_interval(count, of), float(law.split()[2]) / 100
    holds = share.estimate <= bound if law.startswith("at most") else share.estimate >= bound
    detail = f"{count} of {of}, 95 % interval {share.low:.1%} to {share.high:.1%}; {detail}"
    return Figure(name, share.estimate, law, holds, detail)


def product_task() -> Task:
    """Return a small matrix product as a task."""
    return partition(product_payload()).tasks[0]


def product_payload() -> Payload:
    """Return a small matrix product as a payload."""
    m, n, k = SIZES
    shapes = {"a": (m, k), "b": (k, n), "c": (m, n)}
    roles = {"a": "input", "b": "input", "c": "output"}
    arguments = tuple(Argument(name, roles[name], shape) for name, shape in shapes.items())
    types = {name: f"tensor<{shape[0]}x{shape[1]}xf32>" for name, shape in shapes.items()}
    reads = "\n".join(
        f"%{a.name} = bufferization.to_tensor %m{a.name} restrict : {a.type} to {types[a.name]}" for a in arguments[:2]
    )
    text = f"""
func.func @product({", ".join(f"%m{a.name}: {a.type}" for a in arguments)}) {{
  {reads}
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : {types["c"]}
  %init = linalg.fill ins(%zero : f32) outs(%empty : {types["c"]}) -> {types["c"]}
  %r = linalg.matmul ins(%a, %b : {types["a"]}, {types["b"]}) outs(%init : {types["c"]}) -> {types["c"]}
  bufferization.materialize_in_destination %r in restrict writable %mc : ({types["c"]}, {arguments[2].type}) -> ()
  return
}}"""
    return Payload("selftest", text, "product", arguments, flops=2.0 * m * n * k, reduction=k)


def open_search(store: Store, task: Task, machine: Machine, seed: int) -> TaskSearch:
    """Open a random search of a task."""
    family = family_for(task)
    if family is None:
        raise ScheduleError("some family must cover a matrix product, none does; install the families")
    return TaskSearch.open(task, family, SearchSetting(machine, store, f"selftest-{seed}", "random", seed))


class Direct:
    """Evaluator that runs in this process, for comparison with an isolated one."""

    def evaluate(self, job: Job) -> list[Evaluation]:
        """Evaluate a job as `Worker.evaluate` does, but without isolation."""
        return evaluate(job)


class Instant:
    """Evaluator that immediately reports success, so that a tuner spends all its time on recording."""

    def evaluate(self, job: Job) -> list[Evaluation]:
        """Return the same artificial times for every candidate."""
        return [Evaluation("ok", Samples((1e-3,) * 3), 0.0) for _ in job.candidates]
