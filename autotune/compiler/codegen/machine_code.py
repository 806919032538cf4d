"""Static analysis of machine code as llvm-objdump prints it: find the hot loop, and count its instructions."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

# comments begin with # on x86, where immediates begin with $; on Arm with //, and immediates with #
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)[ \t]*(.*?)\s*(#\s.*|//.*)?$")
TARGET = re.compile(r"0x([0-9a-f]+)\s*(<|$)")
JUMP = re.compile(r"j[a-z]+|b|b\.[a-z]+|cbn?z|tbn?z")
FMA = re.compile(r"vfn?m(add|sub)\d*[ps][sd]|fn?ml[as]|fn?mad|fn?msb|fn?m(add|sub)")
ARITHMETIC = re.compile(
    r"v?(add|sub|mul|div|max|min|sqrt|and|or|xor)n?p[sd]|f(add|subr?|mul|divr?|max(nm)?|min(nm)?|sqrt|scale)"
    r"|vpdp\w+|vdpbf16ps|tdp\w+|vpmadd\w+|[su]?dot|[su]mmla"
)
WIDTHS = ((re.compile(r"%zmm"), 512), (re.compile(r"%ymm"), 256), (re.compile(r"%xmm|\bv\d+\.|\bq\d+"), 128))
SCALABLE = re.compile(r"\bz\d+\b")  # SVE registers; their length depends on the machine
STACK = re.compile(r"\(%[re](sp|bp)\b|\[sp\b")
ADDRESS = re.compile(r"\(|\[(x|sp|z)")  # on Arm, lane indices are in brackets, too


@dataclass(frozen=True)
class Instruction:
    """One machine instruction.

    Attributes:
        address: Address of the instruction.
        mnemonic: Name of the instruction.
        operands: Operands as objdump prints them: AT&T syntax on x86, the destination last.
        scalable_bits: Bits of an SVE vector on the target; 0 without SVE.
    """

    address: int
    mnemonic: str
    operands: str
    scalable_bits: int = 0

    @property
    def target(self) -> int | None:
        """Target address of a direct jump; `None` for any other instruction."""
        match = TARGET.search(self.operands)
        return int(match[1], 16) if match and JUMP.fullmatch(self.mnemonic) else None

    @property
    def width(self) -> int:
        """Bits of the widest vector register among its operands; 0 if there is none."""
        if self.scalable_bits and SCALABLE.search(self.operands):
            return self.scalable_bits
        return next((bits for pattern, bits in WIDTHS if pattern.search(self.operands)), 0)

    @property
    def is_fma(self) -> bool:
        """Whether it is a fused multiply-add."""
        return bool(FMA.fullmatch(self.mnemonic))

    @property
    def is_arithmetic(self) -> bool:
        """Whether it is floating-point arithmetic, or an integer dot product."""
        return self.is_fma or bool(ARITHMETIC.fullmatch(self.mnemonic))

    @property
    def touches_memory(self) -> bool:
        """Whether it loads or stores; address computations and prefetches do not count."""
        return bool(ADDRESS.search(self.operands)) and not self.mnemonic.startswith(("lea", "nop", "prefetch"))

    @property
    def stores(self) -> bool:
        """Whether its memory operand is written."""
        written = re.search(r"\)$", self.operands) if "%" in self.operands else self.mnemonic.startswith("st")
        return self.touches_memory and bool(written) and not self.mnemonic.startswith(("cmp", "test", "vucom"))

    @property
    def text(self) -> str:
        """Assembly syntax, without the symbols that objdump adds to addresses."""
        return f"{self.mnemonic}\t{re.sub(r'<[^>]*>', '', self.operands).strip()}".rstrip()


@dataclass(frozen=True)
class MachineLoop:
    """Instructions from the target of a backward jump to that jump.

    Attributes:
        body: Instructions of the loop, in order.
        depth: Number of enclosing loops.
    """

    body: tuple[Instruction, ...]
    depth: int

    @property
    def fmas(self) -> int:
        """Vector multiply-adds in one iteration."""
        return sum(i.is_fma for i in self.body)

    @property
    def arithmetic(self) -> int:
        """Floating-point operations in one iteration, each vector counted once."""
        return sum(i.is_arithmetic for i in self.body)


@dataclass(frozen=True)
class InstructionMix:
    """Counts of a loop's instructions by kind.

    Attributes:
        instructions: Number of instructions in one iteration.
        fmas: Multiply-adds.
        arithmetic: Floating-point operations, multiply-adds included.
        vector_bits: Width in bits of the widest of those; 0 if there are none.
        loads: Instructions that read memory.
        stores: Instructions that write memory.
        spills: Accesses to the stack.
    """

    instructions: int
    fmas: int
    arithmetic: int
    vector_bits: int
    loads: int
    stores: int
    spills: int

    @property
    def fma_share(self) -> float:
        """Share of multiply-adds among all instructions."""
        return self.fmas / self.instructions if self.instructions else 0.0

    def __str__(self) -> str:
        """Format the counts on one line.

        Example:
            >>> str(InstructionMix(20, 12, 12, 256, 8, 0, 0))
            '20 instructions: 12 FMAs (60%) of 256 bits, 0 other arithmetic, 8 loads (0.67 an FMA), 0 stores, 0 spills'
        """
        ratio = f" ({self.loads / self.fmas:.2f} an FMA)" if self.fmas else ""
        return (
            f"{self.instructions} instructions: {self.fmas} FMAs ({self.fma_share:.0%}) of {self.vector_bits} bits, "
            f"{self.arithmetic - self.fmas} other arithmetic, {self.loads} loads{ratio}, {self.stores} stores, "
            f"{self.spills} spills"
        )


def read_instructions(disassembly: str, scalable_bits: int = 0) -> tuple[Instruction, ...]:
    """Parse the instructions of a disassembly.

    Args:
        disassembly: Output of llvm-objdump.
        scalable_bits: Bits of an SVE vector on the target; 0 without SVE.
    """
    lines = (INSTRUCTION.match(line) for line in disassembly.splitlines())
    return tuple(Instruction(int(m[1], 16), m[2], m[3].strip(), scalable_bits) for m in lines if m)


def find_loops(code: Sequence[Instruction]) -> list[MachineLoop]:
    """Find loops by backward jumps; loops that share a header count once, as the longest."""
    ends: dict[int, int] = {}
    for instruction in code:
        target = instruction.target
        if target is not None and target <= instruction.address:
            ends[target] = max(ends.get(target, 0), instruction.address)
    ranges = sorted(ends.items())
    return [
        MachineLoop(
            tuple(i for i in code if start <= i.address <= end),
            sum(s <= start and end <= e and (s, e) != (start, end) for s, e in ranges),
        )
        for start, end in ranges
    ]


def hot_loop(code: Sequence[Instruction]) -> MachineLoop | None:
    """Return the innermost loop with the most arithmetic; ties go to the most FMAs, then to the deepest.

    This is a heuristic, as trip counts are not known. `None` if there is no loop.
    """
    loops = find_loops(code)
    heads = {loop.body[0].address for loop in loops}
    inner = [loop for loop in loops if not any(i.address in heads for i in loop.body[1:])]
    return max(inner, key=lambda loop: (loop.arithmetic, loop.fmas, loop.depth), default=None)


def mix_of(loop: MachineLoop) -> InstructionMix:
    """Count a loop's instructions."""
    body = loop.body
    return InstructionMix(
        instructions=len(body),
        fmas=loop.fmas,
        arithmetic=loop.arithmetic,
        vector_bits=max((i.width for i in body if i.is_arithmetic), default=0),
        loads=sum(i.touches_memory and not i.stores for i in body),
        stores=sum(i.stores for i in body),
        spills=sum(i.touches_memory and bool(STACK.search(i.operands)) for i in body),
    )
