"""The hot loop of machine code, and its throughput by llvm-mca for this host or another processor."""

from dataclasses import dataclass

from autotune.compiler.codegen.llvm_tools import Throughput, predict
from autotune.compiler.codegen.machine_code import InstructionMix, MachineLoop, hot_loop, mix_of, read_instructions
from autotune.core.errors import MachineError
from autotune.core.target import Target


@dataclass(frozen=True)
class HotLoop:
    """A loop with its instruction mix and predicted throughput.

    Attributes:
        loop: Instructions of the loop.
        mix: Counts of those instructions by kind.
        expected: Throughput by llvm-mca; `None` if it does not support the instructions.
        why_not: Reason why llvm-mca failed; empty if it did not.
    """

    loop: MachineLoop
    mix: InstructionMix
    expected: Throughput | None
    why_not: str = ""

    @property
    def flops(self) -> int:
        """Floating-point operations of the multiply-adds in one iteration."""
        return self.mix.fmas * 2 * self.mix.vector_bits // 32

    @property
    def expectation(self) -> str:
        """Human-readable throughput by llvm-mca."""
        if self.expected is None:
            return f"llvm-mca: {self.why_not}"
        rate = f", {self.mix.fmas / self.expected.cycles:.2f} FMAs a cycle" if self.mix.fmas else ""
        return (
            f"llvm-mca ({self.expected.cpu}): {self.expected.cycles:.1f} cycles an iteration{rate}; its busiest unit "
            f"alone takes {self.expected.bound:.1f}; data in L1"
        )


def judge_hot_loop(disassembly: str, target: Target | None = None) -> HotLoop | None:
    """Find and analyze the hot loop of a disassembly (`machine_code.hot_loop`); `None` if there is no loop.

    Args:
        disassembly: Output of llvm-objdump.
        target: Target machine; `None` for this host.
    """
    loop = hot_loop(read_instructions(disassembly, 128 * target.vscale if target is not None else 0))
    if loop is None:
        return None
    try:
        return HotLoop(loop, mix_of(loop), predict([instruction.text for instruction in loop.body], target))
    except MachineError as error:
        return HotLoop(loop, mix_of(loop), None, str(error))
