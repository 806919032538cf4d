"""What a call from Python costs beyond the program it calls, in docs/results.md: `measure`, then `render`.

Every way to call computes the same from the same arrays: the sum of some arrays of 4x8, or four rows of a held table of
32 MiB. They take turns; beyond the program is what a call takes more than a round in the same program's loop over
calls, on the same turn. Needs the extra `results`, for ONNX Runtime.
"""

import ctypes
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from timeit import timeit
from typing import Any

import numpy as np
import typer
from blocks import Block, keep, read, table

import autotune as at
import autotune.tensor as T  # noqa: N812 - as everybody writes it
from autotune.bundles.call import compile_candidate
from autotune.core.console import duration
from autotune.core.host.machine import this_machine
from autotune.core.payload import DTYPES
from autotune.tuning.candidates import default_candidate
from autotune.worker.loading.importing import import_model
from autotune.worker.loading.reading import partition

Array = np.ndarray[Any, np.dtype[Any]]
Call = Callable[[], object]
CALLS, ROUNDS = 300, 61
RNG = np.random.default_rng(0)
TABLE = RNG.standard_normal((1 << 16, 128), dtype=np.float32)
BEYOND = ("compile", "bundle", "session", "tensor")  # of these, the program is taken off
NAMES = {
    "compile": "`at.compile`",
    "bundle": "`Bundle`",
    "session": "`Session`",
    "tensor": "`autotune.tensor`",
    "ctypes": "a function of C by ctypes",
    "onnxruntime": "ONNX Runtime, with its kernel",
}


def model(operator: str, names: list[str], given: list[Array], held: dict[str, Array]) -> bytes:
    """An ONNX model of one operator on inputs x0, x1, .. and weights by name, with output y; serialized."""
    from onnx import TensorProto, helper, numpy_helper

    inputs = [
        helper.make_tensor_value_info(f"x{n}", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in enumerate(given)
    ]
    weights = [numpy_helper.from_array(array, name) for name, array in held.items()]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node(operator, names, ["y"])
    graph = helper.make_graph([node], "calls", inputs, [output], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    serialized: bytes = model.SerializeToString()
    return serialized


def total(*arrays: T.Tensor) -> T.Tensor:
    """The sum of all."""
    return sum(arrays[1:], start=arrays[0])


def some_rows(indices: T.Tensor) -> T.Tensor:
    """Rows of the table."""
    return T.take(T.asarray(TABLE), indices, axis=0)


def summed(count: int) -> tuple[bytes, Callable[..., T.Tensor], list[Array]]:
    """The sum of some arrays, as a model, as a function of tensors, and arrays to call it with."""
    given = [RNG.standard_normal((4, 8), dtype=np.float32) for _ in range(count)]
    return model("Sum", [f"x{n}" for n in range(count)], given, {}), total, given


def gathered() -> tuple[bytes, Callable[..., T.Tensor], list[Array]]:
    """Rows of a table that is held."""
    given: list[Array] = [np.array([3, 60000, 512, 7])]
    return model("Gather", ["table", "x0"], given, {"table": TABLE}), some_rows, given


CASES = {
    "1": ("1 array", partial(summed, 1)),
    "3": ("3 arrays", partial(summed, 3)),
    "10": ("10 arrays", partial(summed, 10)),
    "held": ("4 row numbers, 32 MiB held", gathered),
}


def entries(model: bytes, function: Callable[..., T.Tensor], given: list[Array]) -> dict[str, Call]:
    """Every way to compute a model from some arrays, by name."""
    import onnxruntime

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "model.onnx").write_bytes(model)
        import_model(str(folder / "model.onnx"), folder / "model")
        payload = at.payload(str(folder / "model"))
        at.tune(payload, trials=1, bundle=folder / "bundle", store=folder / "store.journal")
        bundle, compiled, loaded = at.Bundle.read(folder / "bundle"), at.compile(payload), at.Session().load(payload)
        bundle(*given)  # which reads the weights
        inputs = payload.make_inputs(0)
    names = [argument.name for argument in payload.arguments if argument.role == "input"]
    by_name = dict(zip(names, given, strict=True))
    arrays = {**inputs, **by_name}
    outputs = {a.name: np.empty(a.shape, DTYPES[a.dtype]) for a in payload.outputs}
    program = compile_candidate(payload, default_candidate(partition(payload), this_machine()))
    bound = program.bind([arrays.get(a.name, outputs.get(a.name)) for a in payload.arguments])
    nothing = ctypes.CDLL(None).labs
    nothing.argtypes, nothing.restype = [ctypes.c_long], ctypes.c_long
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    runtime = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    ways: dict[str, Call] = {
        "compile": partial(compiled, *given),
        "bundle": partial(bundle, *given),
        "session": partial(loaded, **by_name),
        "tensor": partial(T.compile(function), *given),
        "onnxruntime": partial(runtime.run, None, {f"x{n}": array for n, array in enumerate(given)}),
    }
    check(ways)
    return {**ways, "ctypes": partial(nothing, 1), "program": partial(bound.run, CALLS)}


def check(ways: Mapping[str, Call]) -> None:
    """Compare what all ways to call give.

    Raises:
        AssertionError: Two ways give different results.
    """
    found = {name: call() for name, call in ways.items()}
    results = {name: result[0] if isinstance(result, (list, tuple)) else result for name, result in found.items()}
    for result in results.values():
        np.testing.assert_allclose(result, results["onnxruntime"], rtol=1e-5, atol=1e-5)


def measure() -> None:
    """Time every way to call in turns."""
    for short, (name, case) in CASES.items():
        ways = entries(*case())
        seconds: dict[str, list[float]] = {each: [] for each in ways}
        for _ in range(ROUNDS):
            for each, call in ways.items():
                rounds = 1 if each == "program" else CALLS  # it calls itself so often
                seconds[each].append(timeit(call, number=rounds) / CALLS)
        versions = {each: version(each) for each in ("numpy", "onnxruntime")}
        keep(
            "calls", short, {"case": name, "machine": asdict(this_machine()), "versions": versions, "seconds": seconds}
        )
        typer.echo(row(name, seconds))


def part(path: Path) -> str:
    """A machine's table."""
    found = [read(path, name) for name in CASES]
    rows = [row(each["case"], each["seconds"]) for each in found if each]
    heads = ("a call with", "the program", *NAMES.values())
    return f"\nIn `results/{path.parent.name}`, medians:\n\n" + table(heads, rows)


def row(name: str, seconds: Mapping[str, list[float]]) -> str:
    """One line of the table."""
    program = seconds["program"]
    cells = [duration(median(program))]
    for each in NAMES:
        taken = [a - b for a, b in zip(seconds[each], program, strict=True)] if each in BEYOND else seconds[each]
        cells.append(duration(median(taken)))
    return f"| {' | '.join((name, *cells))} |"


BLOCK = Block("calls", part, measure)


if __name__ == "__main__":
    BLOCK.serve()
