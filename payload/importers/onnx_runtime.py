"""ONNX Runtime as a second oracle: it runs the user's own file, not what the importer made of it.

The reference computes the model as it was rewritten here (domains, functions, versions of operators), so that it cannot
tell of an error of that rewriting. ONNX Runtime reads the file itself.
"""

import multiprocessing
import signal
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from autotune.core.mismatch import LOOSE, TOLERANCE, mismatches
from autotune.core.payload import Array
from payload.importers.linalg import UnsupportedError
from payload.importers.onnx_domains import every_node
from payload.importers.onnx_oracle import open_session

if TYPE_CHECKING:
    from onnx import ModelProto

NAME = "onnxruntime"
SECONDS = 60  # after which a model has no second oracle
MOST_BYTES = 1 << 30  # of weights: larger models have none, as it holds them once more
RANDOM = ("Random", "Multinomial", "Bernoulli", "Dropout")  # what ops that may draw numbers begin with


def run_file(path: Path, inputs: Sequence[Mapping[str, Array]]) -> list[list[Array]] | None:
    """Results of a model's file, of each set of inputs; `None` where ONNX Runtime is missing or does not run it.

    It runs in a forked process: a model on which it crashes or takes longer than `SECONDS` is no error of the import.
    """
    if find_spec(NAME) is None:
        return None
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=send_results, args=(sender, path, inputs))
    process.start()
    sender.close()
    try:
        results: list[list[Array]] | None = receiver.recv()
    except EOFError:  # the process ended before it sent anything
        results = None
    process.join()
    return results


def send_results(sender: Connection, path: Path, inputs: Sequence[Mapping[str, Array]]) -> None:
    """Send the results of a model's file, or `None`."""
    signal.alarm(SECONDS)
    try:
        session = open_session(str(path))
        results = [session.run(None, dict(given)) for given in inputs]
    except Exception:  # it lacks an op or a dtype, or refuses the file
        results = None
    tensors = results is not None and all(isinstance(array, np.ndarray) for found in results for array in found)
    sender.send(results if tensors else None)


def ask_runtime(
    path: Path,
    model: "ModelProto",
    weights: Mapping[str, Array],
    inputs: Sequence[Mapping[str, Array]],
    recorded: tuple[list[list[Array]], str],
) -> tuple[list[list[Array]], str]:
    """Compare the reference's results with ONNX Runtime's of the file; take the latter where there are none.

    Args:
        path: The user's own file.
        model: The model, as the reference computed it.
        weights: Weights of the model, by name.
        inputs: The inputs of every call, by name.
        recorded: The results of every call and the name of what computed them; empty if nothing could.

    Returns:
        Results and the name of what computed them, to record.

    Raises:
        UnsupportedError: The results disagree.
    """
    results, oracle = recorded
    draws = any(node.op_type.startswith(RANDOM) for node in every_node(model.graph))
    if draws or sum(array.nbytes for array in weights.values()) > MOST_BYTES:
        return recorded
    theirs = run_file(path, inputs[:1] if oracle else inputs)
    if theirs is None:
        return recorded
    if not oracle:
        return theirs, NAME
    tolerance = LOOSE if is_rounded(model, [*weights.values(), *inputs[0].values(), *theirs[0]]) else TOLERANCE
    for output, ours, other in zip(model.graph.output, results[0], theirs[0], strict=True):
        for difference in mismatches(ours, other, tolerance):
            raise UnsupportedError(
                f"output {output.name} must be what ONNX Runtime computes of the file, it differs: {difference}; "
                "export the model by other ops"
            )
    return recorded


def is_rounded(model: "ModelProto", arrays: Sequence[Array]) -> bool:
    """Return whether a model rounds values on the way: to 8 bits, or to 16 as its arrays are."""
    quantised = any("Quantize" in node.op_type or node.op_type == "Round" for node in every_node(model.graph))
    return quantised or any(array.dtype.name in ("float16", "bfloat16") for array in arrays)
