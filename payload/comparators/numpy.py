"""NumPy as a comparator."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version

import numpy as np

from autotune.core.ops.graph import Graph
from autotune.core.payload import Array, Payload
from autotune.core.plugs.comparator import Prepared
from payload.comparators.constants import fixed_of, fold_constants
from payload.comparators.numpy_ops import RULES


@dataclass(frozen=True)
class NumPy:
    """NumPy, as the comparator ``numpy``."""

    name: str = "numpy"
    modules: tuple[str, ...] = ("numpy",)
    extra: str = "compare"

    def version(self) -> str:
        """Version of NumPy and of its BLAS, and the core that the BLAS took this machine for."""
        return f"numpy {version('numpy')}, {describe_blas()}"

    def prepare(self, payload: Payload, inputs: Mapping[str, Array]) -> Prepared:
        """Bind the ops of the payload's graph to what they compute with.

        Raises:
            ComparatorError: The payload has no graph, or one with an op that is unknown here.
        """
        folded = fold_constants(payload, inputs, fixed_of(payload), RULES, self.name)
        states = {a.name: inputs[a.name].copy() for a in payload.arguments if a.role == "state"}
        found = {**inputs, **folded.constants, **states}
        read = {name for node in folded.nodes for name in node.inputs}
        given = {name: array for name, array in found.items() if name in read}
        results = [argument.name for argument in payload.outputs]
        ops = bind(folded.nodes, results)
        if len(ops) == 1 and len(results) == 1:  # walking a graph of one op takes 0.8 us
            return Prepared(partial(ops[0].rule, *(given[name] for name in ops[0].inputs)), lambda output: (output,))
        return Prepared(partial(run, ops, given, results), tuple)


NUMPY = NumPy()


@dataclass(frozen=True)
class BoundOp:
    """One op of a call.

    Attributes:
        rule: Gives its outputs; one alone, or a sequence.
        inputs: Names of what it reads.
        outputs: Names of what it gives.
        dead: Names of values that are unused after it: its memory is for the next op.
    """

    rule: Callable[..., Array]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    dead: tuple[str, ...]


def bind(nodes: Graph, results: list[str]) -> list[BoundOp]:
    """The ops of a call, in order, each with what it ends the life of."""
    made = {name for node in nodes for name, _ in node.outputs} - set(results)
    ops: list[BoundOp] = []
    for node in reversed(nodes):
        outputs = tuple(name for name, _ in node.outputs)
        dead = tuple(sorted(made & {*node.inputs, *outputs}))
        made -= set(dead)
        ops.append(BoundOp(partial(RULES[node.op], node), node.inputs, outputs, dead))
    return ops[::-1]


def run(ops: list[BoundOp], given: Mapping[str, Array], results: list[str]) -> list[Array]:
    """One call."""
    values = dict(given)
    for op in ops:
        found = op.rule(*[values[name] for name in op.inputs])
        if len(op.outputs) == 1:
            values[op.outputs[0]] = found
        else:
            values.update(zip(op.outputs, found, strict=True))
        for name in op.dead:
            del values[name]
    return [values[name] for name in results]


def describe_blas() -> str:
    """The BLAS that NumPy loaded and its core, by threadpoolctl; the one it was built with, where that is missing."""
    try:
        from threadpoolctl import threadpool_info  # noqa: PLC0415 - comes with an extra
    except ImportError:
        blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return f"{blas['name']} {blas['version']}, core unknown (install threadpoolctl)"
    loaded = [found for found in threadpool_info() if found["user_api"] == "blas"]
    mine = sorted(loaded, key=lambda found: "numpy" not in found["filepath"])  # SciPy brings another one
    if not mine:
        return "BLAS unknown"
    return f"{mine[0]['internal_api']} {mine[0]['version']} for {mine[0].get('architecture', 'an unknown core')}"
