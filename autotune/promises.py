"""What the self-test is made of: how much to do, what a figure is, and a small search."""

from dataclasses import asdict, dataclass
from typing import Any

from autotune.ir.evaluate import Evaluation, Job, evaluate
from autotune.ir.partition import partition
from autotune.machine import Machine
from autotune.registry import family_for
from autotune.store import Store
from autotune.task import Argument, Payload, Task
from autotune.task_search import TaskSearch

SIZES = (96, 80, 64)  # of the product that sweeps are over: m, n, k


@dataclass(frozen=True)
class Amounts:
    """How much to do: `trials` each with and without isolation, and so on."""

    crashes: int = 1000
    trials: int = 60
    pairs: int = 100
    kills: int = 100
    sweeps: int = 20


@dataclass(frozen=True)
class Figure:
    """One promise: what was measured, and what it must be.

    Attributes:
        name: What it is.
        value: As measured.
        law: What it must be, in words.
        holds: Whether it is.
        detail: How it came about.
    """

    name: str
    value: float
    law: str
    holds: bool
    detail: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def product_task() -> Task:
    """A small matrix product, as a task."""
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
    return partition(Payload("selftest", text, "product", arguments, flops=2.0 * m * n * k, reduction=k)).tasks[0]


def open_search(store: Store, task: Task, machine: Machine, seed: int) -> TaskSearch:
    """A search of the task."""
    family = family_for(task)
    assert family is not None  # some family covers a matrix product
    return TaskSearch.open(task, family, machine, store, payload=f"selftest-{seed}", sampler="random", seed=seed)


class Direct:
    """Evaluates in this very process: what isolation is compared with."""

    seconds = 60.0

    def evaluate(self, job: Job, seconds: float | None = None) -> list[Evaluation]:
        """As `Worker.evaluate`, without its protection."""
        return evaluate(job)
