"""Images: all arrays of a call as bytes, fences between them, for a program that runs on another processor.

    payload, seed --draw_images--> bytes a case --program--> bytes a case --judge_images--> Verdict

Whoever runs the program copies an image into memory, calls with pointers into it, and copies the memory back: outputs,
inputs and fences are then all there to be looked at. Both functions run in the isolated process.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from autotune.compiler.panel_weight import PanelWeight
from autotune.core.payload import DTYPES, WRITTEN, Argument, Array, Payload
from autotune.worker.bench.testbench import Testbench, open_testbench
from autotune.worker.bench.verify import Verdict

ALIGNMENT = 64  # bytes; of every array, and of the image
FENCE_BYTES, FENCE = 64, 0xA5  # before and after every array


@dataclass(frozen=True)
class EmulatedCall:
    """A call of a payload's program.

    Attributes:
        payload: Payload that is computed.
        weights: Arguments that the program takes after those of the payload.
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
    """Where arrays lie in an image.

    Attributes:
        offsets: Bytes before each array.
        size: Bytes of the image.
    """

    offsets: tuple[int, ...]
    size: int


@dataclass(frozen=True)
class Answer:
    """The outcome of the images of a call, one for each case, in order."""

    call: EmulatedCall
    images: tuple[bytes, ...]


def lay_out(arguments: Sequence[Argument]) -> ImageLayout:
    """Give every array an offset: aligned, a fence before and after it."""
    offsets, end = [], 0
    for argument in arguments:
        offsets.append(end + FENCE_BYTES)
        end = -(-(offsets[-1] + argument.bytes) // ALIGNMENT) * ALIGNMENT
    return ImageLayout(tuple(offsets), end + FENCE_BYTES)


def draw_images(call: EmulatedCall) -> tuple[bytes, ...]:
    """The image of each case, as it is before the call: outputs are poisoned."""
    bench = open_testbench(call.payload, call.seed)
    return tuple(draw(bench, call, number) for number in range(len(bench.cases)))


def draw(bench: Testbench, call: EmulatedCall, number: int) -> bytes:
    """The image of one case."""
    bench.restart(bench.cases[number])
    layout = lay_out(call.arguments)
    image = np.full(layout.size, FENCE, np.uint8)
    for offset, array in zip(layout.offsets, [*bench.arrays, *map(bench.stored, call.weights)], strict=True):
        image[offset : offset + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return image.tobytes()


def judge_images(answer: Answer) -> Verdict:
    """Compare images after the call with the oracle; right if that holds, and nothing else was written."""
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
    """An array of an image."""
    return image[offset : offset + argument.bytes].view(DTYPES[argument.dtype]).reshape(argument.shape)


def trespass(index: int, pairs: Sequence[tuple[Argument, int]]) -> str:
    """Sentence on a byte that was written and must not be."""
    for argument, offset in pairs:
        if offset <= index < offset + argument.bytes:
            return f"inputs must not be written; {argument.name} was"
    before = [argument.name for argument, offset in pairs if offset + argument.bytes <= index]
    where = f"behind {before[-1]}" if before else "before the first"
    return f"nothing but outputs must be written; something {where} was"
