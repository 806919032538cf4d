"""Stress test: repeated calls of a multithreaded program to detect data races. For the isolated process only."""

from dataclasses import dataclass

from autotune.compiler.lowering.program import compile_program
from autotune.core.candidate import Claim
from autotune.core.host.machine import this_machine
from autotune.core.payload import Argument, Payload
from autotune.worker.bench.testbench import open_testbench


@dataclass(frozen=True)
class Stress:
    """Program and the number of calls."""

    claim: Claim
    runs: int


def count_wrong(wanted: Stress) -> int:
    """Count calls with results outside the usual tolerance of the oracle; outputs are poisoned before each call.

    Raises:
        CompileError: The program does not compile.
    """
    payload, candidate = wanted.claim.payload, wanted.claim.candidate
    program = compile_program(payload, candidate)
    bench = open_testbench(payload, wanted.claim.seed, this_machine().pages)
    return sum(bench.verify_again(bench.bind(program)).outcome != "ok" for _ in range(wanted.runs))


def racing_payload(steps: int) -> Payload:
    """Return a payload whose threads increment one number without synchronization, so that a race loses increments.

    Args:
        steps: Total number of increments; with fewer, races are rarer.
    """
    text = f"""
  func.func @race(%out: memref<1xf32>) {{
    %first = arith.constant 0 : index
    %step = arith.constant 1 : index
    %last = arith.constant {steps} : index
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    memref.store %zero, %out[%first] : memref<1xf32>
    scf.parallel (%i) = (%first) to (%last) step (%step) {{
      %old = memref.load %out[%first] : memref<1xf32>
      %new = arith.addf %old, %one : f32
      memref.store %new, %out[%first] : memref<1xf32>
    }}
    return
  }}"""
    return Payload("race", text, "race", (Argument("out", "output", (1,)),))
