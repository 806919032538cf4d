"""How an op goes through its operands: as vectors, in windows, transposed, as a stencil, as a contraction."""

from collections.abc import Sequence
from math import gcd, lcm, prod

from autotune.core.ops.op import BodyOp, Contraction, Index, Lanes, Op, Operand

SCALAR = ("arith.", "math.", "linalg.index", "tensor.extract")
OPERANDS_OF_PRODUCT = 2
FEWEST_COLUMNS = 8  # of sums that are vectors along the columns
COMBINES = tuple(
    f"arith.{name}"
    for name in (
        *("addf", "addi", "mulf", "muli", "maximumf", "maxnumf", "minimumf", "minnumf"),
        *("maxsi", "maxui", "minsi", "minui", "andi", "ori", "xori"),
    )
)
WIDENED = ("f32", "f16", "bf16", "i8")  # what B may be stored in
# What comes before a product and a sum of these names: steps, with what they widen.
WIDENINGS = {
    ("arith.mulf", "arith.addf"): ([], [("arith.extf", (1,))]),
    ("arith.muli", "arith.addi"): ([("arith.extsi", (0,)), ("arith.extsi", (1,))],),
}
CASTS = ("arith.index_cast", "arith.index_castui")
INDICES = ("linalg.index", "arith.addi", "arith.muli", "arith.andi", "arith.cmpi")  # of what follows from indices alone
WIDEST = 16  # elements of a vector
MOST_ELEMENTS = 1 << 12  # of a tile, which becomes vectors without loops


def contraction_of(op: Op) -> Contraction | None:
    """Sizes and layout of a plain or batched matmul with loops in the order (b,) m, n, k; `None` for anything else."""
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
        constant_b=stored.held == "weight" and not b,
        zeroed=c.is_filled and c.start == 0.0 and c.is_own,
        stored_b=stored.dtype if stored.dtype != a.dtype else "",
    )


def is_of_bytes(op: Op) -> bool:
    """Tell whether a contraction is one of signed bytes, summed in 32 bits."""
    steps = [step.name.removeprefix("arith.") for step in op.body]
    return [each.dtype for each in op.operands] == ["i8", "i8", "i32"] and steps == ["extsi", "extsi", "muli", "addi"]


def product_loops(op: Op) -> tuple[list[int], list[int], list[int], list[int]]:
    """Loops of a contraction: of the batch, of A's rows, of B's columns, of the sum.

    Source: `inferContractionDims` of MLIR's linalg.
    """
    a, b, c = ({loop for loop in operand.loops if loop is not None} for operand in op.operands)
    return sorted(a & b & c), sorted((a & c) - b), sorted((b & c) - a), sorted((a & b) - c)


def is_matrix_product(op: Op) -> bool:
    """Return whether an op is a product of two matrices, perhaps of a batch of them; no matrix with a vector."""
    if not op.multiplies:
        return False
    batch, m, n, _ = product_loops(op)
    return bool(batch or (m and n))


def vectorizes(op: Op) -> bool:
    """Return whether an op's operands are read along its loops alone, and what it reduces is combined by one operation.

    Windows (``i + k``), strides (``2 * i``), the first element of several, and reductions of several values at once,
    such as argmax, are not.
    """
    return computes_simply(op) and all(reads_along_loops(each) and reads_whole(each) for each in op.operands)


def lanes_of(op: Op) -> Lanes | None:
    """Loops of the register tile of an op that has windows; `None` of one that vectorizes as it is, or not at all.

    A window may be of one element: a product of elements in several dimensions with a matrix that all of them share, or
    of one matrix with each of several. Sums down columns are of that kind, too: neighbours along the loop that they
    reduce are a row apart.
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
    """Parallel loops that the first operand of products does not go along, where vectors are of that operand alone.

    Such as filters of a convolution in groups whose vectors lie along a row of what they are slid over: each filter
    reads the same vectors, as each position reads the same of a kernel.
    """
    first, second = ({loop for terms in each.terms for loop, _ in terms} for each in op.operands[:2])
    found = [d for d in op.operands[-1].loops if d is not None and d not in first]
    return found if lane in first and lane not in second else []


def stores_columns(kernel: Operand, lane: int, rows: Sequence[int]) -> bool:
    """Return whether a kernel is a weight of rows that are summed, and of columns along the lane."""
    loops = kernel.loops
    along = len(loops) > 1 and loops[-1] == lane and loops[-2] != (rows[-1] if rows else None)
    return along and kernel.held == "weight"


def sums_columns(op: Op, lane: int) -> bool:
    """Return whether an op reduces along a loop while its vectors lie along another: a pool, a row times a matrix."""
    if any(each.growing for each in op.operands) or op.outputs[0].shape[-1] < FEWEST_COLUMNS:
        return False
    whole = [each.loops for each in op.operands[:-1] if len(each.indices) == len(op.nest.iterators)]
    return bool(whole) and all(dims[-1] == lane for dims in whole)


def transposed_loop(op: Op) -> int | None:
    """The loop along which an input of an element-wise op lies side by side, where that is not the last one.

    An input that does not lie along the last one at all is the same for all of a vector: nothing of it is transposed.
    """
    if len(op.operands[-1].indices) != len(op.nest.iterators):
        return None
    lane = len(op.nest.iterators) - 1
    last = [loops[-1] for each in op.operands[:-1] if lane in (loops := each.loops)]
    return next((d for d in last if d is not None and d != lane), None)


def sums_products(op: Op) -> bool:
    """Return whether an op multiplies its two inputs, widened or not, and adds that to what was there.

    Of floats the second one may be widened, of bytes both are.
    """
    *widened, product, total = op.body if len(op.body) > 1 else (None, None)
    if product is None or total is None:
        return False
    before = [(step.name, step.operands) for step in widened]
    if before not in WIDENINGS.get((product.name, total.name), ()):
        return False
    values = {operands: op.first_step + number for number, (_, operands) in enumerate(before)}
    factors, multiplied = {values.get((each,), each) for each in (0, 1)}, op.first_step + len(before)
    return set(product.operands) == factors and set(total.operands) == {2, multiplied} and op.gives[0] == multiplied + 1


def lane_of(op: Op) -> int | None:
    """The loop along which neighbours are neighbours in every operand, all other loops standing still.

    Pooling with channels last has one, a convolution with channels first and strides has none.
    """
    if not computes_simply(op):
        return None
    written = [each.loops for each in op.outputs]
    lane = written[0][-1] if written[0] else None
    alone = {d for each in op.operands for d in each.loops if d is not None}
    if lane is None or any(None in loops or loops[-1:] != [lane] for loops in written):
        return None
    if len(alone) < len(op.nest.iterators):
        return None
    return lane if all(runs_along(each, lane) for each in op.operands) else None


def computes_simply(op: Op) -> bool:
    """Return whether an op's body is scalar ops, and what it reduces is combined by one of them."""
    if not op.gives or not all(step.name.startswith(SCALAR) and not step.nested for step in op.body):
        return False
    loops = len(op.nest.iterators)
    return all(len(set(each.loops)) == loops for each in op.outputs) or all(
        combines(op, number) for number in range(op.results)
    )


def runs_along(operand: Operand, lane: int) -> bool:
    """Return whether an operand's last dimension, and no other, goes with a loop, by ones; or none does."""
    factors = [index.factor(lane) for index in operand.indices]
    return all(factor == 0 for factor in factors[:-1]) and (not factors or factors[-1] in (0, 1))


def reads_along_loops(operand: Operand) -> bool:
    """Return whether each dimension of an operand is one loop of its own, or always its first element."""
    loops = [loop for loop in operand.loops if loop is not None]
    others = [index for index in operand.indices if index.loop is None]
    return len(set(loops)) == len(loops) and all(index.is_constant and not index.constant for index in others)


def reads_whole(operand: Operand) -> bool:
    """Return whether an operand is read at its first element only along dimensions that have no other."""
    return all(size == 1 for size, index in zip(operand.shape, operand.indices, strict=False) if index.is_constant)


def combines(op: Op, number: int) -> bool:
    """Return whether a result of a reduction is what was there, combined with something by one operation."""
    there = len(op.inputs) + number
    by = op.maker(op.gives[number])
    if by is None or by.name not in COMBINES or there not in by.operands:
        return False
    uses = sum(step.operands.count(there) for step in op.body) + op.gives.count(there)
    return uses == 1 and any(reads_tensor(op, value) for value in by.operands if value != there)


def reads_tensor(op: Op, value: int) -> bool:
    """Return whether a value in a body comes from an element of an input.

    Upstream's vectorizer makes vectors of all loops of those alone: a constant that is summed it adds once a tile.
    """
    waiting, seen = [value], {value}
    while waiting:
        number = waiting.pop()
        by = op.maker(number)
        if by is None and 0 <= number < len(op.inputs) and not op.operands[number].is_scalar:
            return True
        new = set(by.operands if by is not None else ()) - seen
        seen |= new
        waiting += new
    return False


def counts_reduced(op: Op) -> bool:
    """Return whether an op computes with the count of a loop that it reduces."""
    counted = (int(step.value or 0) for step in op.body if step.name == "linalg.index")
    return any(op.nest.iterators[loop] == "reduction" for loop in counted)


def gathers(op: Op) -> bool:
    """Return whether an op reads elements of tensors, at indices that are all loops' or such elements themselves."""
    reads = [step for step in op.body if is_gathering(op, step)]
    return bool(reads) and all(is_known_index(op, value) for step in reads for value in step.operands[1:])


def is_gathering(op: Op, step: BodyOp) -> bool:
    """Return whether a step reads an element of a tensor that is no constant."""
    if step.name != "tensor.extract" or step.nested:
        return False
    source = step.operands[0] - len(op.operands)
    return not (0 <= source < len(op.captured) and op.captured[source].held == "constant")


def is_known_index(op: Op, value: int) -> bool:
    """Return whether a value is a constant, a loop's index, or an element of a tensor cast to an index."""
    by = op.maker(value)
    if by is not None and by.name in CASTS:
        by = op.maker(by.operands[0])
        return by is not None and by.name == "tensor.extract"
    return by is not None and by.name in ("arith.constant", "linalg.index")


def periods_of(op: Op) -> tuple[int, ...]:
    """Steps of each loop after which a stencil reads as before, so many indices further; empty of any other op.

    A tile begins at a multiple of these. Where a read wraps around, or the body asks for the index, that is the whole
    loop; an op of which a tile would be more than `MOST_ELEMENTS` is no stencil.
    """
    if not op.sizes or not is_stencil(op):
        return ()
    indices = [index for operand in op.operands for index in operand.indices]
    asked = {int(step.value or 0) for step in op.body if step.name == "linalg.index"}
    found = tuple(
        size if loop in asked else lcm(*(period(index, loop, size) for index in indices))
        for loop, size in enumerate(op.sizes)
    )
    return found if prod(found[:-1]) * max(found[-1], WIDEST) <= MOST_ELEMENTS else ()


def is_stencil(op: Op) -> bool:
    """Return whether an op computes each element from some that others read too, and is no vector as it is."""
    if op.results != 1 or not computes_simply(op) or vectorizes(op):
        return False
    there = len(op.operands) - 1
    own = op.operands[-1].loops == list(range(len(op.nest.iterators)))
    unread = not any(there in step.operands for step in op.body) and there not in op.gives
    plain = all(step.name != "tensor.extract" and uses_indices_well(op, step) for step in op.body)
    plain &= not any(is_known(op, value) for value in op.gives)
    return own and unread and plain and all(is_regular(index) for each in op.operands for index in each.indices)


def uses_indices_well(op: Op, step: BodyOp) -> bool:
    """Return whether what a step takes of indices alone are conditions of selections, or makes more of it."""
    if step.name in INDICES and all(is_known(op, value) or is_number(op, value) for value in step.operands):
        return True
    known = [number for number, value in enumerate(step.operands) if is_known(op, value)]
    return not known or (step.name == "arith.select" and known == [0])


def is_known(op: Op, value: int) -> bool:
    """Return whether a value follows from the index of an element, by whole numbers alone."""
    by = op.maker(value)
    if by is None or by.name not in INDICES:
        return False
    return all(is_known(op, each) or is_number(op, each) for each in by.operands)


def is_number(op: Op, value: int) -> bool:
    """Return whether a value is a constant whole number."""
    by = op.maker(value)
    return by is not None and by.name == "arith.constant" and not by.dtypes[0].startswith(("f", "bf"))


def is_regular(index: Index) -> bool:
    """Return whether an index is a sum of loops, of such parts of them, and of what is left of such parts.

    None of them goes backward: upstream cuts no such op into tiles.
    """
    if goes_back(index):
        return False
    inside = {"mod": is_regular, "floordiv": is_linear}
    return all(part.kind in inside and inside[part.kind](part.inner) for part in index.parts)


def is_linear(index: Index) -> bool:
    """Return whether an index is a sum of multiples of loops, none below zero."""
    return not index.parts and not goes_back(index)


def goes_back(index: Index) -> bool:
    """Return whether a loop or a part counts less than none."""
    return any(c < 0 for _, c in index.terms) or any(part.factor < 0 for part in index.parts)


def period(index: Index, loop: int, size: int) -> int:
    """Steps of a loop after which an index is so many indices further."""
    return lcm(*(period_of_part(part.kind, part.inner, part.by, loop, size) for part in index.parts))


def period_of_part(kind: str, inner: Index, by: int, loop: int, size: int) -> int:
    """Steps of a loop after which a part of an index is so many indices further."""
    if all(each != loop for each, _ in inner.moving):
        return 1
    factor = inner.factor(loop)
    return size if factor is None or kind == "mod" else by // gcd(factor, by)
