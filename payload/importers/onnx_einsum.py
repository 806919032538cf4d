"""Rewrite of Einsum with three or more operands to pairs: torch-mlir reduces letters that later operands still use."""

from typing import TYPE_CHECKING

from payload.importers.onnx_nodes import KnownTensors, NodeWriter, of

if TYPE_CHECKING:
    from onnx import NodeProto

PAIR = 2


def multiply_in_pairs(writer: NodeWriter, node: "NodeProto", _: KnownTensors) -> bool:
    """Rewrite an Einsum of several tensors as a chain of pairs; return whether it was rewritten."""
    equation = of(node, "equation", "").replace(" ", "")
    if len(node.input) <= PAIR or "." in equation:
        return False
    operands, arrow, result = equation.partition("->")
    terms = operands.split(",")
    if not arrow:
        letters = operands.replace(",", "")
        result = "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    last, letters_of_last = node.input[0], terms[0]
    for index in range(1, len(terms)):
        final = index == len(terms) - 1
        later = result + "".join(terms[index + 1 :])
        both = "".join(dict.fromkeys(letters_of_last + terms[index]))
        letters_of_result = result if final else "".join(letter for letter in both if letter in later)
        into, pair_equation = node.output[0] if final else "", f"{letters_of_last},{terms[index]}->{letters_of_result}"
        last, letters_of_last = (
            writer.add("Einsum", last, node.input[index], into=into, equation=pair_equation),
            letters_of_result,
        )
    return True
