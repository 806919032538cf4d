"""Layout by which 64 bytes of a block-quantized weight are multiplied with 8-bit activations.

    y[n] = sum over b of  scale_x[b] scale_w[n, b] (sum over j of u[n, b, j] x[b, j]  -  shift sum over j of x[b, j])

``u`` is unsigned, as the instruction requires for one operand: the integer of the weight plus `shift`. The correction
is known once activations are rounded, and is the initial value of the sums.
"""

from dataclasses import dataclass

BYTES = 64  # per step: one vector
QUARTER = 16  # contiguous elements of a block in one operand
LANES = 16  # i32 sums per vector, of four bytes each


@dataclass(frozen=True)
class BlockSteps:
    """Layout of the steps in which a row of a weight is multiplied.

    Attributes:
        bits: Bits per integer, 8 or 4.
        halves: Number of operands that hold the elements of a block, 16 each.
        signed: Whether integers are signed.
        least: Whether blocks have a minimum, which is subtracted.
        blocks: Number of blocks per row.
    """

    bits: int
    halves: int
    signed: bool
    least: bool
    blocks: int

    @property
    def vectors(self) -> int:
        """Vectors of activations per step: two for nibbles."""
        return 8 // self.bits

    @property
    def count(self) -> int:
        """Blocks per step."""
        return BYTES * self.vectors // (QUARTER * self.halves)

    @property
    def block_bytes(self) -> int:
        """Bytes per block."""
        return BYTES // self.count

    @property
    def shift(self) -> int:
        """Offset that makes a signed integer unsigned."""
        return 1 << (self.bits - 1) if self.signed else 0

    @property
    def whole(self) -> int:
        """Number of full steps."""
        return self.blocks // self.count

    @property
    def left(self) -> int:
        """Blocks of the last step if it is not full, else 0."""
        return self.blocks % self.count

    @property
    def steps(self) -> int:
        """Number of all steps."""
        return self.whole + bool(self.left)

    @property
    def words(self) -> int:
        """Words per step of a row of activations: its bytes, then initial sums, then scales, one per lane."""
        return LANES * (self.vectors + 2)

    @property
    def row_words(self) -> int:
        """Words per row: those of all steps, then block sums in f32 if there are minimums, padded to vectors."""
        return self.steps * self.words + (-(-self.blocks // LANES) * LANES if self.least else 0)

    def block_of(self, quarter: int) -> int:
        """Return the block of a step that a quarter of a vector belongs to."""
        return quarter if self.vectors == 2 else quarter // self.halves

    def half_of(self, vector: int, quarter: int) -> int:
        """Return the half of a block that a quarter belongs to; of nibbles, the second vector has the second halves."""
        return vector if self.vectors == 2 else quarter % self.halves

    @property
    def lane_blocks(self) -> list[int]:
        """Block of a step that each lane of its sums belongs to."""
        return [self.block_of(lane * 4 // QUARTER) for lane in range(LANES)]
