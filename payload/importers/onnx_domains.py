"""Ops of other domains than ONNX's own, and functions of a model: written as standard ops before anything reads it.

    com.microsoft::FusedMatMul(a, b, alpha=3)   ->   Mul(MatMul(a, b), 3)

What is left when this is done is of ONNX's own domain, so that an op's type says what it computes: reference, folding
and lowering need not look at domains. An op that nothing here defines is refused, by its domain and its node.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from payload.importers.linalg import UnsupportedError
from payload.importers.onnx_attributes import check_attributes
from payload.importers.onnx_blocks import HeldWeight
from payload.importers.onnx_contrib import CONTRIB
from payload.importers.onnx_nodes import KnownTensors, NodeWriter, facts_of
from payload.importers.onnx_origins import OWN, mark_origins, origins_of, qualified, take_origin, take_origins
from payload.importers.onnx_qlinear import LINEAR
from payload.importers.onnx_quantised_checks import check_node
from payload.importers.onnx_recurrent import RECURRENT
from payload.importers.onnx_resize import add_coordinate_mode
from payload.importers.onnx_sizes import fix_sizes
from payload.importers.onnx_softmax import ROWS
from payload.importers.onnx_transformers import rotary
from payload.importers.onnx_types import check_types, is_standard
from payload.importers.onnx_values import replace_all

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

    from autotune.core.payload import Array

OTHERWISE = {**LINEAR, **RECURRENT, **ROWS, "RotaryEmbedding": rotary}  # standard ops that are written as others
OLDEST = 15  # version of operators that torch-mlir lowers, and that the reference computes rightly
COORDINATE_MODE = 11  # version from which on Resize has coordinate_transformation_mode
MOST_NODES = 1 << 20  # of functions that are written out: each that calls another twice has twice as many
NEWEST = 20  # version of ONNX's operators where a model imports none of them


def use_standard_ops(
    model: "ModelProto", sizes: Mapping[str, int], weights: "dict[str, Array]"
) -> "dict[str, HeldWeight]":
    """Write a model in standard ops alone, in place; its sizes are fixed and its shapes inferred on the way.

    Args:
        model: The model.
        sizes: Sizes of dimensions that it leaves open, by name.
        weights: Values of its inputs that are weights; those that stay in blocks are added, in f32.

    Returns:
        Weights that stay in blocks, by the name of the input that they are in f32.

    Raises:
        UnsupportedError: An op is neither standard, nor a function of the model, nor defined here.
    """
    mark_origins(model)
    version = name_own_domain(model)
    inline_functions(model)
    fix_sizes(model, sizes, weights)
    nodes = list(every_node(model.graph))
    ops = {node.op_type for node in nodes}
    if version < OLDEST and ops & {*RECURRENT} and not ops & {*ROWS} and all(is_standard(n, version) for n in nodes):
        # They are written by ops of today; rows are as of their version.
        version = use_version(model, OLDEST, version, weights)
        fix_sizes(model, {}, weights)
    rounds, held = 0, dict[str, HeldWeight]()

    def known() -> KnownTensors:
        return replace(facts_of(model.graph), version=version, weights=weights, held=held)

    while write_contrib(model.graph, known(), f"autotune.{rounds}"):
        fix_sizes(model, {}, weights)  # what could not be inferred behind such a node
        rounds += 1
    for node in every_node(model.graph):
        if not is_standard(node, version):
            raise UnsupportedError(refusal(node))
    if version < OLDEST:
        use_version(model, OLDEST, version, weights)
        fix_sizes(model, {}, weights)
    return held


def use_version(model: "ModelProto", version: int, old: int, weights: "Mapping[str, Array]") -> int:
    """Write a model in a later version of ONNX's operators, in place, where ONNX knows how; which it then has."""
    from onnx import version_converter  # noqa: PLC0415 - comes with an extra

    origins = origins_of(model.graph)
    try:
        model.CopyFrom(version_converter.convert_version(model, version))
    except Exception:  # it has no way for some op, and says so by errors of C++: then all stays
        return old
    if old < COORDINATE_MODE:
        known = {**weights, **facts_of(model.graph).constants}
        for node in every_node(model.graph):
            if node.op_type == "Resize":
                add_coordinate_mode(node, known.get(node.input[-1]))
    take_origins(model.graph, origins)
    return version


def refusal(node: "NodeProto") -> str:
    """Why a node cannot be imported."""
    if (node.domain, node.op_type) in CONTRIB:
        return f"{node.doc_string} must have a form that docs/how-to/import.md names; export it by standard ops"
    return f"{node.doc_string} must be of a standard op of ONNX, or one that is defined here; export it by standard ops"


def name_own_domain(model: "ModelProto") -> int:
    """Spell ONNX's own domain in one way, in place; the version of its operators.

    Raises:
        UnsupportedError: The model imports two versions of them, or one that is not known here.
    """
    from onnx.defs import onnx_opset_version  # noqa: PLC0415 - comes with an extra

    versions = {opset.version for opset in model.opset_import if opset.domain in OWN}
    if len(versions) > 1:
        numbers = " and ".join(map(str, sorted(versions)))
        raise UnsupportedError(f"it must import one version of ONNX's operators, it imports {numbers}; export it again")
    version = versions.pop() if versions else NEWEST
    if not 1 <= version <= (newest := onnx_opset_version()):
        raise UnsupportedError(
            f"it must import a version of ONNX's operators from 1 to {newest}, it imports {version}; "
            "export it for one of them, or install a later version of package onnx"
        )
    others = [opset for opset in model.opset_import if opset.domain not in OWN]
    replace_all(model.opset_import, others)
    model.opset_import.add(domain="", version=version)
    for node in [*every_node(model.graph), *(node for each in model.functions for node in every_node(each))]:
        node.domain = "" if node.domain in OWN else node.domain
    for function in model.functions:
        function.domain = "" if function.domain in OWN else function.domain
        for opset in function.opset_import:
            opset.domain = "" if opset.domain in OWN else opset.domain
    return version


def inline_functions(model: "ModelProto") -> None:
    """Put the bodies of a model's own functions where they are called, in place.

    Raises:
        UnsupportedError: One has the name of a standard op, or calls itself.
    """
    from onnx import defs, inliner  # noqa: PLC0415 - comes with an extra

    if not model.functions:
        return
    for function in model.functions:
        if function.domain in OWN and defs.has(function.name):
            raise UnsupportedError(f"function {function.name} must not have the name of a standard op; rename it")
    check_recursion(model)
    model.CopyFrom(inliner.inline_local_functions(model, convert_version=True))


def check_recursion(model: "ModelProto") -> None:
    """Refuse functions that call themselves, and such that are more than `MOST_NODES` nodes, written out.

    Raises:
        UnsupportedError: A function does, or all are more.
    """
    calls = {
        qualified(function.name, function.domain): [qualified(n.op_type, n.domain) for n in every_node(function)]
        for function in model.functions
    }
    sizes: dict[str, int] = {}
    while leaves := [name for name, called in calls.items() if calls.keys().isdisjoint(called)]:
        for name in leaves:
            sizes[name] = sum(sizes.get(called, 1) for called in calls.pop(name))
    if calls:
        raise UnsupportedError(f"functions must not call themselves, {', '.join(sorted(calls))} do; write out the loop")
    whole = sum(sizes.get(qualified(node.op_type, node.domain), 1) for node in every_node(model.graph))
    if whole > MOST_NODES:
        raise UnsupportedError(
            f"functions must be at most {MOST_NODES} nodes where they are called, they are {whole:.3g}; "
            "export a part of the model"
        )


def every_node(graph: "GraphProto | FunctionProto") -> "Iterator[NodeProto]":
    """Nodes of a graph and of the graphs inside it."""
    for node in graph.node:
        yield node
        for inner in graphs_of(node):
            yield from every_node(inner)


def graphs_of(node: "NodeProto") -> "list[GraphProto]":
    """Graphs inside a node, such as the branches of an If."""
    from onnx import AttributeProto  # noqa: PLC0415

    single = [attribute.g for attribute in node.attribute if attribute.type == AttributeProto.GRAPH]
    return [*single, *(graph for attribute in node.attribute for graph in attribute.graphs)]


def write_contrib(graph: "GraphProto", known: KnownTensors, stem: str) -> bool:
    """Write those nodes as standard ops whose definition knows what it needs, in place; returns whether any was."""
    nodes: list[NodeProto] = []
    is_changed = False
    for number, node in enumerate(graph.node):
        for index, inner in enumerate(graphs_of(node)):
            is_changed |= write_contrib(inner, known.with_graph(inner), f"{stem}.{number}.{index}")
        check_node(node, known)
        check_attributes(node, known)
        is_own = is_standard(node, known.version)
        if is_own:
            check_types(node, known)
        define = OTHERWISE.get(node.op_type) if is_own else CONTRIB.get((node.domain, node.op_type))
        writer = NodeWriter(graph, f"{stem}.{node.op_type}.{number}")
        is_written = define is not None and define(writer, node, known)
        nodes += take_origin(writer.nodes, node) if is_written else [node]
        is_changed |= is_written
    replace_all(graph.node, nodes)
    return is_changed
