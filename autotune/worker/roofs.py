"""The machine's roofs, measured with compiled MLIR: peak FMA rate, and read bandwidth by working set."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from autotune.compiler.lower import TAIL
from autotune.compiler.program import BoundProgram, aligned_empty, compile_program
from autotune.core.machine import Machine, Roofs
from autotune.core.payload import Argument, Payload
from autotune.worker.measure import Effort, measure_interleaved

CHAINS = (8, 10, 12, 14)  # independent FMA chains: enough to hide latency, few enough for 16 registers
REFERENCE_CHAINS = 12  # of the kernel between samples; 8 stay 3 % below the roof on some CPUs
STEPS = 20_000
EFFORT = Effort(samples=25, seconds=0.4)
DRAM_BYTES = 1 << 28


def measure_roofs(machine: Machine) -> Roofs:
    """Measure all roofs; takes about two seconds."""
    return Roofs(
        flops=max(fma_rate(machine, chains) for chains in CHAINS),
        dram_bytes=read_rate(machine, DRAM_BYTES),
        l2_bytes=read_rate(machine, machine.l2_bytes // 2),
    )


def fma_rate(machine: Machine, chains: int) -> float:
    """Best rate of a loop of independent FMAs, in operations a second."""
    (samples,) = measure_interleaved([bind(fma_payload(machine.lanes, chains, STEPS), machine).run], EFFORT)
    return 2 * machine.lanes * chains * STEPS / min(samples.seconds)


def read_rate(machine: Machine, size: int) -> float:
    """Best rate of summing an array of `size` bytes, in bytes a second."""
    (samples,) = measure_interleaved([bind(read_payload(machine.lanes, size), machine).run], EFFORT)
    return size / min(samples.seconds)


@lru_cache(maxsize=1)
def reference_run(machine: Machine) -> Callable[[int], None]:
    """The reference kernel that is timed between samples: FMAs in registers, about 0.1 ms a call."""
    return bind(fma_payload(machine.lanes, REFERENCE_CHAINS, STEPS), machine).run


def reference_flops(machine: Machine) -> int:
    """Operations of one call of the reference kernel, which runs at the FMA roof."""
    return 2 * machine.lanes * REFERENCE_CHAINS * STEPS


def bind(payload: Payload, machine: Machine) -> BoundProgram:
    """Compile a roof kernel and bind it to data of its own."""
    arrays = [aligned_empty(argument, machine.pages) for argument in payload.arguments]
    for array in arrays:
        array.fill(np.float32(0.5))
    return compile_program(payload, None, TAIL).bind(arrays)


def fma_payload(lanes: int, chains: int, steps: int) -> Payload:
    """`chains` accumulators that each take `steps` FMAs, all in registers."""
    kind = f"vector<{lanes}xf32>"
    starts = "\n".join(f"    %s{i} = arith.constant dense<{i}.5> : {kind}" for i in range(chains))
    carried = ", ".join(f"%a{i} = %s{i}" for i in range(chains))
    body = "\n".join(f"      %b{i} = math.fma %a{i}, %x, %x : {kind}" for i in range(chains))
    results = ", ".join(f"%b{i}" for i in range(chains))
    sums = sum_all([f"%r#{i}" for i in range(chains)], kind)
    text = f"""
  func.func @fma(%out: memref<{lanes}xf32>) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %n = arith.constant {steps} : index
    %x = vector.load %out[%c0] : memref<{lanes}xf32>, {kind}
{starts}
    %r:{chains} = scf.for %k = %c0 to %n step %c1 iter_args({carried}) -> ({", ".join([kind] * chains)}) {{
{body}
      scf.yield {results} : {", ".join([kind] * chains)}
    }}
{sums}
    vector.store %total, %out[%c0] : memref<{lanes}xf32>, {kind}
    return
  }}"""
    return Payload("fma", text, "fma", (Argument("out", "output", (lanes,)),))


def read_payload(lanes: int, size: int, chains: int = 8) -> Payload:
    """Sum an array of `size` bytes with `chains` accumulators."""
    kind = f"vector<{lanes}xf32>"
    step = lanes * chains
    count = size // 4 // step * step
    memory = f"memref<{count}xf32>"
    offsets = "\n".join(f"    %o{i} = arith.constant {i * lanes} : index" for i in range(chains))
    carried = ", ".join(f"%a{i} = %zero" for i in range(chains))
    body = "\n".join(
        f"      %i{i} = arith.addi %k, %o{i} : index\n"
        f"      %v{i} = vector.load %in[%i{i}] : {memory}, {kind}\n"
        f"      %b{i} = arith.addf %a{i}, %v{i} : {kind}"
        for i in range(chains)
    )
    results = ", ".join(f"%b{i}" for i in range(chains))
    sums = sum_all([f"%r#{i}" for i in range(chains)], kind)
    text = f"""
  func.func @read(%in: {memory}, %out: memref<{lanes}xf32>) {{
    %c0 = arith.constant 0 : index
    %step = arith.constant {step} : index
    %n = arith.constant {count} : index
    %zero = arith.constant dense<0.0> : {kind}
{offsets}
    %r:{chains} = scf.for %k = %c0 to %n step %step iter_args({carried}) -> ({", ".join([kind] * chains)}) {{
{body}
      scf.yield {results} : {", ".join([kind] * chains)}
    }}
{sums}
    vector.store %total, %out[%c0] : memref<{lanes}xf32>, {kind}
    return
  }}"""
    arguments = (Argument("in", "input", (count,)), Argument("out", "output", (lanes,)))
    return Payload("read", text, "read", arguments, reduction=count)


def sum_all(values: list[str], kind: str) -> str:
    """Add vectors up into ``%total``."""
    lines = []
    total = values[0]
    for index, value in enumerate(values[1:], start=1):
        name = "%total" if index == len(values) - 1 else f"%t{index}"
        lines.append(f"    {name} = arith.addf {total}, {value} : {kind}")
        total = name
    return "\n".join(lines)
