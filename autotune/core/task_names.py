"""Readable names of tasks, such as ``matmul 128x768x3072 + bias + gelu, stored``, for tags that end in a hash.

The tag remains the key of a task. The names of fused ops are derived from the task's ops, where they are known.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from autotune.core.ops.op import Index, Op

CONTRACTION = re.compile(
    r"(?P<kind>batch_matmul|matmul)_(?P<sizes>\d+(?:x\d+)*)_(?P<dtype>[a-z]+\d+)"
    r"(?P<flags>(?:_ta)?(?:_tb)?(?:_w)?)(?:_(?P<stored>[a-z]+\d+))?(?:_fused_(?P<hash>[0-9a-f]{6}))?"
)
OTHER = re.compile(r"(?P<kind>[a-z_]+)_(?P<sizes>\d+(?:x\d+)*)_(?P<hash>[0-9a-f]{6})")
HASH = re.compile(r"_([0-9a-f]{6})$")
KINDS = {"generic": "elementwise", "growing": "attention"}
MOST_WORDS = 4  # fused ops that a name lists

GELU = 0.044715  # coefficient of the tanh approximation of GELU, Hendrycks and Gimpel, 2016
ADDED = {"arith.addf": "bias", "arith.mulf": "scale", "arith.subf": "shift", "arith.divf": "divide"}
JOINED = {"arith.addf": "add", "arith.mulf": "multiply", "arith.subf": "subtract", "arith.divf": "divide"}
ARITHMETIC = {"arith.addf", "arith.mulf", "arith.subf", "arith.negf", "arith.divf"}


def tell_apart(names: Mapping[str, str]) -> dict[str, str]:
    """Make the names of tasks unique, by appending a short hash of the tag to names that occur more than once."""
    counts = Counter(names.values())
    return {tag: name if counts[name] == 1 else f"{name} ({short_hash(tag)})" for tag, name in names.items()}


def short_hash(tag: str) -> str:
    """Return the six hex digits that a tag ends in, or the whole tag where it has none."""
    match = HASH.search(tag)
    return match[1] if match else tag


def readable_name(tag: str, ops: Sequence[Op] = ()) -> str:
    """Return a readable name of a task: kind and sizes, fused ops in order, layout of its operands.

    Args:
        tag: Tag of the task; returned as it is where it has an unknown form.
        ops: Ops of the task in program order; without them, fused ops are left out.

    Example:
        >>> readable_name("matmul_128x50257x768_f32_tb_w")
        'matmul 128x50257x768, B transposed, stored'
    """
    contraction, other = CONTRACTION.fullmatch(tag), OTHER.fullmatch(tag)
    if contraction:
        return name_contraction(contraction, ops)
    return name_other(other["kind"], other["sizes"], ops) if other else tag


def name_contraction(tag: re.Match[str], ops: Sequence[Op]) -> str:
    """Return the name of a contraction with its fused ops, and the layout and element types of its operands."""
    fused = (fused_words(ops) or ["fused"]) if tag["hash"] else []
    flags = tag["flags"].split("_")
    head = " + ".join([f"{tag['kind'].replace('_', ' ')} {tag['sizes']}", *fused])
    properties = {
        "A transposed": "ta" in flags,
        "B transposed": "tb" in flags,
        f"{'stored' if 'w' in flags else 'B'} {tag['stored'] or ''}".strip(): "w" in flags or tag["stored"],
        tag["dtype"]: tag["dtype"] != "f32",
    }
    return ", ".join([head, *(words for words, is_so in properties.items() if is_so)])


def name_other(kind: str, sizes: str, ops: Sequence[Op]) -> str:
    """Return the name of a task whose root is no contraction."""
    if kind in ("attention", "growing"):
        causal = ", causal" if any(is_causal(op) for op in ops) else ""
        bounds = [op.sizes[op.nest.growing[0]] for op in ops if op.nest.growing]
        return f"attention {sizes}{causal}{f', growing to {bounds[0]}' if bounds else ''}"
    words = fused_words(ops)
    if kind == "gather":
        return " + ".join([f"gather {sizes}", *words])
    if kind == "rows" and words:
        return f"{' + '.join(words)} {sizes}"
    if kind == "generic" and len(words) == 1:
        return f"{words[0]} {sizes}"
    if kind == "generic" and words:
        return f"elementwise {sizes}: {' + '.join(words)}"
    return f"{KINDS.get(kind, kind).replace('_', ' ')} {sizes}"


def fused_words(ops: Sequence[Op]) -> list[str]:
    """Return a word for each operation that the bodies of generic ops compute, in order; named ops have none."""
    generics = [op for op in ops if op.kind == "generic"]
    has_product = any(op.kind.startswith(("matmul", "batch_matmul")) for op in ops)
    rows = row_words(generics)
    words: list[str] = []
    for op in generics:
        if reduces(op) and rows:
            words += rows
            break
        words += body_words(op, has_product=has_product)
    words = [word for i, word in enumerate(words) if i == 0 or word != words[i - 1]]
    return words if len(words) <= MOST_WORDS else [*words[:MOST_WORDS], "..."]


def reduces(op: Op) -> bool:
    """Return whether an op has a reduction loop."""
    return "reduction" in op.nest.iterators


def window_of(op: Op) -> int:
    """Return the number of dimensions in which an operand is read by a sliding window; 0 for none."""
    return max((sum(map(slides, each.indices)) for each in op.operands[:-1]), default=0)


def slides(index: Index) -> bool:
    """Return whether an affine index has several summands."""
    return len(index.terms) + len(index.parts) + (index.constant > 0) > 1


def row_words(ops: Sequence[Op]) -> list[str]:
    """Return the name of a group of row reductions, such as ``softmax``; empty where it has none."""
    reductions = [op for op in ops if reduces(op)]
    largest = any(op.does("arith.maximumf") for op in reductions)
    windows = [op for op in reductions if window_of(op)]
    if windows:
        multiplies = any(op.does("arith.mulf") or op.does("arith.muli") for op in windows)
        kind = "conv" if multiplies else "max pool " if largest else "sum pool "
        return [f"{kind}{max(map(window_of, windows))}d"]
    if largest and any(op.does("math.exp") for op in ops) and any(op.does("arith.divf") for op in ops):
        return ["softmax"]
    if any(op.does("math.rsqrt") or op.does("math.sqrt") for op in ops):
        return ["layer norm"] if len(reductions) > 1 else ["rms norm"]
    return ["row maximum" if largest else "row sum"] if reductions else []


def body_words(op: Op, *, has_product: bool) -> Iterator[str]:
    """Yield a word for each operation that a body applies to the values of its producers, in order."""
    carried = [number for number, each in enumerate(op.inputs) if each.source is not None]
    if not carried and not op.does("tensor.extract"):
        carried = [0]
    written = op.operands[-1].indices
    # Whether an input besides the producers' has the full shape of the result; others are broadcast.
    is_full = {n: each.indices == written for n, each in enumerate(op.inputs) if n not in carried}
    activation = activation_of(op)
    for step in op.body:
        second = [is_full[number] for number in step.operands if number in is_full]
        if second and step.name in ADDED:
            is_residual = second[0] and step.name == "arith.addf" and has_product
            yield "residual" if is_residual else (JOINED if second[0] else ADDED)[step.name]
        elif step.name.startswith("math."):
            yield activation or step.name.removeprefix("math.")
        elif step.name == "arith.maximumf" and not reduces(op):
            yield "relu"
        elif step.name in ARITHMETIC and not activation and not reduces(op):
            yield "scale" if step.name == "arith.mulf" else JOINED.get(step.name, "negate")


def activation_of(op: Op) -> str:
    """Return the name of the activation function that a body computes; empty for any other body."""
    if op.does("math.erf") or (op.does("math.tanh") and any(map(is_gelu_factor, constants_of(op)))):
        return "gelu"
    if op.does("math.exp", "arith.negf", "arith.divf"):
        division = next(step for step in op.body if step.name == "arith.divf")
        numerator = op.maker(division.operands[0])
        return "sigmoid" if numerator is not None and numerator.name == "arith.constant" else "silu"
    return ""


def constants_of(op: Op) -> Iterator[float]:
    """Return the numeric constants of a body."""
    return (float(step.value) for step in op.body if step.name == "arith.constant" and step.value is not None)


def is_gelu_factor(number: float) -> bool:
    """Return whether a number is `GELU`, within the rounding of any element type."""
    return abs(number - GELU) < 1e-2 * GELU


def is_causal(op: Op) -> bool:
    """Return whether a body compares the induction variables of two loops."""
    makers = [[op.maker(value) for value in step.operands] for step in op.body if step.name == "arith.cmpi"]
    loops = [[by.value for by in each if by is not None and by.name == "linalg.index"] for each in makers]
    return any(len(dims) == len(each) and len(set(dims)) > 1 for dims, each in zip(loops, makers, strict=True))
