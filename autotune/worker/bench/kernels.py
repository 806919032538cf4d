"""Handwritten kernels with a known number of operations, for measuring roofs, noise floor and drift."""

import re
from dataclasses import replace

from autotune.core.payload import Argument, Array, Payload

TILES_OF_SUMS = 4  # accumulator tiles that keep the matrix unit busy; the other four tiles hold operands


def fma_payload(lanes: int, chains: int, steps: int) -> Payload:
    """Return a kernel of `chains` independent chains of `steps` FMAs each, all in registers."""
    vector, memory = f"vector<{lanes}xf32>", f"memref<{lanes}xf32>"
    text = f"""
  func.func @fma(%out: {memory}) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %n = arith.constant {steps} : index
    %x = vector.load %out[%c0] : {memory}, {vector}
{each(chains, f"    %s# = arith.constant dense<#.5> : {vector}")}
{accumulate(chains, lanes, "%c1", "%s#", f"      %b# = math.fma %a#, %x, %x : {vector}")}
    return
  }}"""
    return Payload("fma", text, "fma", (Argument("out", "output", (lanes,)),))


def dot_payload(intrinsic: str, element: str, chains: int, steps: int) -> Payload:
    """Return a kernel of `chains` accumulators of 16 lanes with `steps` dot-product instructions each, in registers.

    Args:
        intrinsic: LLVM name of the instruction's intrinsic.
        element: Element type packed into 32-bit words: ``bf16``, accumulated in f32, or ``i8`` or ``i16``, in i32.
        chains: Number of accumulators.
        steps: Number of dot-product instructions per accumulator.
    """
    vector, memory = "vector<16xf32>", "memref<16xf32>"
    sums = vector if element == "bf16" else "vector<16xi32>"
    words = f"vector<{64 if element == 'i8' else 32}x{element}>"
    body = f"""\
      %w# = vector.bitcast %a# : {vector} to {sums}
      %d# = llvm.call_intrinsic "{intrinsic}"(%w#, %v, %v) : ({sums}, {words}, {words}) -> {sums}
      %b# = vector.bitcast %d# : {sums} to {vector}"""
    text = f"""
  func.func @dots(%out: {memory}) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %n = arith.constant {steps} : index
    %x = vector.load %out[%c0] : {memory}, {vector}
    %v = vector.bitcast %x : {vector} to {words}
{each(chains, f"    %s# = arith.constant dense<#.5> : {vector}")}
{accumulate(chains, 16, "%c1", "%s#", body)}
    return
  }}"""
    return Payload("dots", text, "dots", (Argument("out", "output", (16,)),))


def tile_payload(intrinsic: str, steps: int) -> Payload:
    """Return a kernel of four AMX accumulator tiles with `steps` tile products each, in tile registers.

    Args:
        intrinsic: LLVM name of the instruction's intrinsic.
        steps: Number of tile products per accumulator tile.
    """
    memory, tile, shape = "memref<1024xf32>", "!llvm.x86_amx", "(i16, i16"
    load = '"llvm.x86.tileloadd64.internal"(%rows, %bytes, {}, %stride) : ' + f"{shape}, !llvm.ptr, i64) -> {tile}"
    dots = "\n".join(
        f'      %d{i} = llvm.call_intrinsic "{intrinsic}"(%rows, %bytes, %bytes, %s{i}, %t{i // 2}, %t{2 + i % 2})'
        f" : {shape}, i16, {tile}, {tile}, {tile}) -> {tile}"
        for i in range(TILES_OF_SUMS)
    )
    stores = "\n".join(
        f'    llvm.call_intrinsic "llvm.x86.tilestored64.internal"(%rows, %bytes, %p{i}, %stride, %r#{i})'
        f" : {shape}, !llvm.ptr, i64, {tile}) -> ()"
        for i in range(TILES_OF_SUMS)
    )
    types, sums = ", ".join([tile] * TILES_OF_SUMS), each(TILES_OF_SUMS, "%s# = %z#", ", ")
    zeros = f'    %z# = llvm.call_intrinsic "llvm.x86.tilezero.internal"(%rows, %bytes) : {shape}) -> {tile}'
    text = f"""
  func.func @tiles(%out: {memory}) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %four = arith.constant 4 : index
    %n = arith.constant {steps} : index
    %rows = arith.constant 16 : i16
    %bytes = arith.constant 64 : i16
    %stride = arith.constant 64 : i64
    %base, %offset, %size, %step = memref.extract_strided_metadata %out : {memory} -> memref<f32>, index, index, index
    %aligned = memref.extract_aligned_pointer_as_index %out : {memory} -> index
    %bytes_before = arith.muli %offset, %four : index
    %begin = arith.addi %aligned, %bytes_before : index
{each(TILES_OF_SUMS, "    %o# = arith.constant # : index")}
    %whole = arith.constant 1024 : index
{each(TILES_OF_SUMS, "    %m# = arith.muli %o#, %whole : index")}
{each(TILES_OF_SUMS, "    %f# = arith.addi %begin, %m# : index")}
{each(TILES_OF_SUMS, "    %i# = arith.index_cast %f# : index to i64")}
{each(TILES_OF_SUMS, "    %p# = llvm.inttoptr %i# : i64 to !llvm.ptr")}
{each(TILES_OF_SUMS, "    %t# = llvm.call_intrinsic " + load.format("%p#"))}
{each(TILES_OF_SUMS, zeros)}
    %r:{TILES_OF_SUMS} = scf.for %k = %c0 to %n step %c1 iter_args({sums}) -> ({types}) {{
{dots}
      scf.yield {each(TILES_OF_SUMS, "%d#", ", ")} : {types}
    }}
{stores}
    return
  }}"""
    return Payload("tiles", text, "tiles", (Argument("out", "output", (1024,)),))


def spin_payload(lanes: int, steps: int, chains: int = 8) -> Payload:
    """Return a kernel of `steps` iterations of FMAs in registers, whose result does not depend on their number."""
    vector, memory = f"vector<{lanes}xf32>", f"memref<{lanes}xf32>"
    text = f"""
  func.func @spin(%in: {memory}, %out: {memory}) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %n = arith.constant {steps} : index
    %x = vector.load %in[%c0] : {memory}, {vector}
    %one = arith.constant dense<1.0> : {vector}
{each(chains, f"    %start# = arith.constant dense<#.5> : {vector}")}
{accumulate(chains, lanes, "%c1", "%start#", f"      %b# = math.fma %a#, %x, %one : {vector}")}
    return
  }}"""
    argument = Argument("in", "input", (lanes,), low=-0.5, high=0.5)  # its geometric series converges
    return Payload("spin", text, "spin", (argument, Argument("out", "output", (lanes,))))


def read_payload(lanes: int, size: int, chains: int = 8) -> Payload:
    """Return a kernel that sums an f32 array of `size` bytes with `chains` vector accumulators."""
    step = lanes * chains
    count = size // 4 // step * step
    vector, memory = f"vector<{lanes}xf32>", f"memref<{count}xf32>"
    add = f"""\
      %i# = arith.addi %k, %o# : index
      %v# = vector.load %in[%i#] : {memory}, {vector}
      %b# = arith.addf %a#, %v# : {vector}"""
    offsets = "\n".join(f"    %o{i} = arith.constant {i * lanes} : index" for i in range(chains))
    text = f"""
  func.func @read(%in: {memory}, %out: memref<{lanes}xf32>) {{
    %c0 = arith.constant 0 : index
    %step = arith.constant {step} : index
    %n = arith.constant {count} : index
    %zero = arith.constant dense<0.0> : {vector}
{offsets}
{accumulate(chains, lanes, "%step", "%zero", add)}
    return
  }}"""
    arguments = (Argument("in", "input", (count,)), Argument("out", "output", (lanes,)))
    return Payload("read", text, "read", arguments, reduction=count)


def accumulate(chains: int, lanes: int, step: str, start: str, body: str) -> str:
    """Return the text of an `scf.for` loop over independent accumulators and the store of their sum to ``%out``.

    Args:
        chains: Number of accumulators.
        lanes: Vector lanes of an accumulator.
        step: Step of the induction variable ``%k``, which runs from ``%c0`` to ``%n``.
        start: Initial value of accumulator ``%a#``; ``#`` stands for its index.
        body: Lines that compute ``%b#``, its next value, from ``%a#``.
    """
    vector = f"vector<{lanes}xf32>"
    types = ", ".join([vector] * chains)
    total, sums = "%r#0", []
    for i in range(1, chains):
        name = "%total" if i == chains - 1 else f"%t{i}"
        sums.append(f"    {name} = arith.addf {total}, %r#{i} : {vector}")
        total = name
    return "\n".join(
        [
            f"    %r:{chains} = scf.for %k = %c0 to %n step {step} "
            f"iter_args({each(chains, f'%a# = {start}', ', ')}) -> ({types}) {{",
            each(chains, body),
            f"      scf.yield {each(chains, '%b#', ', ')} : {types}",
            "    }",
            *sums,
            f"    vector.store {total}, %out[%c0] : memref<{lanes}xf32>, {vector}",
        ]
    )


def each(count: int, text: str, between: str = "\n") -> str:
    """Repeat a text for every index below `count`, with ``#`` replaced by the index."""
    return between.join(text.replace("#", str(i)) for i in range(count))


def copy_payload(count: int, lanes: int) -> Payload:
    """Return a kernel that copies `count` f32 in vectors of `lanes`: a lower bound for any transformation of them."""
    vector, memory = f"vector<{lanes}xf32>", f"memref<{count}xf32>"
    whole = count // lanes * lanes
    text = f"""
  func.func @copy(%x: {memory}, %y: {memory}) {{
    %start = arith.constant 0 : index
    %end = arith.constant {whole} : index
    %last = arith.constant {count} : index
    %one = arith.constant 1 : index
    %step = arith.constant {lanes} : index
    scf.for %i = %start to %end step %step {{
      %v = vector.load %x[%i] : {memory}, {vector}
      vector.store %v, %y[%i] : {memory}, {vector}
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
    """Return the argument: the oracle of a copy."""
    return (x,)


def on_threads(kernel: Payload, threads: int) -> Payload:
    """Return a kernel that runs `kernel` once per thread, each on its own row of the arguments."""
    if threads == 1:
        return kernel
    row = "memref<{0}xf32, strided<[1], offset: ?>>"
    inner = re.sub(r"memref<(\d+)xf32>", lambda match: row.format(match[1]), kernel.text)
    arguments = [replace(argument, shape=(threads, *argument.shape)) for argument in kernel.arguments]
    types = [row.format(argument.shape[0]) for argument in kernel.arguments]
    rows = "\n".join(
        f"      %row{i} = memref.subview %all{i}[%t, 0] [1, {a.shape[1]}] [1, 1] : {a.type} to {row_type}"
        for i, (a, row_type) in enumerate(zip(arguments, types, strict=True))
    )
    text = f"""{inner}
  func.func @{kernel.entry}_on_threads({", ".join(f"%all{i}: {a.type}" for i, a in enumerate(arguments))}) {{
    %first = arith.constant 0 : index
    %one = arith.constant 1 : index
    %threads = arith.constant {threads} : index
    scf.parallel (%t) = (%first) to (%threads) step (%one) {{
{rows}
      func.call @{kernel.entry}({", ".join(f"%row{i}" for i in range(len(types)))}) : ({", ".join(types)}) -> ()
    }}
    return
  }}"""
    return replace(kernel, text=text, entry=f"{kernel.entry}_on_threads", arguments=tuple(arguments))
