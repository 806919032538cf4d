"""Classify the access pattern of an op: contraction, vectorizable, sliding window, transposed read, stencil, gather."""

from collections.abc import Sequence
from math import gcd, lcm, prod

from autotune.core.ops.op import BodyOp, Contraction, Index, Lanes, Op, Operand

SCALAR = ("arith.", "math.", "linalg.index", "tensor.extract")
OPERANDS_OF_PRODUCT = 2
FEWEST_COLUMNS = 8  # columns from which a reduction over rows is vectorized along the columns
COMBINES = tuple(
    f"arith.{name}"
    for name in (
        *("addf", "addi", "mulf", "muli", "maximumf", "maxnumf", "minimumf", "minnumf"),
        *("maxsi", "maxui", "minsi", "minui", "andi", "ori", "xori"),
    )
)
WIDENED = ("f32", "f16", "bf16", "i8")  # element types that B may be stored in
# Extensions that may precede a product and a sum of these names, each with the operands that it widens.
WIDENINGS = {
    ("arith.mulf", "arith.addf"): ([], [("arith.extf", (1,))]),
    ("arith.muli", "arith.addi"): ([("arith.extsi", (0,)), ("arith.extsi", (1,))],),
}
CASTS = ("arith.index_cast", "arith.index_castui")
INDICES = ("linalg.index", "arith.addi", "arith.muli", "arith.andi", "arith.cmpi")  # of values that are index-only
WIDEST = 16  # elements of a vector
MOST_ELEMENTS = 1 << 12  # of a stencil's tile, which is fully unrolled into vectors


def contraction_of(op: Op) -> Contraction | None:
    """Match a plain or batched matmul with loops in the order (b,) m, n, k; return `None` for anything else."""
    if op.nest.growing or not op.multiplies or not op.sizes:
        return None
    b, m, n, k = product_loops(op)
    rank = len(op.sizes)
    if [*b, *m, *n, *k] != list(range(rank)) or [len(m), len(n), len(k)] != [1, 1, 1] or len(b) > 1:
        return None
    a_loops, b_loops, c_loops = (operand.loops for operand in op.operands)
    plain_a, plain_b = [*b, *m, *k], [*b, *k, *n]
    transposed_a, transposed_b = [*b, *k, *m], [*b, *n, *k]
    if a_loops not in (plain_a, transposed_a) or b_loops not in (plain_b, transposed_b):
        return None
    a, stored, c = op.operands
    is_real = (a.dtype == c.dtype == "f32" and stored.dtype in WIDENED) or a.dtype == stored.dtype == c.dtype == "f64"
    if c_loops != [*b, *m, *n] or not (is_real or is_of_bytes(op)):
        return None
    return Contraction(
        m=op.sizes[m[0]],
        n=op.sizes[n[0]],
        k=op.sizes[k[0]],
        batch=op.sizes[0] if b else 1,
        transposed_a=a_loops == transposed_a,
        transposed_b=b_loops == transposed_b,
        batched=bool(b),
        dtype=a.dtype,
        constant_b=stored.role == "weight" and not b,
        zeroed=c.is_filled and c.start == 0.0 and c.is_own,
        stored_b=stored.dtype if stored.dtype != a.dtype else "",
    )


def is_of_bytes(op: Op) -> bool:
    """Return whether a contraction multiplies i8 operands, sign-extended, with an i32 accumulator."""
    steps = [step.name.removeprefix("arith.") for step in op.body]
    return [each.dtype for each in op.operands] == ["i8", "i8", "i32"] and steps == ["extsi", "extsi", "muli", "addi"]


def product_loops(op: Op) -> tuple[list[int], list[int], list[int], list[int]]:
    """Return the loop dimensions of a contraction: batch, m (rows of A), n (columns of B), k (reduction).

    Each is inferred from the operands that it indexes, as by `inferContractionDims` of MLIR's linalg.
    """
    a, b, c = ({loop for loop in operand.loops if loop is not None} for operand in op.operands)
    return sorted(a & b & c), sorted((a & c) - b), sorted((b & c) - a), sorted((a & b) - c)


def is_matrix_product(op: Op) -> bool:
    """Return whether an op is a matrix-matrix product, batched or not; a matrix-vector product is not."""
    if not op.multiplies:
        return False
    batch, m, n, _ = product_loops(op)
    return bool(batch or (m and n))


def vectorizes(op: Op) -> bool:
    """Return whether upstream's vectorizer takes the op: projected-permutation indexing maps, single-op reductions.

    Windows (``i + k``), strides (``2 * i``), the first element of several, and reductions of several values at once,
    such as argmax, are not vectorized.
    """
    return computes_simply(op) and all(reads_along_loops(each) and reads_whole(each) for each in op.operands)


def lanes_of(op: Op) -> Lanes | None:
    """Return the loops of the register tile of an op with sliding windows; `None` for any other.

    A window may have one element: pointwise products with several row loops that share one matrix, and products in
    which an outer loop indexes the second operand only. Reductions down columns belong here, too: neighbours along
    their reduction loop are a row apart, so that vectors lie along the columns.
    """
    lane = lane_of(op)
    if lane is None or len(op.operands[-1].indices) == len(op.nest.iterators):
        return None
    written = op.operands[-1].loops
    products = len(op.inputs) == OPERANDS_OF_PRODUCT and sums_products(op)
    shared = {loop for terms in op.operands[1].terms for loop, _ in terms} if products else set()
    rows = [d for d in written if d is not None and d != lane and d not in shared]
    outer = {d for d in written if d is not None and d != lane}
    pointwise = products and len(rows) > 1 and shared.isdisjoint(outer)
    repeated = products and bool(rows) and not (shared & outer).issubset(op.operands[0].loops)
    if not (pointwise or repeated or sums_columns(op, lane)) and vectorizes(op):
        return None
    kernel = op.operands[1] if products else None
    constant = kernel is not None and stores_columns(kernel, lane, rows)
    shared_by = [*filters_of(op, lane)[-1:], *rows[-1:]] if products else rows[-1:]
    return Lanes(lane, max(shared_by, key=op.nest.sizes.__getitem__, default=None), products, constant)


def filters_of(op: Op, lane: int) -> list[int]:
    """Return the parallel loops in which the first operand is invariant, where only that operand is read as vectors.

    An example are the filters of a grouped convolution that is vectorized along a row of the image: each filter reads
    the same vectors of the image.
    """
    first, second = ({loop for terms in each.terms for loop, _ in terms} for each in op.operands[:2])
    filters = [d for d in op.operands[-1].loops if d is not None and d not in first]
    return filters if lane in first and lane not in second else []


def stores_columns(kernel: Operand, lane: int, rows: Sequence[int]) -> bool:
    """Return whether a kernel is a weight whose columns lie along the lane and whose rows are reduced."""
    loops = kernel.loops
    has_columns = len(loops) > 1 and loops[-1] == lane and loops[-2] != (rows[-1] if rows else None)
    return has_columns and kernel.role == "weight"


def sums_columns(op: Op, lane: int) -> bool:
    """Return whether an op reduces one loop and has its vectors along another: pooling, a row times a matrix."""
    if any(each.growing for each in op.operands) or op.outputs[0].shape[-1] < FEWEST_COLUMNS:
        return False
    full_rank = [each.loops for each in op.operands[:-1] if len(each.indices) == len(op.nest.iterators)]
    return bool(full_rank) and all(dims[-1] == lane for dims in full_rank)


def transposed_loop(op: Op) -> int | None:
    """Return the loop along which an input of an element-wise op has unit stride, where that is not the last loop.

    Inputs that are invariant in the last loop are broadcast along the vector, not transposed.
    """
    if len(op.operands[-1].indices) != len(op.nest.iterators):
        return None
    lane = len(op.nest.iterators) - 1
    innermost = [loops[-1] for each in op.operands[:-1] if lane in (loops := each.loops)]
    return next((d for d in innermost if d is not None and d != lane), None)


def sums_products(op: Op) -> bool:
    """Return whether the body is a multiply-add of the two inputs, widened or not, and the accumulator.

    Of floats the second input may be widened; integers are both sign-extended.
    """
    *widened, product, total = op.body if len(op.body) > 1 else (None, None)
    if product is None or total is None:
        return False
    extensions = [(step.name, step.operands) for step in widened]
    if extensions not in WIDENINGS.get((product.name, total.name), ()):
        return False
    values = {operands: op.first_step + number for number, (_, operands) in enumerate(extensions)}
    factors, multiplied = {values.get((each,), each) for each in (0, 1)}, op.first_step + len(extensions)
    return set(product.operands) == factors and set(total.operands) == {2, multiplied} and op.gives[0] == multiplied + 1


def lane_of(op: Op) -> int | None:
    """Return the loop along which every operand has unit stride or is invariant; `None` if there is none.

    Pooling in NHWC has one, a convolution in NCHW with strides has none.
    """
    if not computes_simply(op):
        return None
    written = [each.loops for each in op.outputs]
    lane = written[0][-1] if written[0] else None
    direct = {d for each in op.operands for d in each.loops if d is not None}
    if lane is None or any(None in loops or loops[-1:] != [lane] for loops in written):
        return None
    if len(direct) < len(op.nest.iterators):
        return None
    return lane if all(runs_along(each, lane) for each in op.operands) else None


def computes_simply(op: Op) -> bool:
    """Return whether the body has scalar ops only and, in a reduction, one of them combines each accumulator."""
    if not op.gives or not all(step.name.startswith(SCALAR) and not step.nested for step in op.body):
        return False
    loops = len(op.nest.iterators)
    return all(len(set(each.loops)) == loops for each in op.outputs) or all(
        combines(op, number) for number in range(op.results)
    )


def runs_along(operand: Operand, lane: int) -> bool:
    """Return whether a loop indexes the operand's last dimension only, with coefficient 1, or not at all."""
    factors = [index.factor(lane) for index in operand.indices]
    return all(factor == 0 for factor in factors[:-1]) and (not factors or factors[-1] in (0, 1))


def reads_along_loops(operand: Operand) -> bool:
    """Return whether the indexing map is a projected permutation: each index is a distinct loop, or 0."""
    loops = [loop for loop in operand.loops if loop is not None]
    no_loops = [index for index in operand.indices if index.loop is None]
    return len(set(loops)) == len(loops) and all(index.is_constant and not index.constant for index in no_loops)


def reads_whole(operand: Operand) -> bool:
    """Return whether every dimension that is indexed by a constant has size 1."""
    return all(size == 1 for size, index in zip(operand.shape, operand.indices, strict=False) if index.is_constant)


def combines(op: Op, number: int) -> bool:
    """Return whether a reduction combines its accumulator with an input's element by one combiner operation.

    Args:
        op: The reduction.
        number: Number of the result.
    """
    partial = len(op.inputs) + number  # the accumulator's block argument
    combiner = op.maker(op.gives[number])
    if combiner is None or combiner.name not in COMBINES or partial not in combiner.operands:
        return False
    uses = sum(step.operands.count(partial) for step in op.body) + op.gives.count(partial)
    return uses == 1 and any(reads_tensor(op, value) for value in combiner.operands if value != partial)


def reads_tensor(op: Op, value: int) -> bool:
    """Return whether a value of the body transitively depends on an element of an input array.

    Upstream's vectorizer broadcasts only such values over all loops: it adds a summed constant once a tile.
    """
    worklist, seen = [value], {value}
    while worklist:
        number = worklist.pop()
        definition = op.maker(number)
        if definition is None and 0 <= number < len(op.inputs) and not op.operands[number].is_scalar:
            return True
        new = set(definition.operands if definition is not None else ()) - seen
        seen |= new
        worklist += new
    return False


def counts_reduced(op: Op) -> bool:
    """Return whether the body uses the induction variable of a reduction loop."""
    loops = (int(step.value or 0) for step in op.body if step.name == "linalg.index")
    return any(op.nest.iterators[loop] == "reduction" for loop in loops)


def gathers(op: Op) -> bool:
    """Return whether the body reads elements of tensors, all at indices that `is_known_index` accepts."""
    reads = [step for step in op.body if is_gathering(op, step)]
    return bool(reads) and all(is_known_index(op, value) for step in reads for value in step.operands[1:])


def is_gathering(op: Op, step: BodyOp) -> bool:
    """Return whether a body operation reads an element of a tensor that is no constant."""
    if step.name != "tensor.extract" or step.nested:
        return False
    source = step.operands[0] - len(op.operands)
    return not (0 <= source < len(op.captured) and op.captured[source].role == "constant")


def is_known_index(op: Op, value: int) -> bool:
    """Return whether a value is a constant, an induction variable, or an element of a tensor cast to an index."""
    definition = op.maker(value)
    if definition is not None and definition.name in CASTS:
        definition = op.maker(definition.operands[0])
        return definition is not None and definition.name == "tensor.extract"
    return definition is not None and definition.name in ("arith.constant", "linalg.index")


def periods_of(op: Op) -> tuple[int, ...]:
    """Return the access period of each loop of a stencil; empty for any other op.

    The period is the number of iterations after which the access pattern repeats, shifted by a constant; tiles start
    at multiples of it. It is the trip count where an index has a remainder or the body uses the induction variable.
    An op whose tile would have more than `MOST_ELEMENTS` elements is not treated as a stencil.
    """
    if not op.sizes or not is_stencil(op):
        return ()
    indices = [index for operand in op.operands for index in operand.indices]
    body_loops = {int(step.value or 0) for step in op.body if step.name == "linalg.index"}
    periods = tuple(
        size if loop in body_loops else lcm(*(period(index, loop, size) for index in indices))
        for loop, size in enumerate(op.sizes)
    )
    return periods if prod(periods[:-1]) * max(periods[-1], WIDEST) <= MOST_ELEMENTS else ()


def is_stencil(op: Op) -> bool:
    """Return whether an op is element-wise with regular affine reads that upstream's vectorizer does not take.

    Its output has the identity map and is not read, and induction variables are used in conditions only.
    """
    if op.results != 1 or not computes_simply(op) or vectorizes(op):
        return False
    output = len(op.operands) - 1
    identity = op.operands[-1].loops == list(range(len(op.nest.iterators)))
    unread = not any(output in step.operands for step in op.body) and output not in op.gives
    plain = all(step.name != "tensor.extract" and uses_indices_well(op, step) for step in op.body)
    plain &= not any(is_known(op, value) for value in op.gives)
    return identity and unread and plain and all(is_regular(index) for each in op.operands for index in each.indices)


def uses_indices_well(op: Op, step: BodyOp) -> bool:
    """Return whether a body operation uses index-only values as the condition of a select, or computes another one."""
    if step.name in INDICES and all(is_known(op, value) or is_number(op, value) for value in step.operands):
        return True
    index_only = [number for number, value in enumerate(step.operands) if is_known(op, value)]
    return not index_only or (step.name == "arith.select" and index_only == [0])


def is_known(op: Op, value: int) -> bool:
    """Return whether a value is index-only: computed from induction variables and integer constants."""
    definition = op.maker(value)
    if definition is None or definition.name not in INDICES:
        return False
    return all(is_known(op, each) or is_number(op, each) for each in definition.operands)


def is_number(op: Op, value: int) -> bool:
    """Return whether a value is an integer constant."""
    constant = op.maker(value)
    return constant is not None and constant.name == "arith.constant" and not constant.dtypes[0].startswith(("f", "bf"))


def is_regular(index: Index) -> bool:
    """Return whether an index is a sum of loops, floor divisions of linear indices, and remainders of regular ones.

    No coefficient may be negative: upstream does not tile such an op.
    """
    if goes_back(index):
        return False
    inside = {"mod": is_regular, "floordiv": is_linear}
    return all(part.kind in inside and inside[part.kind](part.inner) for part in index.parts)


def is_linear(index: Index) -> bool:
    """Return whether an index has no divisions and no negative coefficients."""
    return not index.parts and not goes_back(index)


def goes_back(index: Index) -> bool:
    """Return whether a loop or a division has a negative coefficient."""
    return any(c < 0 for _, c in index.terms) or any(part.factor < 0 for part in index.parts)


def period(index: Index, loop: int, size: int) -> int:
    """Return the iterations of a loop after which an index repeats, shifted by a constant."""
    return lcm(*(period_of_part(part.kind, part.inner, part.by, loop, size) for part in index.parts))


def period_of_part(kind: str, inner: Index, by: int, loop: int, size: int) -> int:
    """Return the iterations of a loop after which a division or remainder repeats, shifted by a constant.

    ``(factor * loop) floordiv by`` repeats after ``by / gcd(factor, by)`` iterations.
    """
    if all(each != loop for each, _ in inner.moving):
        return 1
    factor = inner.factor(loop)
    return size if factor is None or kind == "mod" else by // gcd(factor, by)
