"""Stress: one program of several threads again and again, to see whether they race. In the isolated process only."""

from dataclasses import dataclass

from autotune.compiler.lowering.program import compile_program
from autotune.core.candidate import Claim
from autotune.core.host.machine import this_machine
from autotune.core.payload import Argument, Payload
from autotune.worker.bench.testbench import open_testbench


@dataclass(frozen=True)
class Stress:
    """A program, and how often it is to be called."""

    claim: Claim
    runs: int


def count_wrong(wanted: Stress) -> int:
    """Calls whose results are not what the oracle says, each from poisoned outputs and within the usual tolerance.

    Raises:
        CompileError: The program does not compile.
    """
    payload, candidate = wanted.claim.payload, wanted.claim.candidate
    program = compile_program(payload, candidate)
    bench = open_testbench(payload, wanted.claim.seed, this_machine().pages)
    return sum(bench.verify_again(bench.bind(program)).outcome != "ok" for _ in range(wanted.runs))


def racing_payload(steps: int) -> Payload:
    """Threads that all add to one number, without a word to each other: a lost addition is a race that showed.

    Args:
        steps: Additions in all; the fewer there are, the rarer threads meet.
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
