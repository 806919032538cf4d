"""Types that tensors of an ONNX model have, held against what their ops take, and results against what is said of them.

ONNX's checker looks at neither; its inference passes over what does not fit, and torch-mlir converts or fails.
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
    """Return whether a node's op is one of ONNX's own at a version of them."""
    from onnx import defs  # noqa: PLC0415

    if node.domain not in OWN or not defs.has(node.op_type):
        return False
    try:
        defs.get_schema(node.op_type, version, "")
    except defs.SchemaError:  # it came later
        return False
    return True


@cache
def inputs_taken(op: str, version: int) -> tuple[tuple[str, frozenset[str]], ...]:
    """For every input of a standard op: the name of its type, and those it may be; the last may be said of many.

    Inputs whose types have one name are of one type; that of tensors which may differ from each other is empty.
    """
    from onnx import defs  # noqa: PLC0415 - comes with an extra

    schema = defs.get_schema(op, version, "")
    return tuple((each.type_str if each.is_homogeneous else "", frozenset(each.types)) for each in schema.inputs)


def check_types(node: "NodeProto", known: KnownTensors) -> None:
    """Raise unless inputs of a node of a standard op are of types that it takes.

    Args:
        node: The node.
        known: What is known of the tensors of its graph, whose types are inferred.

    Raises:
        UnsupportedError: One is not, or two are not of one type that must be.
    """
    taken = inputs_taken(node.op_type, known.version)
    first = dict[str, tuple[str, str]]()
    for name, (variable, kinds) in zip(node.input, chain(taken, repeat(taken[-1]) if taken else ()), strict=False):
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
    """A type of elements as ONNX's schemas spell it, by its number; empty where there is none."""
    from onnx import TensorProto  # noqa: PLC0415 - comes with an extra

    return TensorProto.DataType.Name(kind).lower() if kind else ""


def check_results(model: "ModelProto", declared: "Sequence[ValueInfoProto]") -> None:
    """Raise unless results are what the file says of them, which may be less, and of a type that programs write.

    Args:
        model: The model, its sizes fixed.
        declared: Results as the file declares them.

    Raises:
        UnsupportedError: A result is of another type or shape, or of signed integers of 16 bits; unsigned ones are
            written as wider ones.
    """
    from onnx import ModelProto, TensorProto, shape_inference  # noqa: PLC0415 - comes with an extra

    bare = ModelProto()
    bare.CopyFrom(model)  # inference keeps a type that is declared, though it be another
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
    """Raise unless a result is what is declared of it.

    Raises:
        UnsupportedError: Type or shape is another.
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
