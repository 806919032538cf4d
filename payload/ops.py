"""Emitters of linalg on tensors: each appends operations to a `Builder` and returns the tensor they define.

Contractions are named ops (``linalg.matmul``, ``linalg.batch_matmul``) on a zero-filled init. Everything else is a
``linalg.generic`` whose indexing maps are projections and whose body is scalar arith and math, so that any schedule can
tile, fuse and vectorize it. `payload.reference` has the same functions in NumPy.

In the body of a generic, ``%e0, %e1, ...`` are the input elements and ``%acc`` is the output element; it defines
``%y``.
"""

from collections.abc import Sequence

from payload.builder import Builder, DynamicSize, Value, affine_map

Dims = Sequence[int]


def empty(f: Builder, shape: tuple[int, ...], name: str) -> Value:
    """Emit an uninitialized tensor of `shape`; with dynamic sizes, a slice of an allocation of their upper bounds."""
    if not any(isinstance(size, DynamicSize) for size in shape):
        return f.define(f"{name}_empty", shape, f"tensor.empty() : {Value('', shape).type}")
    bound = tuple(int(size) for size in shape)
    whole = f.define(f"{name}_whole", bound, f"bufferization.alloc_tensor() : {Value('', bound).type}")
    zeros, ones = (", ".join([digit] * len(shape)) for digit in "01")
    sizes = ", ".join(size.name if isinstance(size, DynamicSize) else str(size) for size in shape)
    text = f"tensor.extract_slice {whole.name}[{zeros}] [{sizes}] [{ones}] : {whole.type} to {Value('', shape).type}"
    return f.define(f"{name}_empty", shape, text)


def fill(f: Builder, shape: tuple[int, ...], constant: str, name: str) -> Value:
    """Emit a tensor of `shape` filled with an f32 constant."""
    scalar = f.fresh(f"{name}_start")
    f.emit(f"{scalar} = arith.constant {constant} : f32")
    out = empty(f, shape, name)
    text = f"linalg.fill ins({scalar} : f32) outs({out.name} : {out.type}) -> {out.type}"
    return f.define(f"{name}_init", shape, text)


def contract(f: Builder, op: str, a: Value, b: Value, *, shape: tuple[int, ...], maps: str, name: str) -> Value:
    """Emit a named contraction of `a` and `b` into a zero-filled tensor of `shape`."""
    init = fill(f, shape, "0.0", name)
    text = f"linalg.{op}{maps} ins({a.name}, {b.name} : {a.type}, {b.type}) outs({init.name} : {init.type})"
    return f.define(name, shape, f"{text} -> {init.type}")


def matmul(f: Builder, a: Value, b: Value, name: str = "matmul", *, transpose_b: bool = False) -> Value:
    """Multiply ``(M, K) x (K, N) -> (M, N)``; with `transpose_b`, b is stored ``(N, K)``."""
    maps = indexing_maps(3, [(0, 2), (1, 2), (0, 1)]) if transpose_b else ""
    return contract(f, "matmul", a, b, shape=(a.shape[0], b.shape[0 if transpose_b else 1]), maps=maps, name=name)


def batch_matmul(f: Builder, a: Value, b: Value, name: str = "batch_matmul", *, transpose_b: bool = False) -> Value:
    """Multiply ``(B, M, K) x (B, K, N) -> (B, M, N)``; with `transpose_b`, b is stored ``(B, N, K)``."""
    maps = indexing_maps(4, [(0, 1, 3), (0, 2, 3), (0, 1, 2)]) if transpose_b else ""
    return contract(
        f, "batch_matmul", a, b, shape=(*a.shape[:2], b.shape[1 if transpose_b else 2]), maps=maps, name=name
    )


def indexing_maps(rank: int, dims: Sequence[Dims]) -> str:
    """Return the ``indexing_maps`` attribute of a named contraction whose operands are transposed."""
    return f" indexing_maps = [{', '.join(affine_map(rank, each) for each in dims)}]"


def scale_columns(f: Builder, x: Value, scale: Value, name: str) -> Value:
    """Multiply every column by its scale: ``(..., N) * (N) -> (..., N)``."""
    return elementwise(f, name, x, ["%y = arith.mulf %e0, %e1 : f32"], (scale, [x.rank - 1]))


def transpose(f: Builder, x: Value, order: Dims, name: str = "transpose") -> Value:
    """Permute dimensions: size ``i`` of the result is size ``order[i]`` of `x`."""
    out = empty(f, tuple(x.shape[dim] for dim in order), name)
    text = f"linalg.transpose ins({x.name} : {x.type}) outs({out.name} : {out.type}) permutation = {list(order)}"
    return f.define(name, out.shape, text)


def split_heads(f: Builder, x: Value, heads: int, name: str) -> Value:
    """Split columns into heads: ``(T, C) -> (H, T, C / H)``."""
    rows, columns = x.shape
    shape = (rows, heads, columns // heads)
    text = f"tensor.expand_shape {x.name} [[0], [1, 2]] output_shape {list(shape)} : {x.type} into"
    split = f.define(f"{name}_split", shape, f"{text} {Value('', shape).type}")
    return transpose(f, split, (1, 0, 2), name)


def merge_heads(f: Builder, x: Value, name: str) -> Value:
    """Merge heads into columns: ``(H, T, D) -> (T, H * D)``."""
    heads, rows, depth = x.shape
    rowwise = transpose(f, x, (1, 0, 2), f"{name}_rows")
    shape = (rows, heads * depth)
    text = f"tensor.collapse_shape {rowwise.name} [[0], [1, 2]] : {rowwise.type} into {Value('', shape).type}"
    return f.define(name, shape, text)


def take_columns(f: Builder, x: Value, start: int, count: int, name: str) -> Value:
    """Extract `count` columns starting at `start`: ``(T, N) -> (T, count)``."""
    shape = (x.shape[0], count)
    text = f"tensor.extract_slice {x.name}[0, {start}] [{shape[0]}, {count}] [1, 1] : {x.type} to"
    return f.define(name, shape, f"{text} {Value('', shape).type}")


def take_rows(f: Builder, x: Value, count: int, name: str) -> Value:
    """Extract the first rows: ``(P, C) -> (count, C)``."""
    shape = (count, x.shape[1])
    text = f"tensor.extract_slice {x.name}[0, 0] [{count}, {shape[1]}] [1, 1] : {x.type} to {Value('', shape).type}"
    return f.define(name, shape, text)


def take_layer(f: Builder, stacked: Value, layer: str, name: str) -> Value:
    """Extract the slice at the index value `layer`: ``(L, ...) -> (...)``."""
    shape = stacked.shape[1:]
    offsets = ", ".join([layer, *("0" for _ in shape)])
    sizes = ", ".join(["1", *map(str, shape)])
    ones = ", ".join("1" for _ in stacked.shape)
    text = f"tensor.extract_slice {stacked.name}[{offsets}] [{sizes}] [{ones}] : {stacked.type} to"
    return f.define(name, shape, f"{text} {Value('', shape, stacked.dtype).type}", stacked.dtype)


def generic(
    f: Builder, name: str, out: Value, inputs: Sequence[tuple[Value, Dims]], body: Sequence[str], *, rank: int
) -> Value:
    """Emit a ``linalg.generic`` over `rank` loops; the innermost ``rank - out.rank`` loops are reductions.

    Args:
        f: Builder that ops are appended to.
        name: Name of the result.
        out: Init of the result; indexed by the leading loops.
        inputs: Input tensors, each with the loops that index its dimensions.
        body: Scalar operations that define ``%y``.
        rank: Number of loops.
    """
    maps = [affine_map(rank, dims) for _, dims in inputs] + [affine_map(rank, range(out.rank))]
    iterators = ['"parallel"'] * out.rank + ['"reduction"'] * (rank - out.rank)
    names, types = (", ".join(getattr(v, part) for v, _ in inputs) for part in ("name", "type"))
    reads = f"ins({names} : {types}) " if inputs else ""
    elements = [f"%e{i}: {value.dtype}" for i, (value, _) in enumerate(inputs)] + [f"%acc: {out.dtype}"]
    result = f.define(name, out.shape, "linalg.generic {")
    f.emit(
        f"    indexing_maps = [{', '.join(maps)}],",
        f"    iterator_types = [{', '.join(iterators)}]}}",
        f"    {reads}outs({out.name} : {out.type}) {{",
        f"^bb0({', '.join(elements)}):",
    )
    with f.indented():
        f.emit(*body, f"linalg.yield %y : {out.dtype}")
    f.emit(f"}} -> {out.type}")
    return result


def elementwise(f: Builder, name: str, x: Value, body: Sequence[str], *others: tuple[Value, Dims]) -> Value:
    """Map over every element of `x`; `others` are broadcast along the loops that do not index them."""
    loops = range(x.rank)
    return generic(f, name, empty(f, x.shape, name), [(x, loops), *others], body, rank=x.rank)


def reduce_rows(f: Builder, name: str, start: str, x: Value, body: Sequence[str], *others: tuple[Value, Dims]) -> Value:
    """Reduce the last dimension of `x`, starting from the constant `start`: ``(..., N) -> (...)``."""
    init = fill(f, x.shape[:-1], start, name)
    return generic(f, name, init, [(x, range(x.rank)), *others], body, rank=x.rank)


def add(f: Builder, x: Value, y: Value, name: str = "sum") -> Value:
    """Add two tensors of equal shape, as in a residual connection."""
    return elementwise(f, name, x, ["%y = arith.addf %e0, %e1 : f32"], (y, range(x.rank)))


def add_bias(f: Builder, x: Value, bias: Value, name: str = "biased") -> Value:
    """Add a bias to every row: ``(..., N) + (N) -> (..., N)``."""
    return elementwise(f, name, x, ["%y = arith.addf %e0, %e1 : f32"], (bias, [x.rank - 1]))


def scale(f: Builder, x: Value, factor: float, name: str = "scaled") -> Value:
    """Multiply by a constant: ``factor * x``."""
    return elementwise(
        f, name, x, [f"%factor = arith.constant {factor:.9e} : f32", "%y = arith.mulf %e0, %factor : f32"]
    )


def gelu(f: Builder, x: Value, name: str = "gelu") -> Value:
    """Emit ``0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))``, GELU as in GPT-2 (Hendrycks and Gimpel, 2016)."""
    body = [
        "%half = arith.constant 0.5 : f32",
        "%one = arith.constant 1.0 : f32",
        "%cubic = arith.constant 0.044715 : f32",
        "%root = arith.constant 0.797884561 : f32",
        "%square = arith.mulf %e0, %e0 : f32",
        "%cube = arith.mulf %square, %e0 : f32",
        "%small = arith.mulf %cubic, %cube : f32",
        "%bent = arith.addf %e0, %small : f32",
        "%angle = arith.mulf %root, %bent : f32",
        "%tanh = math.tanh %angle : f32",
        "%gate = arith.addf %one, %tanh : f32",
        "%halved = arith.mulf %half, %e0 : f32",
        "%y = arith.mulf %halved, %gate : f32",
    ]
    return elementwise(f, name, x, body)


def swiglu(f: Builder, gate: Value, up: Value, name: str = "swiglu") -> Value:
    """Emit ``gate / (1 + exp(-gate)) * up`` for equal shapes (Shazeer, 2020)."""
    body = [
        "%one = arith.constant 1.0 : f32",
        "%negative = arith.negf %e0 : f32",
        "%power = math.exp %negative : f32",
        "%below = arith.addf %one, %power : f32",
        "%silu = arith.divf %e0, %below : f32",
        "%y = arith.mulf %silu, %e1 : f32",
    ]
    return elementwise(f, name, gate, body, (up, range(gate.rank)))
