"""Memory images: the arrays of a call as bytes with guard bytes between them, for a program on another processor.

    payload, seed --draw_images--> bytes per case --program--> bytes per case --judge_images--> Verdict

The harness copies an image into memory, calls the function with pointers into it, and copies the memory back, so that
outputs, inputs and guard bytes can all be checked. Both functions run in the isolated process.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from autotune.compiler.panel_weight import PanelWeight
from autotune.core.payload import DTYPES, WRITTEN, Argument, Array, Payload
from autotune.worker.bench.testbench import Testbench, open_testbench
from autotune.worker.bench.verify import Verdict

ALIGNMENT = 64  # bytes; alignment of every array and of the image
FENCE_BYTES, FENCE = 64, 0xA5  # guard bytes before and after every array


@dataclass(frozen=True)
class EmulatedCall:
    """Call of a payload's program.

    Attributes:
        payload: Payload to compute.
        weights: Packed weights, which the program takes after the payload's arguments.
        seed: Seed of the inputs.
    """

    payload: Payload
    weights: tuple[PanelWeight, ...] = ()
    seed: int = 0

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """All arguments of the program, in order."""
        mine = self.payload.arguments
        return (*mine, *(weight.argument(mine[weight.source]) for weight in self.weights))


@dataclass(frozen=True)
class ImageLayout:
    """Layout of the arrays in an image.

    Attributes:
        offsets: Offset of each array in bytes.
        size: Size of the image in bytes.
    """

    offsets: tuple[int, ...]
    size: int


@dataclass(frozen=True)
class Answer:
    """Images after a call, one for each case, in order."""

    call: EmulatedCall
    images: tuple[bytes, ...]


def lay_out(arguments: Sequence[Argument]) -> ImageLayout:
    """Assign every array an aligned offset, with guard bytes before and after it."""
    offsets, end = [], 0
    for argument in arguments:
        offsets.append(end + FENCE_BYTES)
        end = -(-(offsets[-1] + argument.bytes) // ALIGNMENT) * ALIGNMENT
    return ImageLayout(tuple(offsets), end + FENCE_BYTES)


def draw_images(call: EmulatedCall) -> tuple[bytes, ...]:
    """Return the image of each case before the call; outputs are poisoned."""
    bench = open_testbench(call.payload, call.seed)
    return tuple(draw(bench, call, number) for number in range(len(bench.cases)))


def draw(bench: Testbench, call: EmulatedCall, number: int) -> bytes:
    """Return the image of one case."""
    bench.restart(bench.cases[number])
    layout = lay_out(call.arguments)
    image = np.full(layout.size, FENCE, np.uint8)
    for offset, array in zip(layout.offsets, [*bench.arrays, *map(bench.stored, call.weights)], strict=True):
        image[offset : offset + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return image.tobytes()


def judge_images(answer: Answer) -> Verdict:
    """Compare the images after a call with the oracle, and check that only outputs were written."""
    call, layout = answer.call, lay_out(answer.call.arguments)
    bench = open_testbench(call.payload, call.seed)
    pairs = list(zip(call.arguments, layout.offsets, strict=True))
    written = [(argument, offset) for argument, offset in pairs if argument.role in WRITTEN]
    worst = 0.0
    for number, (_, image) in enumerate(zip(bench.cases, answer.images, strict=True)):
        before, after = np.frombuffer(draw(bench, call, number), np.uint8).copy(), np.frombuffer(image, np.uint8)
        if len(after) != layout.size:
            return Verdict("wrong-result", np.inf, f"it must give {layout.size} bytes back, it gave {len(after)}")
        got = [cut_out(after, argument, offset) for argument, offset in written]
        for argument, offset in written:
            before[offset : offset + argument.bytes] = after[offset : offset + argument.bytes]
        if not np.array_equal(before, after):
            return Verdict("wrong-result", np.inf, trespass(int(np.flatnonzero(before != after)[0]), pairs))
        verdict = bench.judge(number, got)
        worst = max(worst, verdict.max_error)
        if verdict.outcome != "ok":
            return replace(verdict, max_error=worst)
    return Verdict("ok", worst)


def cut_out(image: Array, argument: Argument, offset: int) -> Array:
    """Return a view of one array of an image."""
    return image[offset : offset + argument.bytes].view(DTYPES[argument.dtype]).reshape(argument.shape)


def trespass(index: int, pairs: Sequence[tuple[Argument, int]]) -> str:
    """Return a sentence on a byte that was written and must not be."""
    for argument, offset in pairs:
        if offset <= index < offset + argument.bytes:
            return f"inputs must not be written; {argument.name} was"
    before = [argument.name for argument, offset in pairs if offset + argument.bytes <= index]
    where = f"behind {before[-1]}" if before else "before the first"
    return f"nothing but outputs must be written; something {where} was"
