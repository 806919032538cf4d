"""ONNX Runtime as a second oracle: it runs the user's own file, not the rewritten model.

The reference computes the model after the importer's rewrites (domains, functions, opset versions), so that it cannot
detect errors in them. ONNX Runtime reads the file itself.
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
SECONDS = 60  # time limit, after which the second oracle is skipped
MOST_BYTES = 1 << 30  # maximum bytes of weights, because ONNX Runtime holds another copy of them
RANDOM = ("Random", "Multinomial", "Bernoulli", "Dropout")  # name prefixes of random ops


def run_file(path: Path, inputs: Sequence[Mapping[str, Array]]) -> list[list[Array]] | None:
    """Run a model's file on each set of inputs; return `None` if ONNX Runtime is missing or cannot run it.

    It runs in a forked process, so that a crash or a timeout after `SECONDS` does not fail the import.
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
    """Compute a model's file and send the results through the pipe, or `None`."""
    signal.alarm(SECONDS)
    try:
        session = open_session(str(path))
        results = [session.run(None, dict(arrays)) for arrays in inputs]
    except Exception:  # an op or a dtype is not supported, or the file is rejected
        results = None
    tensors = results is not None and all(isinstance(array, np.ndarray) for outputs in results for array in outputs)
    sender.send(results if tensors else None)


def ask_runtime(
    path: Path,
    model: "ModelProto",
    weights: Mapping[str, Array],
    inputs: Sequence[Mapping[str, Array]],
    recorded: tuple[list[list[Array]], str],
) -> tuple[list[list[Array]], str]:
    """Compare the reference's results with ONNX Runtime's; return the latter if the reference has none.

    Args:
        path: The user's own file.
        model: Rewritten model that the reference computed.
        weights: Weights of the model, by name.
        inputs: Inputs of every call, by name.
        recorded: Results of every call and the name of the oracle; empty if the reference cannot compute the model.

    Returns:
        Results and the name of the oracle, to record.

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
    """Return whether a model rounds intermediate values: to 8 bits, or to the 16 bits of its arrays."""
    quantised = any("Quantize" in node.op_type or node.op_type == "Round" for node in every_node(model.graph))
    return quantised or any(array.dtype.name in ("float16", "bfloat16") for array in arrays)
