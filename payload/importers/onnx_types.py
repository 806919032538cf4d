"""Verification of the element types of op inputs, and of results against their declared types and shapes.

ONNX's checker verifies neither; its inference ignores mismatches, and torch-mlir converts silently or fails.
"""

from collections.abc import Sequence
from functools import cache
from itertools import chain, repeat
from typing import TYPE_CHECKING

from payload.importers.linalg import UnsupportedError
from payload.importers.onnx_nodes import KnownTensors
from payload.importers.onnx_origins import OWN, printable_name

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, ValueInfoProto


def is_standard(node: "NodeProto", version: int) -> bool:
    """Return whether a node's op is a standard op in an opset version."""
    from onnx import defs  # noqa: PLC0415

    if node.domain not in OWN or not defs.has(node.op_type):
        return False
    try:
        defs.get_schema(node.op_type, version, "")
    except defs.SchemaError:  # the op was added in a later version
        return False
    return True


@cache
def input_types_of(op: str, version: int) -> tuple[tuple[str, frozenset[str]], ...]:
    """Return the type variable and the allowed types of every input of a standard op; the last input may be variadic.

    Inputs with the same type variable have the same type; the variable of heterogeneous variadic inputs is empty.
    """
    from onnx import defs  # noqa: PLC0415 - comes with an extra

    schema = defs.get_schema(op, version, "")
    return tuple((each.type_str if each.is_homogeneous else "", frozenset(each.types)) for each in schema.inputs)


def check_types(node: "NodeProto", known: KnownTensors) -> None:
    """Raise unless the inputs of a standard op have allowed types.

    Args:
        node: Node to verify.
        known: Known facts about the tensors of its graph, with inferred types.

    Raises:
        UnsupportedError: An input has a type that is not allowed, or inputs of one type variable have different types.
    """
    accepted = input_types_of(node.op_type, known.version)
    first = dict[str, tuple[str, str]]()
    for name, (variable, kinds) in zip(
        node.input, chain(accepted, repeat(accepted[-1]) if accepted else ()), strict=False
    ):
        kind = kind_name(known.kinds.get(name, 0)) if name else ""
        if not kind:
            continue
        label = printable_name(name)
        if f"tensor({kind})" not in kinds:
            raise UnsupportedError(
                f"{node.doc_string} must have inputs of types that its op takes, {label} is of {kind}; cast it before"
            )
        other, theirs = first.setdefault(variable, (label, kind))
        if variable and theirs != kind:
            raise UnsupportedError(
                f"{node.doc_string} must have inputs of one type, {other} is of {theirs}, {label} of {kind}; cast one"
            )


def kind_name(kind: int) -> str:
    """Return the name of an element type as in ONNX's schemas; empty for an undefined one."""
    from onnx import TensorProto  # noqa: PLC0415 - comes with an extra

    return TensorProto.DataType.Name(kind).lower() if kind else ""


def check_results(model: "ModelProto", declared: "Sequence[ValueInfoProto]") -> None:
    """Raise unless results match their declarations, which may be partial, and have supported element types.

    Args:
        model: Model with static sizes.
        declared: Results as declared in the file.

    Raises:
        UnsupportedError: A result has another type or shape, or is int16; uint16 is allowed, as it is widened.
    """
    from onnx import ModelProto, TensorProto, shape_inference  # noqa: PLC0415 - comes with an extra

    bare = ModelProto()
    bare.CopyFrom(model)  # inference would keep a declared type even if it is wrong
    del bare.graph.value_info[:]
    for tensor in bare.graph.output:
        tensor.ClearField("type")
    inferred = {tensor.name: tensor for tensor in shape_inference.infer_shapes(bare, data_prop=True).graph.output}
    for tensor in declared:
        check_result(tensor, inferred[tensor.name])
    for tensor in model.graph.output:
        if tensor.type.tensor_type.elem_type == TensorProto.INT16:
            raise UnsupportedError(f"result {tensor.name} must not be of int16, it is; cast it to int32 in the model")


def check_result(result: "ValueInfoProto", computed: "ValueInfoProto") -> None:
    """Raise unless a result matches its declaration.

    Raises:
        UnsupportedError: The type or the shape differs.
    """
    declared, inferred = result.type.tensor_type, computed.type.tensor_type
    name = printable_name(result.name)
    kinds = kind_name(declared.elem_type), kind_name(inferred.elem_type)
    if all(kinds) and kinds[0] != kinds[1]:
        raise UnsupportedError(
            f"result {name} must be of the declared type {kinds[0]}, its node gives {kinds[1]}; correct one"
        )
    if not (declared.HasField("shape") and inferred.HasField("shape")):
        return
    shapes = [[dim.dim_value for dim in each.shape.dim] for each in (declared, inferred)]  # 0 where it is open
    if len(shapes[0]) != len(shapes[1]) or any(a != b for a, b in zip(*shapes, strict=True) if a > 0 and b > 0):
        texts = [", ".join(str(size) if size > 0 else "?" for size in shape) for shape in shapes]
        raise UnsupportedError(
            f"result {name} must be of the declared shape [{texts[0]}], its node gives [{texts[1]}]; correct one"
        )
