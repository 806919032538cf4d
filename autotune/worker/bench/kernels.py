"""Kernels written by hand, whose work is known exactly: roofs, noise and the machine's speed are measured by them."""

import re
from dataclasses import replace

from autotune.core.payload import Argument, Array, Payload


def fma_payload(lanes: int, chains: int, steps: int) -> Payload:
    """`chains` accumulators that each take `steps` FMAs, all in registers."""
    kind, memory = f"vector<{lanes}xf32>", f"memref<{lanes}xf32>"
    text = f"""
  func.func @fma(%out: {memory}) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %n = arith.constant {steps} : index
    %x = vector.load %out[%c0] : {memory}, {kind}
{each(chains, f"    %s# = arith.constant dense<#.5> : {kind}")}
{accumulate(chains, lanes, "%c1", "%s#", f"      %b# = math.fma %a#, %x, %x : {kind}")}
    return
  }}"""
    return Payload("fma", text, "fma", (Argument("out", "output", (lanes,)),))


def spin_payload(lanes: int, steps: int, chains: int = 8) -> Payload:
    """Compute in registers for `steps` rounds; what is written does not depend on how many."""
    kind, memory = f"vector<{lanes}xf32>", f"memref<{lanes}xf32>"
    text = f"""
  func.func @spin(%in: {memory}, %out: {memory}) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %n = arith.constant {steps} : index
    %x = vector.load %in[%c0] : {memory}, {kind}
    %one = arith.constant dense<1.0> : {kind}
{each(chains, f"    %start# = arith.constant dense<#.5> : {kind}")}
{accumulate(chains, lanes, "%c1", "%start#", f"      %b# = math.fma %a#, %x, %one : {kind}")}
    return
  }}"""
    small = Argument("in", "input", (lanes,), low=-0.5, high=0.5)  # sums of its powers are finite
    return Payload("spin", text, "spin", (small, Argument("out", "output", (lanes,))))


def read_payload(lanes: int, size: int, chains: int = 8) -> Payload:
    """Sum an array of `size` bytes with `chains` accumulators."""
    step = lanes * chains
    count = size // 4 // step * step
    kind, memory = f"vector<{lanes}xf32>", f"memref<{count}xf32>"
    add = f"""\
      %i# = arith.addi %k, %o# : index
      %v# = vector.load %in[%i#] : {memory}, {kind}
      %b# = arith.addf %a#, %v# : {kind}"""
    offsets = "\n".join(f"    %o{i} = arith.constant {i * lanes} : index" for i in range(chains))
    text = f"""
  func.func @read(%in: {memory}, %out: memref<{lanes}xf32>) {{
    %c0 = arith.constant 0 : index
    %step = arith.constant {step} : index
    %n = arith.constant {count} : index
    %zero = arith.constant dense<0.0> : {kind}
{offsets}
{accumulate(chains, lanes, "%step", "%zero", add)}
    return
  }}"""
    arguments = (Argument("in", "input", (count,)), Argument("out", "output", (lanes,)))
    return Payload("read", text, "read", arguments, reduction=count)


def accumulate(chains: int, lanes: int, step: str, start: str, body: str) -> str:
    """A loop over accumulators that do not wait for each other, and a store of their sum to ``%out``.

    Args:
        chains: Number of accumulators.
        lanes: Elements of each.
        step: Value the counter ``%k`` grows by, from ``%c0`` to ``%n``.
        start: Value that accumulator ``%a#`` begins with; ``#`` stands for its number.
        body: Lines that make ``%b#``, its next value, of it.
    """
    kind = f"vector<{lanes}xf32>"
    kinds = ", ".join([kind] * chains)
    total, sums = "%r#0", []
    for i in range(1, chains):
        name = "%total" if i == chains - 1 else f"%t{i}"
        sums.append(f"    {name} = arith.addf {total}, %r#{i} : {kind}")
        total = name
    return "\n".join(
        [
            f"    %r:{chains} = scf.for %k = %c0 to %n step {step} "
            f"iter_args({each(chains, f'%a# = {start}', ', ')}) -> ({kinds}) {{",
            each(chains, body),
            f"      scf.yield {each(chains, '%b#', ', ')} : {kinds}",
            "    }",
            *sums,
            f"    vector.store {total}, %out[%c0] : memref<{lanes}xf32>, {kind}",
        ]
    )


def each(count: int, text: str, between: str = "\n") -> str:
    """A text once for every number below `count`, which stands where it has ``#``."""
    return between.join(text.replace("#", str(i)) for i in range(count))


def copy_payload(count: int, lanes: int) -> Payload:
    """Copy `count` f32, in vectors of `lanes`: nothing transforms as many bytes faster than they are copied."""
    kind, memory = f"vector<{lanes}xf32>", f"memref<{count}xf32>"
    whole = count // lanes * lanes
    text = f"""
  func.func @copy(%x: {memory}, %y: {memory}) {{
    %start = arith.constant 0 : index
    %end = arith.constant {whole} : index
    %last = arith.constant {count} : index
    %one = arith.constant 1 : index
    %step = arith.constant {lanes} : index
    scf.for %i = %start to %end step %step {{
      %v = vector.load %x[%i] : {memory}, {kind}
      vector.store %v, %y[%i] : {memory}, {kind}
    }}
    scf.for %i = %end to %last step %one {{
      %s = memref.load %x[%i] : {memory}
      memref.store %s, %y[%i] : {memory}
    }}
    return
  }}"""
    arguments = (Argument("x", "input", (count,)), Argument("y", "output", (count,)))
    return Payload("copy", text, "copy", arguments, reference=same)


def same(x: Array) -> tuple[Array, ...]:
    """The oracle of a copy."""
    return (x,)


def on_threads(kernel: Payload, threads: int) -> Payload:
    """A kernel once on each thread, on arrays of its own: those of a thread are a row of the whole's."""
    if threads == 1:
        return kernel
    row = "memref<{0}xf32, strided<[1], offset: ?>>"
    inner = re.sub(r"memref<(\d+)xf32>", lambda found: row.format(found[1]), kernel.text)
    arguments = [replace(argument, shape=(threads, *argument.shape)) for argument in kernel.arguments]
    kinds = [row.format(argument.shape[0]) for argument in kernel.arguments]
    rows = "\n".join(
        f"      %row{i} = memref.subview %all{i}[%t, 0] [1, {a.shape[1]}] [1, 1] : {a.type} to {kind}"
        for i, (a, kind) in enumerate(zip(arguments, kinds, strict=True))
    )
    text = f"""{inner}
  func.func @{kernel.entry}_on_threads({", ".join(f"%all{i}: {a.type}" for i, a in enumerate(arguments))}) {{
    %first = arith.constant 0 : index
    %one = arith.constant 1 : index
    %threads = arith.constant {threads} : index
    scf.parallel (%t) = (%first) to (%threads) step (%one) {{
{rows}
      func.call @{kernel.entry}({", ".join(f"%row{i}" for i in range(len(kinds)))}) : ({", ".join(kinds)}) -> ()
    }}
    return
  }}"""
    return replace(kernel, text=text, entry=f"{kernel.entry}_on_threads", arguments=tuple(arguments))
