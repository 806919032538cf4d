"""Rewriting of a model's functions and of ops from other domains to standard ONNX ops, before anything else.

    com.microsoft::FusedMatMul(a, b, alpha=3)   ->   Mul(MatMul(a, b), 3)

Afterwards all ops are in ONNX's own domain, so that reference, folding and lowering can identify an op by its type. An
op that is not defined here is rejected, with its domain and node in the message.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from payload.importers.linalg import UnsupportedError
from payload.importers.onnx_attributes import check_attributes
from payload.importers.onnx_blocks import BlockWeight
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

OTHERWISE = {**LINEAR, **RECURRENT, **ROWS, "RotaryEmbedding": rotary}  # standard ops that are rewritten
OLDEST = 15  # oldest opset version that torch-mlir lowers and the reference computes correctly
COORDINATE_MODE = 11  # first opset version whose Resize has coordinate_transformation_mode
MOST_NODES = 1 << 20  # maximum nodes after inlining functions, whose number can grow exponentially
NEWEST = 20  # opset version of a model that imports none


def use_standard_ops(
    model: "ModelProto", sizes: Mapping[str, int], weights: "dict[str, Array]"
) -> "dict[str, BlockWeight]":
    """Rewrite a model to standard ops, in place, with fixed sizes and inferred shapes.

    Args:
        model: Model to rewrite.
        sizes: Sizes of symbolic dimensions, by name.
        weights: Values of its inputs that are weights; those that stay block-quantized are added, in f32.

    Returns:
        Weights that stay block-quantized, by the name of their f32 input.

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
        # Recurrent ops are rewritten with ops of a current version; those in ROWS depend on the model's own version.
        version = use_version(model, OLDEST, version, weights)
        fix_sizes(model, {}, weights)
    rounds, block_weights = 0, dict[str, BlockWeight]()

    def known() -> KnownTensors:
        return replace(facts_of(model.graph), version=version, weights=weights, block_weights=block_weights)

    while write_contrib(model.graph, known(), f"autotune.{rounds}"):
        fix_sizes(model, {}, weights)  # shapes of the results could not be inferred before
        rounds += 1
    for node in every_node(model.graph):
        if not is_standard(node, version):
            raise UnsupportedError(refusal(node))
    if version < OLDEST:
        use_version(model, OLDEST, version, weights)
        fix_sizes(model, {}, weights)
    return block_weights


def use_version(model: "ModelProto", version: int, old: int, weights: "Mapping[str, Array]") -> int:
    """Convert a model to a later opset version, in place, if ONNX can; return the version it has then."""
    from onnx import version_converter  # noqa: PLC0415 - comes with an extra

    origins = origins_of(model.graph)
    try:
        model.CopyFrom(version_converter.convert_version(model, version))
    except Exception:  # no conversion for some op, reported as C++ exceptions: the model is left unchanged
        return old
    if old < COORDINATE_MODE:
        known = {**weights, **facts_of(model.graph).constants}
        for node in every_node(model.graph):
            if node.op_type == "Resize":
                add_coordinate_mode(node, known.get(node.input[-1]))
    take_origins(model.graph, origins)
    return version


def refusal(node: "NodeProto") -> str:
    """Return the message about an unsupported node."""
    if (node.domain, node.op_type) in CONTRIB:
        return f"{node.doc_string} must have a form that docs/how-to/import.md names; export it by standard ops"
    return f"{node.doc_string} must be of a standard op of ONNX, or one that is defined here; export it by standard ops"


def name_own_domain(model: "ModelProto") -> int:
    """Normalize the spelling of ONNX's own domain, in place; return its opset version.

    Raises:
        UnsupportedError: The model imports two versions of the domain, or an unknown version.
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
    """Inline a model's own functions, in place.

    Raises:
        UnsupportedError: A function has the name of a standard op, or is recursive.
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
    """Raise if functions are recursive, or have more than `MOST_NODES` nodes when inlined.

    Raises:
        UnsupportedError: A function is recursive, or the functions are too large.
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
    """Yield the nodes of a graph and of its nested subgraphs."""
    for node in graph.node:
        yield node
        for inner in graphs_of(node):
            yield from every_node(inner)


def graphs_of(node: "NodeProto") -> "list[GraphProto]":
    """Return the subgraphs of a node, such as the branches of an If."""
    from onnx import AttributeProto  # noqa: PLC0415

    single = [attribute.g for attribute in node.attribute if attribute.type == AttributeProto.GRAPH]
    return [*single, *(graph for attribute in node.attribute for graph in attribute.graphs)]


def write_contrib(graph: "GraphProto", known: KnownTensors, stem: str) -> bool:
    """Rewrite nodes to standard ops where shapes and types suffice, in place; return whether any was rewritten."""
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
