"""How 64 bytes of a weight in blocks meet 8-bit activations, and what lies beside those in the words of a row.

    y[n] = sum over b of  scale_x[b] scale_w[n, b] (sum over j of u[n, b, j] x[b, j]  -  shift sum over j of x[b, j])

``u`` has no sign, as the instruction wants one of its operands: the whole number of the weight with `shift` added. What
that adds is known once activations are rounded, and sums begin with it.
"""

from dataclasses import dataclass

BYTES = 64  # of a step: a vector
QUARTER = 16  # elements of a block that lie side by side in one operand
LANES = 16  # sums of a vector, of four bytes each


@dataclass(frozen=True)
class BlockSteps:
    """The steps that a row of a weight is multiplied in.

    Attributes:
        bits: Bits of a whole number, 8 or 4.
        halves: Operands that hold the elements of a block, 16 each.
        signed: Whether whole numbers have a sign.
        least: Whether blocks have a least number, which is subtracted.
        blocks: Blocks of a row.
    """

    bits: int
    halves: int
    signed: bool
    least: bool
    blocks: int

    @property
    def vectors(self) -> int:
        """Vectors of bytes of activations that a step multiplies: nibbles are two."""
        return 8 // self.bits

    @property
    def count(self) -> int:
        """Blocks of a step."""
        return BYTES * self.vectors // (QUARTER * self.halves)

    @property
    def block_bytes(self) -> int:
        """Bytes of a block."""
        return BYTES // self.count

    @property
    def shift(self) -> int:
        """What is added to a whole number that has a sign."""
        return 1 << (self.bits - 1) if self.signed else 0

    @property
    def whole(self) -> int:
        """Steps that are full."""
        return self.blocks // self.count

    @property
    def left(self) -> int:
        """Blocks of the last step, where it is not full."""
        return self.blocks % self.count

    @property
    def steps(self) -> int:
        """All steps."""
        return self.whole + bool(self.left)

    @property
    def words(self) -> int:
        """Words of a step of a row of activations: its bytes, then starts of sums, then scales, each lane its own."""
        return LANES * (self.vectors + 2)

    @property
    def row_words(self) -> int:
        """Words of a row: those of all steps, then, where they are subtracted, sums of blocks in f32, whole vectors."""
        return self.steps * self.words + (-(-self.blocks // LANES) * LANES if self.least else 0)

    def block_of(self, quarter: int) -> int:
        """Block of a step that a quarter of a vector is of."""
        return quarter if self.vectors == 2 else quarter // self.halves

    def half_of(self, vector: int, quarter: int) -> int:
        """Operand that a quarter of a vector is in: a nibble's second vector holds second halves."""
        return vector if self.vectors == 2 else quarter % self.halves

    @property
    def lane_blocks(self) -> list[int]:
        """Block of a step that each lane of its sums is of."""
        return [self.block_of(lane * 4 // QUARTER) for lane in range(LANES)]
