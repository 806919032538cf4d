"""Replacement of products by f32 weights with block-quantized products; runs in the converter's process only."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from payload.block_products import StoredBlocks, multiply_blocks
from payload.builder import Builder, Value, tensor_type, write_module
from payload.importers.onnx_blocks import BlockWeight

if TYPE_CHECKING:
    from torch_mlir.ir import Block, Operation

ELEMENTS = {"int8": "i8", "float16": "f16", "float32": "f32"}


def put_blocks(text: str, weights: Mapping[int, BlockWeight]) -> tuple[str, list[int]]:
    """Replace f32 weights of a function by their block-quantized parts, appended to its arguments.

    A weight that has users other than ``linalg.matmul`` is left unchanged.

    Args:
        text: Module of one function.
        weights: Weights ``(N, K)``, by the number of their f32 argument ``(K, N)``.

    Returns:
        Module, and the numbers of the replaced arguments, in the order of their appended parts.
    """
    from torch_mlir.ir import Context, FunctionType, Location, Module, TypeAttr  # noqa: PLC0415 - of this process alone

    with Context(), Location.unknown():
        module = Module.parse(text)
        function = next(op.operation for op in module.body.operations if op.operation.name == "func.func")
        block, gone = function.regions[0].blocks[0], list[int]()
        for number, weight in weights.items():
            if put_weight(block, number, weight):
                gone.append(number)
        for number in sorted(gone, reverse=True):
            block.erase_argument(number)
        function_type = FunctionType(TypeAttr(function.attributes["function_type"]).value)
        signature = FunctionType.get([argument.type for argument in block.arguments], function_type.results)
        function.attributes["function_type"] = TypeAttr.get(signature)
        return str(module), gone


def put_weight(block: "Block", number: int, weight: BlockWeight) -> bool:
    """Replace the products by an argument with block-quantized ones; return whether all its uses are products."""
    from torch_mlir.ir import Location, Type  # noqa: PLC0415

    value = block.arguments[number]
    products = [use.owner.operation for use in value.uses]
    if not products or not all(op.name == "linalg.matmul" and list(op.operands).index(value) == 1 for op in products):
        return False
    kinds = (tensor_type(part.shape, ELEMENTS[part.dtype.name]) for part in weight.parts.values())
    parts = [block.add_argument(Type.parse(kind), Location.unknown()) for kind in kinds]
    for product in products:
        put_product(product, parts, weight)
    return True


def put_product(product: "Operation", parts: list[Value], weight: BlockWeight) -> None:
    """Replace a product by a block-quantized one with the same init tensor."""
    from torch_mlir.ir import InsertionPoint, Module, ShapedType  # noqa: PLC0415

    rows, columns = ShapedType(product.operands[0].type).shape
    written = Module.parse(product_text(rows, columns, weight))
    body = written.body.operations[0].regions[0].blocks[0]
    mapping = dict(zip(body.arguments, [product.operands[0], *parts], strict=True))
    for op in body.operations:
        if op.operation.name == "func.return":
            product.results[0].replace_all_uses_with(mapping[op.operation.operands[0]])
            break
        clone = op.operation.clone(InsertionPoint(product))
        for number, operand in enumerate(op.operation.operands):
            clone.operands[number] = mapping[operand]
        mapping |= dict(zip(op.operation.results, clone.results, strict=True))
        if op.operation.name == "linalg.generic":
            clone.operands[len(clone.operands) - 1] = product.operands[2]
    product.erase()


def product_text(rows: int, columns: int, weight: BlockWeight) -> str:
    """Return a module with one function that computes the product on tensors."""
    f = Builder()
    x = Value(f.fresh("x"), (rows, columns))
    parts = {
        end: Value(f.fresh(f"w{end}"), part.shape, ELEMENTS[part.dtype.name]) for end, part in weight.parts.items()
    }
    stored = StoredBlocks.named(weight.form, {f"w{end}": value for end, value in parts.items()}, "w")
    y = multiply_blocks(f, x, stored, "y")
    f.emit(f"return {y.name} : {y.type}")
    signature = ", ".join(f"{value.name}: {value.type}" for value in (x, *parts.values()))
    return write_module([f"  func.func @product({signature}) -> {y.type} {{", *f.lines, "  }"])
