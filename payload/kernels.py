"""Single-operator payloads: a factory for each, called with the parameters of a spec such as ``matmul,m=128``.

Each is defined by a graph, whose lowering is its MLIR text. The entry function is named like the kernel. Where there
are contractions, `flops` counts them alone; else it counts every scalar operation of the text, with an exponential or
a hyperbolic tangent as one.
"""

from collections.abc import Callable, Mapping
from functools import partial

from autotune.core.ops.graph import Graph, node
from autotune.core.payload import Argument, Payload
from payload import reference
from payload.builder import write_function, write_module
from payload.config import check_size, read_numbers, read_switch, with_parameters, write_spec
from payload.lowering import lower
from payload.reference import LAYER_NORM_EPSILON
from payload.rowwise import seen_pairs

SWITCHES = ("transpose_b", "constant_b", "causal")
MATMUL = {"m": 512, "n": 512, "k": 512, "transpose_b": 0, "constant_b": 0}
BATCH_MATMUL = {"batch": 12, "m": 128, "n": 128, "k": 64, "transpose_b": 0}
ATTENTION = {"heads": 12, "seq": 128, "d": 64, "causal": 0}
ROWS = {"rows": 512, "cols": 512}
EMBEDDING = {"rows": 128, "cols": 768, "vocab": 50257}

# Scalar operations per element, or per row where the name says so; see the bodies in payload.ops and payload.rowwise.
LAYER_NORM_FLOPS = 8  # sum 1, squares 3, affine 4
LAYER_NORM_ROW_FLOPS = 4  # mean 1, reciprocal deviation 3
SOFTMAX_FLOPS = 5  # max, subtract, exp, sum, divide
GELU_FLOPS = 9  # of which one tanh


def read(kernel: str, parameters: Mapping[str, str], defaults: Mapping[str, int]) -> dict[str, int]:
    """Parse parameters as integers: boolean ones are 0 or 1, all others are sizes.

    Raises:
        PayloadError: A parameter is unknown, not an integer, or out of range.
    """
    numbers = read_numbers(kernel, parameters, defaults)
    for name, number in numbers.items():
        if name in SWITCHES:
            read_switch(name, number)
        else:
            check_size(name, number)
    return numbers


def make(
    kernel: str,
    sizes: Mapping[str, object],
    *,
    defaults: Mapping[str, object],
    arguments: tuple[Argument, ...],
    graph: Graph,
    oracle: Callable[..., reference.Doubles],
    flops: float,
    reduction: int = 1,
) -> Payload:
    """Assemble the payload of a kernel."""
    results = [argument.name for argument in arguments if argument.role == "output"]
    return Payload(
        name=write_spec(kernel, sizes, defaults),
        text=write_module(write_function(kernel, arguments, lambda f, tensors: lower(f, graph, tensors, results))),
        entry=kernel,
        arguments=arguments,
        flops=float(flops),
        reference=partial(reference.outputs_of, oracle),
        reduction=reduction,
        graph=graph,
    )


@with_parameters(MATMUL)
def matmul(parameters: dict[str, str]) -> Payload:
    """``a (m, k)`` times ``b (k, n)``, or ``b (n, k)`` with ``transpose_b=1``; 512 each by default.

    With ``constant_b=1``, b is a weight: schedules and libraries may store it as they like before any call.
    """
    sizes = read("matmul", parameters, MATMUL)
    m, n, k, transposed = sizes["m"], sizes["n"], sizes["k"], bool(sizes["transpose_b"])
    arguments = (
        Argument("a", "input", (m, k)),
        Argument("b", "weight" if sizes["constant_b"] else "input", (n, k) if transposed else (k, n)),
        Argument("c", "output", (m, n)),
    )

    oracle = partial(reference.matmul, transpose_b=transposed)
    return make(
        "matmul",
        sizes,
        defaults=MATMUL,
        arguments=arguments,
        graph=(node("matmul", "a", "b", gives={"c": (m, n)}, transpose_b=transposed),),
        oracle=oracle,
        flops=2 * m * n * k,
        reduction=k,
    )


@with_parameters(BATCH_MATMUL)
def batch_matmul(parameters: dict[str, str]) -> Payload:
    """``batch`` products as in `matmul`; by default 12 of ``(128, 64) x (64, 128)``, the scores of GPT-2."""
    sizes = read("batch_matmul", parameters, BATCH_MATMUL)
    batch, m, n, k = (sizes[name] for name in ("batch", "m", "n", "k"))
    transposed = bool(sizes["transpose_b"])
    arguments = (
        Argument("a", "input", (batch, m, k)),
        Argument("b", "input", (batch, n, k) if transposed else (batch, k, n)),
        Argument("c", "output", (batch, m, n)),
    )

    oracle = partial(reference.batch_matmul, transpose_b=transposed)
    return make(
        "batch_matmul",
        sizes,
        defaults=BATCH_MATMUL,
        arguments=arguments,
        graph=(node("matmul", "a", "b", gives={"c": (batch, m, n)}, transpose_b=transposed),),
        oracle=oracle,
        flops=2 * batch * m * n * k,
        reduction=k,
    )


@with_parameters(ATTENTION)
def attention(parameters: dict[str, str]) -> Payload:
    """``softmax(q k^T / sqrt(d)) v`` on three ``(heads, seq, d)``, by default 12 x 128 x 64; ``causal=1`` masks."""
    sizes = read("attention", parameters, ATTENTION)
    heads, seq, depth, causal = sizes["heads"], sizes["seq"], sizes["d"], bool(sizes["causal"])
    inputs = tuple(Argument(name, "input", (heads, seq, depth)) for name in "qkv")
    arguments = (*inputs, Argument("out", "output", (heads, seq, depth)))

    oracle = partial(reference.attention, causal=causal)
    pairs = seen_pairs(seq) if causal else seq * seq
    flops = 4 * heads * pairs * depth
    return make(
        "attention",
        sizes,
        defaults=ATTENTION,
        arguments=arguments,
        graph=(node("attention", *"qkv", gives={"out": (heads, seq, depth)}, causal=causal),),
        oracle=oracle,
        flops=flops,
        reduction=max(seq, depth),
    )


@with_parameters(ROWS)
def layer_norm(parameters: dict[str, str]) -> Payload:
    """Layer norm of every row of ``(rows, cols)`` with gain and bias ``(cols)``; 512 each by default."""
    sizes = read("layer_norm", parameters, ROWS)
    rows, columns = sizes["rows"], sizes["cols"]
    arguments = (
        Argument("x", "input", (rows, columns)),
        Argument("gain", "weight", (columns,), low=0.5, high=1.5),
        Argument("bias", "weight", (columns,), low=-0.1, high=0.1),
        Argument("out", "output", (rows, columns)),
    )

    flops = LAYER_NORM_FLOPS * rows * columns + LAYER_NORM_ROW_FLOPS * rows
    return make(
        "layer_norm",
        sizes,
        defaults=ROWS,
        arguments=arguments,
        graph=(node("layer_norm", "x", "gain", "bias", gives={"out": (rows, columns)}, epsilon=LAYER_NORM_EPSILON),),
        oracle=reference.layer_norm,
        flops=flops,
        reduction=columns,
    )


@with_parameters(ROWS)
def softmax(parameters: dict[str, str]) -> Payload:
    """Softmax of every row of ``(rows, cols)``; 512 each by default."""
    sizes = read("softmax", parameters, ROWS)
    shape = (sizes["rows"], sizes["cols"])
    arguments = (Argument("x", "input", shape, low=-4.0, high=4.0), Argument("out", "output", shape))

    flops = SOFTMAX_FLOPS * shape[0] * shape[1]
    return make(
        "softmax",
        sizes,
        defaults=ROWS,
        arguments=arguments,
        graph=(node("softmax", "x", gives={"out": shape}),),
        oracle=reference.softmax,
        flops=flops,
        reduction=shape[1],
    )


@with_parameters(ROWS)
def gelu(parameters: dict[str, str]) -> Payload:
    """GELU, tanh form, of every element of ``(rows, cols)``; 512 each by default."""
    sizes = read("gelu", parameters, ROWS)
    shape = (sizes["rows"], sizes["cols"])
    arguments = (Argument("x", "input", shape, low=-4.0, high=4.0), Argument("out", "output", shape))

    return make(
        "gelu",
        sizes,
        defaults=ROWS,
        arguments=arguments,
        graph=(node("gelu", "x", gives={"out": shape}),),
        oracle=reference.gelu,
        flops=GELU_FLOPS * shape[0] * shape[1],
    )


@with_parameters(EMBEDDING)
def embedding(parameters: dict[str, str]) -> Payload:
    """Rows of a table ``(vocab, cols)`` at ``(rows)`` ids; by default 128 of ``(50257, 768)``, the tokens of GPT-2."""
    sizes = read("embedding", parameters, EMBEDDING)
    rows, columns, vocab = (sizes[name] for name in ("rows", "cols", "vocab"))
    arguments = (
        Argument("ids", "input", (rows,), "i32", low=0, high=vocab),
        Argument("table", "weight", (vocab, columns)),
        Argument("out", "output", (rows, columns)),
    )

    return make(
        "embedding",
        sizes,
        defaults=EMBEDDING,
        arguments=arguments,
        graph=(node("embedding", "table", "ids", gives={"out": (rows, columns)}),),
        oracle=reference.embed,
        flops=0,
    )
