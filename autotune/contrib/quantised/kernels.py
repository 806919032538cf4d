"""Payload `qmatmul`: a product with a block-quantized weight."""

import math
from functools import partial

from autotune.core.payload import Argument, Array, Payload
from payload.block_products import StoredBlocks, multiply_blocks
from payload.blocks import BlockFormat, format_named
from payload.builder import Builder, Value, write_function, write_module
from payload.config import check_known, check_size, read_numbers, with_parameters, write_spec
from payload.reference import matmul

SIZES = {"m": 1, "n": 4096, "k": 4096}
DEFAULTS: dict[str, object] = {**SIZES, "format": "q8_0"}


@with_parameters(DEFAULTS)
def qmatmul(parameters: dict[str, str]) -> Payload:
    """``x (m, k)`` times a weight ``(n, k)`` in blocks, transposed; ``format=q8_0``, ``q4_0``, ``q4_k`` or ``q6_k``.

    By default a vector by 4096x4096, as in decoding; with m rows, as in reading a prompt.

    Raises:
        PayloadError: A parameter is unknown or impossible, or k is no whole number of blocks.
    """
    check_known("qmatmul", parameters, DEFAULTS)
    form = format_named(parameters.get("format", "q8_0"))
    sizes = read_numbers("qmatmul", {key: text for key, text in parameters.items() if key in SIZES}, SIZES)
    for name, size in sizes.items():
        check_size(name, size)
    m, n, k = sizes.values()
    form.check(k)
    arguments = (
        Argument("x", "input", (m, k)),
        *form.declare("w", (n, k), math.sqrt(3 / k)),
        Argument("y", "output", (m, n)),
    )

    def body(f: Builder, tensors: dict[str, Value]) -> list[Value]:
        return [multiply_blocks(f, tensors["x"], StoredBlocks.named(form, tensors, "w"), "y")]

    return Payload(
        name=write_spec("qmatmul", {**sizes, "format": form.name}, DEFAULTS),
        text=write_module(write_function("qmatmul", arguments, body)),
        entry="qmatmul",
        arguments=arguments,
        flops=2.0 * m * n * k,
        reference=partial(reference, form),
        reduction=k,
    )


def reference(form: BlockFormat, x: Array, **stored: Array) -> tuple[Array, ...]:
    """Return the product in float64, with the weight as its format defines it."""
    return (matmul(x, form.restore("w", stored), transpose_b=True),)
