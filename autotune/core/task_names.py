"""Names of tasks for people: ``matmul 128x768x3072 + bias + gelu, stored`` for a tag that ends in a hash.

The tag stays the key of a task. Its module, where there is one, says what is fused; it is read as text, without MLIR.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile

CONTRACTION = re.compile(
    r"(?P<kind>batch_matmul|matmul)_(?P<sizes>\d+(?:x\d+)*)_(?P<dtype>[a-z]+\d+)"
    r"(?P<flags>(?:_ta)?(?:_tb)?(?:_w)?)(?:_(?P<stored>[a-z]+\d+))?(?:_fused_(?P<hash>[0-9a-f]{6}))?"
)
OTHER = re.compile(r"(?P<kind>[a-z_]+)_(?P<sizes>\d+(?:x\d+)*)_(?P<hash>[0-9a-f]{6})")
HASH = re.compile(r"_([0-9a-f]{6})$")
KINDS = {"generic": "elementwise", "growing": "attention"}
MOST_TEXT = 200_000  # characters of a module that are read
MOST_WORDS = 4  # of what is fused

MAP = re.compile(r"^(#\w+) = affine_map<\([^)]*\) -> \(([^)]*)\)>", re.MULTILINE)
HEADER = re.compile(
    r"linalg\.generic \{indexing_maps = \[([^\]]*)\], iterator_types = \[([^\]]*)\]\}(?: ins\(([^:]*) :)?"
)
STATEMENT = re.compile(r"^\s*(%\w+) = ([a-z_]+\.[a-z_]+) (?:[a-z]+, )?([^:]*)")
LINALG = re.compile(r"(%\w+) = linalg\.(?!fill)")
PRODUCT = re.compile(r"linalg\.(?:batch_)?matmul")
BOUND = re.compile(r"tensor<\d+x(\d+)x[^>]*> to tensor<\d+x\?x")
GELU = "4.471500e-02"  # of its tanh form, Hendrycks and Gimpel, 2016
ADDED = {"arith.addf": "bias", "arith.mulf": "scale", "arith.subf": "shift", "arith.divf": "divide"}
JOINED = {"arith.addf": "add", "arith.mulf": "multiply", "arith.subf": "subtract", "arith.divf": "divide"}
ARITHMETIC = {"arith.addf", "arith.mulf", "arith.subf", "arith.negf", "arith.divf"}


@dataclass(frozen=True)
class Statement:
    """One operation of a body: the value it gives, its name, the values it reads."""

    result: str
    op: str
    operands: tuple[str, ...]


@dataclass(frozen=True)
class Generic:
    """A ``linalg.generic`` as its text shows it.

    Attributes:
        reduces: Whether a loop is a reduction.
        inputs: Values it reads, in order.
        whole: Whether an input has an element for every element of the result, one an input.
        names: Names of the inputs inside the body.
        body: Operations of the body, in order.
        window: Number of dimensions in which an input is read by a sliding window; 0 for none.
    """

    reduces: bool
    inputs: tuple[str, ...]
    whole: tuple[bool, ...]
    names: tuple[str, ...]
    body: tuple[Statement, ...]
    window: int = 0

    def does(self, *ops: str) -> bool:
        """Tell whether the body holds all of these operations."""
        return set(ops) <= {statement.op for statement in self.body}


def readable_names(modules: Mapping[str, str | None]) -> dict[str, str]:
    """A name for every task of a payload, no two the same: a short hash follows where they would be.

    Args:
        modules: Text of a task's module by its tag; `None` where only the tag is known.

    Example:
        >>> readable_names({"transpose_4x8_0a1b2c": None, "transpose_4x8_ffffff": None, "gather_2x4_123456": None})
        {'transpose_4x8_0a1b2c': 'transpose 4x8 (0a1b2c)', 'transpose_4x8_ffffff': 'transpose 4x8 (ffffff)', \
'gather_2x4_123456': 'gather 2x4'}
    """
    return tell_apart({tag: readable_name(tag, text) for tag, text in modules.items()})


def tell_apart(names: Mapping[str, str]) -> dict[str, str]:
    """Names by tag, followed by a short hash where two are the same."""
    times = Counter(names.values())
    return {tag: name if times[name] == 1 else f"{name} ({short_hash(tag)})" for tag, name in names.items()}


def short_hash(tag: str) -> str:
    """The six hex digits that a tag ends in, or all of a tag that has none."""
    found = HASH.search(tag)
    return found[1] if found else tag


def readable_name(tag: str, module: str | None = None) -> str:
    """What a task computes: kind and sizes, what is fused in order, how its operands lie.

    Args:
        tag: The task's tag; one of another form is its own name.
        module: Text of the task's module; without it, what is fused is not told.

    Example:
        >>> readable_name("matmul_128x50257x768_f32_tb_w")
        'matmul 128x50257x768, B transposed, stored'
    """
    contraction, other = CONTRACTION.fullmatch(tag), OTHER.fullmatch(tag)
    text = (module or "")[:MOST_TEXT]
    if contraction:
        return name_contraction(contraction, text)
    return name_other(other["kind"], other["sizes"], text) if other else tag


def name_contraction(tag: re.Match[str], text: str) -> str:
    """A matmul, what follows it, and how its operands lie."""
    fused = (fused_words(text) or ["fused"]) if tag["hash"] else []
    flags = tag["flags"].split("_")
    head = " + ".join([f"{tag['kind'].replace('_', ' ')} {tag['sizes']}", *fused])
    said = {
        "A transposed": "ta" in flags,
        "B transposed": "tb" in flags,
        f"{'stored' if 'w' in flags else 'B'} {tag['stored'] or ''}".strip(): "w" in flags or tag["stored"],
        tag["dtype"]: tag["dtype"] != "f32",
    }
    return ", ".join([head, *(words for words, is_so in said.items() if is_so)])


def name_other(kind: str, sizes: str, text: str) -> str:
    """A task that is no single contraction."""
    ops = generics(text)
    if kind in ("attention", "growing"):
        causal = ", causal" if any(is_causal(op) for op in ops) else ""
        bound = BOUND.search(text)
        return f"attention {sizes}{causal}{f', growing to {bound[1]}' if bound else ''}"
    words = fused_words(text)
    if kind == "gather":
        return " + ".join([f"gather {sizes}", *words])
    if kind == "rows" and words:
        return f"{' + '.join(words)} {sizes}"
    if kind == "generic" and len(words) == 1:
        return f"{words[0]} {sizes}"
    if kind == "generic" and words:
        return f"elementwise {sizes}: {' + '.join(words)}"
    return f"{KINDS.get(kind, kind).replace('_', ' ')} {sizes}"


def fused_words(text: str) -> list[str]:
    """What the bodies of a module compute, in order, a word each."""
    ops = generics(text)
    flowing = set(LINALG.findall(text))
    rows = row_words(ops)
    words: list[str] = []
    for op in ops:
        if op.reduces and rows:
            words += rows
            break
        words += body_words(op, flowing, text)
    words = [word for i, word in enumerate(words) if i == 0 or word != words[i - 1]]
    return words if len(words) <= MOST_WORDS else [*words[:MOST_WORDS], "..."]


def row_words(ops: list[Generic]) -> list[str]:
    """What a group of reductions over rows is called; empty where it has no name."""
    reductions = [op for op in ops if op.reduces]
    largest = any(op.does("arith.maximumf") for op in reductions)
    windows = [op for op in reductions if op.window]
    if windows:
        multiplies = any(op.does("arith.mulf") or op.does("arith.muli") for op in windows)
        kind = "conv" if multiplies else "max pool " if largest else "sum pool "
        return [f"{kind}{max(op.window for op in windows)}d"]
    if largest and any(op.does("math.exp") for op in ops) and any(op.does("arith.divf") for op in ops):
        return ["softmax"]
    if any(op.does("math.rsqrt") or op.does("math.sqrt") for op in ops):
        return ["layer norm"] if len(reductions) > 1 else ["rms norm"]
    return ["row maximum" if largest else "row sum"] if reductions else []


def body_words(op: Generic, flowing: set[str], text: str) -> Iterator[str]:
    """What one body does to the value that flows through it, in order."""
    carried = [name for name, value in zip(op.names, op.inputs, strict=False) if value in flowing]
    if not carried and not op.does("tensor.extract"):
        carried = list(op.names[:1])
    others = {name: is_whole for name, is_whole in zip(op.names, op.whole, strict=False) if name not in carried}
    activation = activation_of(op, text)
    for statement in op.body:
        given = [others[name] for name in statement.operands if name in others]
        if given and statement.op in ADDED:
            is_residual = given[0] and statement.op == "arith.addf" and PRODUCT.search(text) is not None
            yield "residual" if is_residual else (JOINED if given[0] else ADDED)[statement.op]
        elif statement.op.startswith("math."):
            yield activation or statement.op.removeprefix("math.")
        elif statement.op == "arith.maximumf" and not op.reduces:
            yield "relu"
        elif statement.op in ARITHMETIC and not activation and not op.reduces:
            yield "scale" if statement.op == "arith.mulf" else JOINED.get(statement.op, "negate")


def activation_of(op: Generic, text: str) -> str:
    """The activation function that a body is; empty where it is none of those with a name."""
    if op.does("math.erf") or (op.does("math.tanh") and GELU in text):
        return "gelu"
    if op.does("math.exp", "arith.negf", "arith.divf"):
        divided = next(s for s in op.body if s.op == "arith.divf")
        return "sigmoid" if divided.operands[0].startswith("%cst") else "silu"
    return ""


def is_causal(op: Generic) -> bool:
    """Tell whether a body compares the places of its own loops."""
    places = {statement.result for statement in op.body if statement.op == "linalg.index"}
    return any(s.op == "arith.cmpi" and set(s.operands) <= places and len(places) > 1 for s in op.body)


def generics(text: str) -> list[Generic]:
    """Every ``linalg.generic`` of a module as MLIR prints it, in order; what is written otherwise is passed over."""
    maps = dict(MAP.findall(text))
    lines = iter(text.splitlines())
    found = []
    for line in lines:
        header = HEADER.search(line)
        if header is None:
            continue
        *reads, written = (maps.get(name.strip(), "") for name in header[1].split(","))
        inputs = tuple(re.findall(r"%\w+", header[3] or ""))
        names = tuple(re.findall(r"(%\w+):", next(lines, "")))
        body = [STATEMENT.match(inner) for inner in takewhile(lambda inner: "linalg.yield" not in inner, lines)]
        statements = (Statement(s[1], s[2], tuple(re.findall(r"%\w+", s[3]))) for s in body if s)
        whole = tuple(read == written for read in reads[: len(inputs)])
        window = max((sum("+" in index for index in read.split(",")) for read in reads), default=0)
        reduces = "reduction" in header[2]
        found.append(Generic(reduces, inputs, whole, names[: len(inputs)], tuple(statements), window))
    return found
