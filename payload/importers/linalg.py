"""Lowering from torch-mlir's dialects to the MLIR text of a payload; runs in the converter's process only."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from autotune.core.payload import Array
from payload.importers.causal_masks import compute_masks
from payload.importers.scan_loops import write_scans
from payload.importers.torch_ops import ops_named

ONNX_TO_TORCH = "builtin.module(torch-onnx-to-torch-backend-pipeline)"
FX_TO_TORCH = "builtin.module(func.func(torch-match-quantized-custom-ops),torchdynamo-export-to-torch-backend-pipeline)"
TO_LINALG = "builtin.module(torch-backend-to-linalg-on-tensors-backend-pipeline)"
MOST_CHARACTERS = 120  # maximum number of characters quoted from torch-mlir's error message
OURS = (
    "linalg",
    "tensor",
    "arith",
    "math",
    "func",
    "builtin",
    "cf",
    "scf",
    "memref",
    "bufferization",
    "affine",
    "index",
)


LESS = ("olt", "ole", "ult", "ule")
GREATER = ("ogt", "oge", "ugt", "uge")
PREDICATES = ("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une")
MAKES_NUMBERS = ("arith.constant", "arith.truncf", "arith.extf", "arith.sitofp", "linalg.fill")

if TYPE_CHECKING:
    from torch_mlir.ir import Module, Operation, Value


class UnsupportedError(Exception):
    """Error for a model that cannot be imported; the message is one line and suggests a workaround.

    Attributes:
        op: Unsupported op, such as ``onnx.Mish``; empty if the cause is not a single op.
        location: Location name of the op, as given by the importer; empty if there is none.
        why: Reason.
    """

    def __init__(self, message: str, op: str = "", location: str = "", why: str = "") -> None:
        super().__init__(message)
        self.op = op
        self.location = location
        self.why = why


def cannot_lower(name: str, why: str, op: str = "", location: str = "") -> UnsupportedError:
    """Return the error for an op without a lowering.

    Args:
        name: Op in the user's terms.
        why: Reason.
        op: Name of the op in torch-mlir.
        location: Location name of the op.
    """
    message = f"{name} cannot be lowered: {why}; replace it in the model by simpler ops, or leave it out"
    return UnsupportedError(message, op, location, why)


def lower(module: "Module", first: str, constants: Mapping[int, Array] = MappingProxyType({})) -> str:
    """Lower a module of torch-mlir to linalg on tensors.

    Args:
        module: Module to lower, in its context.
        first: Pass pipeline to torch-mlir's backend contract.
        constants: Values of constant arguments, by argument number.

    Raises:
        UnsupportedError: torch-mlir cannot lower an op; the error has its location.
    """
    from torch_mlir.ir import MLIRError  # noqa: PLC0415 - torch-mlir's own MLIR, loaded in this process only
    from torch_mlir.passmanager import PassManager  # noqa: PLC0415

    for pipeline in (first, TO_LINALG):
        with module.context:
            try:
                PassManager.parse(pipeline).run(module.operation)
            except MLIRError as error:
                raise unsupported(str(error)) from error
    with module.context:
        write_scans(module)
    foreign = foreign_ops(module)
    if foreign:
        name, location = next(iter(foreign.items()))
        raise cannot_lower(
            name, f"torch-mlir writes it as {', '.join(foreign)}, which MLIR does not hold", location=location
        )
    with module.context:
        propagate_nan(module.operation)
        propagate_nan_indices(module.operation)
        forget_signs_of_zero(module.operation)
        compute_masks(module, constants)
    return str(module)


def foreign_ops(module: "Module") -> dict[str, str]:
    """Return the names of ops outside the dialects of our MLIR, each with its location name."""
    from torch_mlir.ir import WalkResult  # noqa: PLC0415

    locations: dict[str, str] = {}

    def note(op: Any) -> Any:  # noqa: ANN401 - an operation, and whether to go on
        if op.name.partition(".")[0] not in OURS:
            locations.setdefault(op.name, location_name(str(op.location)))
        return WalkResult.ADVANCE

    module.operation.walk(note)
    return locations


def location_name(location: str) -> str:
    """Return the first name in a location."""
    named = re.search(r'"([^"]*)"', location)
    return named[1] if named is not None else ""


def propagate_nan(module: "Operation") -> None:
    """Make elementwise maxima and minima propagate NaN, in place.

    PyTorch and NumPy, which computes the ONNX reference, propagate NaN; torch-mlir emits a comparison and a select in
    one block, which return the other element. A comparison and a select of the model itself are in different
    ``linalg.generic`` ops at this point, and are left unchanged.
    """
    for select in ops_named(module, "arith.select"):
        rewrite_extremum(select)


def rewrite_extremum(select: "Operation") -> None:
    """Rewrite a select of the greater or smaller of two elements to propagate NaN, in place, if it is one."""
    from torch_mlir.ir import Attribute, InsertionPoint, Operation  # noqa: PLC0415

    condition, then, otherwise = select.operands
    compared = getattr(condition.owner, "name", "")
    if compared != "arith.cmpf" or condition.owner.operation.block != select.block:
        return
    predicate = PREDICATES[int(condition.owner.attributes["predicate"])]
    a, b = condition.owner.operands
    if predicate not in LESS + GREATER or (then, otherwise) not in ((a, b), (b, a)):
        return
    is_maximum = (predicate in GREATER) == (then == a)
    with InsertionPoint(select), select.location:
        if (number := next((x for x in (b, a) if is_number(x)), None)) is not None:  # becomes a single instruction
            x = a if number == b else b
            kind = Attribute.parse(f"{PREDICATES.index('olt' if is_maximum else 'ogt')} : i64")
            beyond = Operation.create("arith.cmpf", [condition.type], [x, number], {"predicate": kind}).result
            chosen = Operation.create("arith.select", [then.type], [beyond, number, x]).result
        else:
            name = "arith.maximumf" if is_maximum else "arith.minimumf"
            chosen = Operation.create(name, [then.type], [a, b]).result
    select.results[0].replace_all_uses_with(chosen)
    select.erase()
    if not list(condition.uses):
        condition.owner.erase()


def forget_signs_of_zero(module: "Operation") -> None:
    """Set `nsz` on maxima and minima: frameworks do not specify the order of 0 and -0, and it costs instructions."""
    from torch_mlir.ir import Attribute  # noqa: PLC0415 - torch-mlir's own MLIR, loaded in this process only

    for op in ops_named(module, "arith.maximumf", "arith.minimumf"):
        op.attributes["fastmath"] = Attribute.parse("#arith.fastmath<nsz>")


def propagate_nan_indices(module: "Operation") -> None:
    """Make the argmax of a window the index of its last NaN, if it has one, in place.

    torch-mlir searches for an element equal to the maximum, which NaN never is, so that the index would stay -1.
    """
    for compared in ops_named(module, "arith.cmpf"):
        if PREDICATES[int(compared.attributes["predicate"])] == "oeq":
            choose_nan(compared)


def choose_nan(compared: "Operation") -> None:
    """Select the index of a NaN element, if `compared` compares an element with its window's maximum; in place."""
    from torch_mlir.ir import Attribute, InsertionPoint, Operation  # noqa: PLC0415

    element = compared.operands[0]
    if getattr(element.owner, "name", "") != "tensor.extract":
        return
    chosen = only_user(compared.results[0])
    first = only_user(chosen.results[0]) if chosen is not None and chosen.name == "arith.select" else None
    end = only_user(first.results[0]) if first is not None and first.name == "arith.select" else None
    if chosen is None or first is None or end is None or end.name != "linalg.yield":
        return
    with InsertionPoint(end), end.location:
        kind = Attribute.parse(f"{PREDICATES.index('une')} : i64")
        is_nan = Operation.create("arith.cmpf", [compared.results[0].type], [element, element], {"predicate": kind})
        operands = [is_nan.result, chosen.operands[1], first.results[0]]
        index = Operation.create("arith.select", [first.results[0].type], operands).result
    end.operands[list(end.operands).index(first.results[0])] = index


def only_user(value: "Value") -> "Operation | None":
    """Return the only user of a value; `None` if it has several or none."""
    users = [use.owner.operation for use in value.uses]
    return users[0] if len(users) == 1 else None


def is_number(value: "Value") -> bool:
    """Return whether an element is provably a constant other than NaN."""
    from torch_mlir.ir import Block, DenseElementsAttr, FloatAttr  # noqa: PLC0415

    if isinstance(value.owner, Block):
        parent = value.owner.owner
        if parent is None or parent.name != "linalg.generic":
            return False
        return is_number(parent.operands[list(value.owner.arguments).index(value)])
    op = value.owner.operation
    if op.name not in MAKES_NUMBERS:
        return False
    if op.name != "arith.constant":
        return is_number(op.operands[0])
    attribute = op.attributes["value"]
    if isinstance(attribute, DenseElementsAttr):
        if not attribute.is_splat:
            return False
        attribute = attribute.get_splat_value()
    return not isinstance(attribute, FloatAttr) or attribute.value == attribute.value


def unsupported(message: str) -> UnsupportedError:
    """Convert an error message of torch-mlir to an error with op and location, if the message has them."""
    foreign = re.search(r'"(onnx\.\w+)"', message)  # what no dialect of torch-mlir's has
    op = foreign[1] if foreign is not None else next(iter(re.findall(r"torch\.(?:aten|prims)[\w.]*", message)), "")
    located = re.search(r'error: "([^"]*)"(?::\d+)*: (.*)', message)
    location, complaint = (
        (located[1], located[2].partition(": %")[0][:MOST_CHARACTERS]) if located is not None else ("", "")
    )
    why = f"torch-mlir does not lower {op.removeprefix('onnx.')}" if op else f"torch-mlir says: {complaint}"
    return cannot_lower(op or "an op", why if op or complaint else "torch-mlir fails", op, location)
