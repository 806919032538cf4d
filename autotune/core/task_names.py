"""Names of tasks for people: ``matmul 128x768x3072 + bias + gelu, stored`` for a tag that ends in a hash.

The tag stays the key of a task. Its ops, where they are known, say what is fused.
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
MOST_WORDS = 4  # of what is fused

GELU = 0.044715  # of its tanh form, Hendrycks and Gimpel, 2016
ADDED = {"arith.addf": "bias", "arith.mulf": "scale", "arith.subf": "shift", "arith.divf": "divide"}
JOINED = {"arith.addf": "add", "arith.mulf": "multiply", "arith.subf": "subtract", "arith.divf": "divide"}
ARITHMETIC = {"arith.addf", "arith.mulf", "arith.subf", "arith.negf", "arith.divf"}


def tell_apart(names: Mapping[str, str]) -> dict[str, str]:
    """Names by tag, followed by a short hash where two are the same."""
    times = Counter(names.values())
    return {tag: name if times[name] == 1 else f"{name} ({short_hash(tag)})" for tag, name in names.items()}


def short_hash(tag: str) -> str:
    """The six hex digits that a tag ends in, or all of a tag that has none."""
    found = HASH.search(tag)
    return found[1] if found else tag


def readable_name(tag: str, ops: Sequence[Op] = ()) -> str:
    """What a task computes: kind and sizes, what is fused in order, how its operands lie.

    Args:
        tag: The task's tag; one of another form is its own name.
        ops: The task's ops in program order; without them, what is fused is left out.

    Example:
        >>> readable_name("matmul_128x50257x768_f32_tb_w")
        'matmul 128x50257x768, B transposed, stored'
    """
    contraction, other = CONTRACTION.fullmatch(tag), OTHER.fullmatch(tag)
    if contraction:
        return name_contraction(contraction, ops)
    return name_other(other["kind"], other["sizes"], ops) if other else tag


def name_contraction(tag: re.Match[str], ops: Sequence[Op]) -> str:
    """A matmul, what follows it, and how its operands lie."""
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
    """A task that is no single contraction."""
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
    """What the bodies of ops compute, in order, a word each; an op with a name of its own says nothing more."""
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
    """Return whether a loop is a reduction."""
    return "reduction" in op.nest.iterators


def window_of(op: Op) -> int:
    """Number of dimensions in which an operand is read by a sliding window; 0 for none."""
    return max((sum(map(slides, each.indices)) for each in op.operands[:-1]), default=0)


def slides(index: Index) -> bool:
    """Return whether an index is a sum of several summands."""
    return len(index.terms) + len(index.parts) + (index.constant > 0) > 1


def row_words(ops: Sequence[Op]) -> list[str]:
    """What a group of reductions over rows is called; empty where it has no name."""
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
    """What one body does to the value that flows through it, in order."""
    carried = [number for number, each in enumerate(op.inputs) if each.source is not None]
    if not carried and not op.does("tensor.extract"):
        carried = [0]
    written = op.operands[-1].indices
    others = {n: each.indices == written for n, each in enumerate(op.inputs) if n not in carried}
    activation = activation_of(op)
    for step in op.body:
        given = [others[number] for number in step.operands if number in others]
        if given and step.name in ADDED:
            is_residual = given[0] and step.name == "arith.addf" and has_product
            yield "residual" if is_residual else (JOINED if given[0] else ADDED)[step.name]
        elif step.name.startswith("math."):
            yield activation or step.name.removeprefix("math.")
        elif step.name == "arith.maximumf" and not reduces(op):
            yield "relu"
        elif step.name in ARITHMETIC and not activation and not reduces(op):
            yield "scale" if step.name == "arith.mulf" else JOINED.get(step.name, "negate")


def activation_of(op: Op) -> str:
    """The activation function that a body is; empty where it is none of those with a name."""
    if op.does("math.erf") or (op.does("math.tanh") and any(map(is_gelu_factor, constants_of(op)))):
        return "gelu"
    if op.does("math.exp", "arith.negf", "arith.divf"):
        divided = next(step for step in op.body if step.name == "arith.divf")
        by = op.maker(divided.operands[0])
        return "sigmoid" if by is not None and by.name == "arith.constant" else "silu"
    return ""


def constants_of(op: Op) -> Iterator[float]:
    """Numbers that a body computes with."""
    return (float(step.value) for step in op.body if step.name == "arith.constant" and step.value is not None)


def is_gelu_factor(number: float) -> bool:
    """Return whether a number is `GELU`, as whatever element type holds it."""
    return abs(number - GELU) < 1e-2 * GELU


def is_causal(op: Op) -> bool:
    """Return whether a body compares the indices of its own loops."""
    makers = [[op.maker(value) for value in step.operands] for step in op.body if step.name == "arith.cmpi"]
    loops = [[by.value for by in each if by is not None and by.name == "linalg.index"] for each in makers]
    return any(len(found) == len(each) and len(set(found)) > 1 for found, each in zip(loops, makers, strict=True))
