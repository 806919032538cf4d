"""From torch-mlir's own dialects to the text of a payload; runs in the converter's process alone."""

import re
from typing import TYPE_CHECKING

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


if TYPE_CHECKING:
    from torch_mlir.ir import Module


class UnsupportedError(Exception):
    """The model holds what cannot be imported; the message is one line, with the way out.

    Attributes:
        op: The op that is not known, such as ``onnx.Mish``; empty where it is not one op.
    """

    def __init__(self, message: str, op: str = "") -> None:
        super().__init__(message)
        self.op = op


def lower(module: "Module", first: str) -> str:
    """Lower a module of torch-mlir to linalg on tensors.

    Args:
        module: The module, in its context.
        first: Pipeline to the contract that torch-mlir's back ends expect.

    Raises:
        UnsupportedError: torch-mlir cannot lower an op; the message names it.
    """
    from torch_mlir.ir import MLIRError  # noqa: PLC0415 - its MLIR is another than ours: in this process alone
    from torch_mlir.passmanager import PassManager  # noqa: PLC0415

    for pipeline in (first, TO_LINALG):
        with module.context:
            try:
                PassManager.parse(pipeline).run(module.operation)
            except MLIRError as error:
                raise unsupported(str(error)) from error
    text = str(module)
    foreign = sorted({name for name in re.findall(r"= \"?([a-z_]+\.[\w.]+)", text) if name.split(".")[0] not in OURS})
    if foreign:
        raise UnsupportedError(
            f"it needs {', '.join(foreign)}, which MLIR does not hold; leave that op out of the model"
        )
    return text


def unsupported(said: str) -> UnsupportedError:
    """What to say of what torch-mlir said, with the op's name where it says one."""
    foreign = re.search(r'"(onnx\.\w+)"', said)  # what no dialect of torch-mlir's has
    found = foreign[1] if foreign is not None else next(iter(re.findall(r"torch\.(?:aten|prims)[\w.]*", said)), "")
    what = found or "an op"
    place = re.search(r'error: "([^"]+)": (.*)', said)  # nodes of ONNX have names, ops of PyTorch lines of a file
    if not found and place is not None:
        what = f"{place[1]}, {place[2][:MOST_SAID]}"
    message = f"torch-mlir cannot lower {what}; replace it in the model by simpler ops, or leave it out"
    return UnsupportedError(message, found)
