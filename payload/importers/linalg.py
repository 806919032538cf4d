"""From torch-mlir's own dialects to the text of a payload; runs in the converter's process alone."""

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
MOST_SAID = 120  # characters of what torch-mlir says of an op
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
    """The model holds what cannot be imported; the message is one line, with the way out.

    Attributes:
        op: The op that is not known, such as ``onnx.Mish``; empty where it is not one op.
        location: Name of the location of the op, as an importer gave it; empty where there is none.
        why: What is wrong with it.
    """

    def __init__(self, message: str, op: str = "", location: str = "", why: str = "") -> None:
        super().__init__(message)
        self.op = op
        self.location = location
        self.why = why


def cannot_lower(what: str, why: str, op: str = "", location: str = "") -> UnsupportedError:
    """An op that has no lowering.

    Args:
        what: The op, as the user knows it.
        why: What is wrong with it.
        op: Name of it in torch-mlir.
        location: Name of the location it has.
    """
    message = f"{what} cannot be lowered: {why}; replace it in the model by simpler ops, or leave it out"
    return UnsupportedError(message, op, location, why)


def lower(module: "Module", first: str, held: Mapping[int, Array] = MappingProxyType({})) -> str:
    """Lower a module of torch-mlir to linalg on tensors.

    Args:
        module: The module, in its context.
        first: Pipeline to the contract that torch-mlir's back ends expect.
        held: Values of arguments that stay as they are, by their positions.

    Raises:
        UnsupportedError: torch-mlir cannot lower an op; the error has its location.
    """
    from torch_mlir.ir import MLIRError  # noqa: PLC0415 - its MLIR is another than ours: in this process alone
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
        compute_masks(module, held)
    return str(module)


def foreign_ops(module: "Module") -> dict[str, str]:
    """Names of ops that our MLIR does not hold, each with the name of its location."""
    from torch_mlir.ir import WalkResult  # noqa: PLC0415

    found: dict[str, str] = {}

    def note(op: Any) -> Any:  # noqa: ANN401 - an operation, and whether to go on
        if op.name.partition(".")[0] not in OURS:
            found.setdefault(op.name, location_name(str(op.location)))
        return WalkResult.ADVANCE

    module.operation.walk(note)
    return found


def location_name(location: str) -> str:
    """The first name in a location."""
    named = re.search(r'"([^"]*)"', location)
    return named[1] if named is not None else ""


def propagate_nan(module: "Operation") -> None:
    """Let maxima and minima of elements be NaN where one of the elements is, in place.

    PyTorch, and NumPy by which ONNX computes its reference, have them so; torch-mlir writes a comparison and a choice
    that gives the other element. What a model compares and chooses itself are two ops yet, and stay as they are.
    """
    for select in ops_named(module, "arith.select"):
        rewrite_extremum(select)


def rewrite_extremum(select: "Operation") -> None:
    """Write a choice of the greater or smaller of two elements so that NaN is chosen, in place; else leave it."""
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
        if (number := next((x for x in (b, a) if is_number(x)), None)) is not None:  # one instruction of a processor
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
    """Let maxima and minima be either of 0 and -0, in place: no framework says which; to tell takes instructions."""
    from torch_mlir.ir import Attribute  # noqa: PLC0415 - its MLIR is another than ours: in this process alone

    for op in ops_named(module, "arith.maximumf", "arith.minimumf"):
        op.attributes["fastmath"] = Attribute.parse("#arith.fastmath<nsz>")


def propagate_nan_indices(module: "Operation") -> None:
    """Let the argmax of a window be the index of the last NaN, where there is one, in place.

    torch-mlir looks for an element that equals the largest, which no NaN does, and the index was left at -1.
    """
    for compared in ops_named(module, "arith.cmpf"):
        if PREDICATES[int(compared.attributes["predicate"])] == "oeq":
            choose_nan(compared)


def choose_nan(compared: "Operation") -> None:
    """Choose the index of an element that is NaN, where the element is compared with a window's largest; in place."""
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
    """The op that uses a value, where there is one."""
    users = [use.owner.operation for use in value.uses]
    return users[0] if len(users) == 1 else None


def is_number(value: "Value") -> bool:
    """Return whether an element is a constant other than NaN, as far as can be seen."""
    from torch_mlir.ir import Block, DenseElementsAttr, FloatAttr  # noqa: PLC0415

    if isinstance(value.owner, Block):
        around = value.owner.owner
        if around is None or around.name != "linalg.generic":
            return False
        return is_number(around.operands[list(value.owner.arguments).index(value)])
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
    """What to say of what torch-mlir said, with the op's name and location where it says them."""
    foreign = re.search(r'"(onnx\.\w+)"', message)  # what no dialect of torch-mlir's has
    found = foreign[1] if foreign is not None else next(iter(re.findall(r"torch\.(?:aten|prims)[\w.]*", message)), "")
    located = re.search(r'error: "([^"]*)"(?::\d+)*: (.*)', message)
    location, complaint = (located[1], located[2].partition(": %")[0][:MOST_SAID]) if located is not None else ("", "")
    why = f"torch-mlir does not lower {found.removeprefix('onnx.')}" if found else f"torch-mlir says: {complaint}"
    return cannot_lower(found or "an op", why if found or complaint else "torch-mlir fails", found, location)
