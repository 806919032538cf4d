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
        """Return the version of NumPy, and its BLAS with the core it was dispatched for."""
        return f"numpy {version('numpy')}, {describe_blas()}"

    def prepare(self, payload: Payload, inputs: Mapping[str, Array]) -> Prepared:
        """Bind the ops of the payload's graph to their NumPy functions and arrays.

        Raises:
            ComparatorError: The payload has no graph, or its graph has an unknown op.
        """
        folded = fold_constants(payload, inputs, fixed_of(payload), RULES, self.name)
        states = {a.name: inputs[a.name].copy() for a in payload.arguments if a.role == "state"}
        arrays = {**inputs, **folded.constants, **states}
        read = {name for node in folded.nodes for name in node.inputs}
        operands = {name: array for name, array in arrays.items() if name in read}
        results = [argument.name for argument in payload.outputs]
        ops = bind(folded.nodes, results)
        if len(ops) == 1 and len(results) == 1:  # interpreting a graph of one op costs 0.8 us
            return Prepared(partial(ops[0].rule, *(operands[name] for name in ops[0].inputs)), lambda output: (output,))
        return Prepared(partial(run, ops, operands, results), tuple)


NUMPY = NumPy()


@dataclass(frozen=True)
class BoundOp:
    """An op of a call with its NumPy function.

    Attributes:
        rule: Function that returns the output, or a sequence of several.
        inputs: Names of the inputs.
        outputs: Names of the outputs.
        dead: Names of values whose last use is this op; their memory is freed for the next ops.
    """

    rule: Callable[..., Array]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    dead: tuple[str, ...]


def bind(nodes: Graph, results: list[str]) -> list[BoundOp]:
    """Return the ops of a call in program order, each with the values whose live range it ends."""
    live = {name for node in nodes for name, _ in node.outputs} - set(results)
    ops: list[BoundOp] = []
    for node in reversed(nodes):
        outputs = tuple(name for name, _ in node.outputs)
        dead = tuple(sorted(live & {*node.inputs, *outputs}))
        live -= set(dead)
        ops.append(BoundOp(partial(RULES[node.op], node), node.inputs, outputs, dead))
    return ops[::-1]


def run(ops: list[BoundOp], inputs: Mapping[str, Array], results: list[str]) -> list[Array]:
    """Run one call."""
    values = dict(inputs)
    for op in ops:
        result = op.rule(*[values[name] for name in op.inputs])
        if len(op.outputs) == 1:
            values[op.outputs[0]] = result
        else:
            values.update(zip(op.outputs, result, strict=True))
        for name in op.dead:
            del values[name]
    return [values[name] for name in results]


def describe_blas() -> str:
    """Describe the loaded BLAS and its core, by threadpoolctl; without it, the BLAS NumPy was built with."""
    try:
        from threadpoolctl import threadpool_info  # noqa: PLC0415 - comes with an extra
    except ImportError:
        blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return f"{blas['name']} {blas['version']}, core unknown (install threadpoolctl)"
    loaded = [library for library in threadpool_info() if library["user_api"] == "blas"]
    libs = sorted(loaded, key=lambda library: "numpy" not in library["filepath"])  # SciPy brings another one
    if not libs:
        return "BLAS unknown"
    return f"{libs[0]['internal_api']} {libs[0]['version']} for {libs[0].get('architecture', 'an unknown core')}"
