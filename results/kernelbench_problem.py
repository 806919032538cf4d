"""One public problem of KernelBench, in a process of its own: shrunk, exported, imported, checked, timed.

The rule that shrinks a problem, whatever its name: the whole numbers of 32 and more that are assigned at the top level
of the file are halved, the largest first, until a call takes at most 1 GFLOP (products and convolutions, as PyTorch
counts them) and inputs, weights and outputs at most 64 MB. A number that cannot be halved alone, as the model then no
longer runs, is halved together with those equal to it; a number that cannot be halved so either stays.
"""

import ast
import copy
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import CodeType
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

import autotune as at
from autotune.bundles.call import compile_candidate
from autotune.core.errors import AutotuneError
from autotune.core.host.machine import this_machine
from autotune.core.host.pages import aligned_empty
from autotune.core.payload import Array, Payload
from autotune.tuning.candidates import default_candidate
from autotune.worker.bench.verify import allowed_error
from autotune.worker.loading.importing import import_model
from autotune.worker.loading.reading import partition

MOST_FLOPS, MOST_BYTES, LEAST = 1e9, 64e6, 32
SEED = 42
STRANGE: dict[str, tuple[float, ...]] = {
    "NaN": (np.nan,),
    "+inf": (np.inf,),
    "-inf": (-np.inf,),
    "all three": (np.nan, np.inf, -np.inf),
}
EACH = 2  # elements of an input that become each of them
AS_PYTORCH = 4.0  # times the largest error of PyTorch's own float32 is right too
SMALL = 1e-3  # largest value below which a share of it says nothing: what adds up to nothing is only rounding
CANCELLED = 1e-6  # absolute error that is right: of numbers near 1 that add up to nothing, no larger one is left
ROUNDS, ROUND_SECONDS = 15, 0.01
Values = list[Any]


@dataclass(frozen=True)
class Problem:
    """A problem at some size.

    Attributes:
        model: The network, in eval mode.
        inputs: What it is called with: tensors and numbers.
    """

    model: torch.nn.Module
    inputs: Values


@dataclass(frozen=True)
class Cost:
    """What a call takes: operations of its products and convolutions, bytes of inputs, weights and outputs."""

    flops: float
    bytes: float

    @property
    def excess(self) -> float:
        """How many times the bounds it is; at most 1 where it is small enough."""
        return max(self.flops / MOST_FLOPS, self.bytes / MOST_BYTES)


class Sizes(ast.NodeTransformer):
    """The sizes of a problem's file: its numbers, which can be written into it again.

    Attributes:
        numbers: Whole numbers of at least `LEAST` in assignments at the top level, in their order.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.numbers: list[int] = []
        self._written: Iterator[int] | None = None
        self._assignments(tree)

    def write(self, tree: ast.Module, numbers: Sequence[int]) -> CodeType:
        """Code of the file with other numbers."""
        self._written = iter(numbers)
        return compile(ast.fix_missing_locations(self._assignments(copy.deepcopy(tree))), "problem", "exec")

    def _assignments(self, tree: ast.Module) -> ast.Module:
        for statement in tree.body:
            if isinstance(statement, ast.Assign):
                statement.value = self.visit(statement.value)
        return tree

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """A product of numbers is one number."""
        if any(isinstance(part, ast.Name | ast.Call) for part in ast.walk(node)):
            return self.generic_visit(node)
        value = eval(compile(ast.Expression(node), "problem", "eval"), {})
        return self.visit(ast.Constant(value))

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """A number is a size where it is whole and large."""
        if type(node.value) is not int or node.value < LEAST:
            return node
        if self._written is not None:
            return ast.Constant(next(self._written))
        self.numbers.append(node.value)
        return node


def build(code: CodeType) -> Problem:
    """A problem of its file's code, with the same weights and inputs each time."""
    names: dict[str, Any] = {"__name__": "problem"}
    exec(code, names)
    torch.manual_seed(SEED)
    return Problem(names["Model"](*names["get_init_inputs"]()).eval(), list(names["get_inputs"]()))


def cost_of(code: CodeType) -> Cost | None:
    """What a call takes, found without computing; `None` where it does not run."""
    try:
        with FakeTensorMode(), torch.no_grad(), FlopCounterMode(display=False) as counter:
            problem = build(code)
            outputs = problem.model(*problem.inputs)
    except Exception:  # a size that the model does not take raises whatever it raises
        return None
    held = [*problem.inputs, *problem.model.parameters(), *problem.model.buffers(), *flat(outputs)]
    if any(tensor.numel() == 0 for tensor in held if isinstance(tensor, torch.Tensor)):
        return None
    size = sum(tensor.numel() * tensor.element_size() for tensor in held if isinstance(tensor, torch.Tensor))
    return Cost(float(counter.get_total_flops()), float(size))


def flat(outputs: Any) -> Values:  # noqa: ANN401 - what a model gives
    """Results of a call."""
    return list(outputs) if isinstance(outputs, tuple | list) else [outputs]


def shrink(text: str) -> tuple[CodeType, dict[str, Any]]:
    """Code of a file at a size that is small enough, by the rule above, and what was changed."""
    tree = ast.parse(text)
    sizes = Sizes(tree)
    numbers = list(sizes.numbers)
    cost, fixed = cost_of(sizes.write(tree, numbers)), set[int]()
    while cost is None or cost.excess > 1:
        free = [i for i, number in enumerate(numbers) if number >= LEAST and i not in fixed]
        if not free:
            break
        largest = max(free, key=lambda i: numbers[i])
        equal = [i for i in free if numbers[i] == numbers[largest]]
        for chosen in ([largest], equal):
            smaller = [number // 2 if i in chosen else number for i, number in enumerate(numbers)]
            if (found := cost_of(sizes.write(tree, smaller))) is not None:
                numbers, cost = smaller, found
                break
        else:
            fixed.add(largest)
    facts = {"sizes": [[a, b] for a, b in zip(sizes.numbers, numbers, strict=True)]}
    return sizes.write(tree, numbers), {**facts, **({"flops": cost.flops, "bytes": cost.bytes} if cost else {})}


def kind_of(program: torch.export.ExportedProgram) -> str:
    """What a problem is about, by the ops of its program: the first of these that it has."""
    found, transposed, dimensions = set[str](), False, 0
    for node in program.graph.nodes:
        if node.op == "call_function":
            name = getattr(node.target, "__name__", "").partition(".")[0]
            found.add(name)
            if name.startswith("conv"):
                transposed = transposed or "transpose" in name
                dimensions = max(dimensions, len(node.args[1].meta["val"].shape) - 2)
    if dimensions:
        return f"{'transposed convolution' if transposed else 'convolution'}, {dimensions}-D"
    for kind, parts in KINDS.items():
        if any(part in name for name in found for part in parts):
            return kind
    return "elements"


KINDS = {
    "attention": ("scaled_dot_product",),
    "product": ("matmul", "linear", "bmm", "mm", "einsum", "mul_sum"),
    "pool": ("pool",),
    "scan": ("cumsum", "cumprod", "logcumsumexp"),
    "loss": ("loss", "cross_entropy", "kl_div"),
    "norm": ("norm", "layer_norm", "batch_norm"),
    "softmax": ("softmax",),
    "reduction": ("sum", "mean", "amax", "amin", "argmax", "argmin", "max", "min", "prod"),
}


def computed(problem: Problem, inputs: Values, *, exact: bool) -> list[Array]:
    """What PyTorch gives, eager; in float64 where it is to be exact."""
    model = copy.deepcopy(problem.model).double() if exact else problem.model
    fed = [x.double() if exact and isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in inputs]
    with torch.inference_mode():
        return [np.asarray(each.detach()) for each in flat(model(*fed))]


def sprinkled(inputs: Values, values: Sequence[float]) -> Values:
    """Inputs with some elements of each tensor of real numbers replaced."""
    rng, changed = np.random.default_rng(SEED), []
    for each in inputs:
        changed.append(each)
        if isinstance(each, torch.Tensor) and each.is_floating_point() and each.dim():
            count = min(EACH * len(values), each.numel())
            indices = rng.choice(each.numel(), count, replace=False)
            changed[-1] = each.clone(memory_format=torch.contiguous_format)
            changed[-1].view(-1)[torch.from_numpy(indices)] = torch.tensor(np.resize(values, count), dtype=each.dtype)
    return changed


def as_arguments(inputs: Values) -> list[Any]:
    """Inputs as a caller from Python has them; numbers are constants of an exported program."""
    return [each.numpy() for each in inputs if isinstance(each, torch.Tensor)]


def differences(payload: Payload, got: Sequence[Array], exact: Sequence[Array], single: Sequence[Array]) -> str:
    """How results differ; empty where they do not.

    NaN and infinities must be where float64 has them, or where PyTorch's own float32 has them; the others must be
    within the tolerance of float64, or of float32 where that alone is finite.
    """
    for argument, mine, theirs, also in zip(payload.outputs, got, exact, single, strict=True):
        if mine.shape != theirs.shape:
            return f"{argument.name} has shape {mine.shape}, should have {theirs.shape}"
        if theirs.dtype.kind in "iub":
            if (wrong := int(np.count_nonzero(mine != theirs))) and not np.array_equal(mine, also):
                return f"{wrong} of {mine.size} elements of {argument.name} are wrong"
            continue
        finite = np.isfinite(theirs)
        magnitude = float(np.max(np.abs(theirs[finite]), initial=0.0))
        own = np.abs(also.astype(np.float64) - theirs)
        theirs_off = AS_PYTORCH * float(np.max(own[np.isfinite(own)], initial=0.0))
        allowed = max(allowed_error(payload, argument.dtype, magnitude), theirs_off, CANCELLED)
        right = close(mine, theirs, allowed) | close(mine, also, allowed)
        if not right.all():
            where = tuple(int(i) for i in np.argwhere(~right)[0])
            return (
                f"{argument.name}{list(where)} is {mine[where]:.9g}, should be {theirs[where]:.9g}; "
                f"{int(np.count_nonzero(~right))} of {mine.size} elements"
            )
    return ""


def close(mine: Array, theirs: Array, allowed: float) -> Array:
    """Elements that are the same: both NaN, the same infinity, or finite and near."""
    with np.errstate(invalid="ignore"):
        near = np.abs(mine.astype(np.float64) - theirs) <= allowed
    return np.asarray((np.isnan(mine) & np.isnan(theirs)) | (mine == theirs) | near)


def worst_error(got: Sequence[Array], exact: Sequence[Array]) -> float:
    """Largest error of the real numbers of finite results, as a share of the largest value."""
    errors = [
        float(np.max(np.abs(mine - theirs), initial=0.0) / max(float(np.max(np.abs(theirs), initial=0.0)), SMALL))
        for mine, theirs in zip(got, exact, strict=True)
        if theirs.dtype.kind == "f"
    ]
    return max(errors, default=0.0)


def called(function: Callable[..., Any], arguments: Sequence[Any]) -> list[Array]:
    """What our program gives, called from Python."""
    found = function(*arguments)
    return list(found.values()) if isinstance(found, Mapping) else [found]


def check(problem: Problem, payload: Payload, function: Callable[..., Any]) -> dict[str, Any]:
    """The outcome of a problem: results on its own inputs, then with NaN and infinities among them."""
    facts: dict[str, Any] = {"outcome": "right"}
    cases = {"finite": problem.inputs} | {name: sprinkled(problem.inputs, v) for name, v in STRANGE.items()}
    for name, inputs in cases.items():
        got = called(function, as_arguments(inputs))
        exact, single = (computed(problem, inputs, exact=exact) for exact in (True, False))
        if name == "finite":
            facts["error"] = worst_error(got, exact)
        if why := differences(payload, got, exact, single):
            facts.setdefault("wrong", {})[name] = why
            facts["outcome"] = "wrong"
    return facts


def measure_times(problem: Problem, payload: Payload, function: Callable[..., Any]) -> dict[str, Any]:
    """Seconds of a call by each way in turn, on one core, round by round."""
    arguments = as_arguments(problem.inputs)
    compiled = torch.compile(problem.model)
    ways: dict[str, Callable[[], Any]] = {
        "program": program_alone(payload, arguments),
        "called": lambda: function(*arguments),
        "eager": lambda: problem.model(*problem.inputs),
        "compiled": lambda: compiled(*problem.inputs),
    }
    with torch.inference_mode():
        for way in ways.values():
            way()  # compiles itself, takes memory
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        calls = {name: max(1, int(ROUND_SECONDS / seconds_of(way, 2))) for name, way in ways.items()}
        rounds = {name: list[float]() for name in ways}
        for _ in range(ROUNDS):
            for name, way in ways.items():
                rounds[name].append(seconds_of(way, calls[name]))
    return {"seconds": {name: median(each) for name, each in rounds.items()}, "rounds": rounds}


def seconds_of(way: Callable[[], Any], calls: int) -> float:
    """Seconds of a call, of so many in a row."""
    begun = time.perf_counter()
    for _ in range(calls):
        way()
    return (time.perf_counter() - begun) / calls


def program_alone(payload: Payload, arguments: Sequence[Any]) -> Callable[..., None]:
    """The compiled code of a payload on arrays of its own; called with a number, it runs so often."""
    machine = this_machine()
    program = compile_candidate(payload, default_candidate(partition(payload), machine))
    values = dict(payload.make_inputs(0))
    values |= dict(zip((a.name for a in payload.arguments if a.role == "input"), arguments, strict=True))
    arrays = {a.name: aligned_empty(a, machine.pages) for a in payload.arguments}
    for argument in payload.arguments:
        if argument.name in values:
            arrays[argument.name][...] = values[argument.name]
    panels = [weight.pack(arrays[payload.arguments[weight.source].name]) for weight in program.weights]
    return program.bind([*arrays.values(), *panels]).run


def run_problem(path: Path, *, times: bool) -> dict[str, Any]:
    """Everything that is recorded of a problem but its name."""
    torch.set_num_threads(1)
    code, facts = shrink(path.read_text())
    problem = build(code)
    with tempfile.TemporaryDirectory() as folder:
        with torch.no_grad():
            exported = torch.export.export(problem.model, tuple(problem.inputs))
        facts["kind"] = kind_of(exported)
        torch.export.save(exported, Path(folder) / "model.pt2")
        begun = time.perf_counter()
        try:
            import_model(str(Path(folder) / "model.pt2"), Path(folder) / "model")
            facts["import_seconds"], begun = time.perf_counter() - begun, time.perf_counter()
            payload = at.payload(str(Path(folder) / "model"))
            function = at.compile(payload)
            facts["compile_seconds"] = time.perf_counter() - begun
            facts |= check(problem, payload, function)
        except AutotuneError as error:
            return {**facts, "outcome": "refused", "why": str(error).replace(f"{folder}/", "")}
        if times and facts["outcome"] == "right":
            facts["times"] = measure_times(problem, payload, function)
    return facts


def record(path: Path, target: Path, times: bool) -> None:
    """Run a problem in a new process group, and write what was found; what is printed goes beside it."""
    os.setsid()
    with target.with_suffix(".txt").open("w") as output:
        os.dup2(output.fileno(), sys.stdout.fileno())
        os.dup2(output.fileno(), sys.stderr.fileno())
    os.environ |= {"TMPDIR": str(target.parent), "TORCHINDUCTOR_CACHE_DIR": str(target.parent), "OMP_NUM_THREADS": "1"}
    tempfile.tempdir = None  # read the environment again
    found = run_problem(path, times=times)
    part = target.with_suffix(".part")
    part.write_text(json.dumps(found, indent=1) + "\n")
    part.rename(target)
