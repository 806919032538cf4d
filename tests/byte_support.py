"""Payloads of element-wise ops of bytes, as texts."""

from functools import partial
from itertools import product

import numpy as np

from autotune.core.payload import Argument, Payload

COUNT, LANES = 1 << 16, 16
ENDS = ((0, -128, 127), (-13, -128, 127), (117, -3, 90), (-128, -128, 127), (127, 127, 127))  # zero point, limits
SIGMOID = """
    %r = arith.sitofp %x : i8 to f32
    %s = arith.mulf %r, %step : f32
    %n = arith.negf %s : f32
    %e = math.exp %n : f32
    %d = arith.addf %e, %one : f32
    %y = arith.divf %most, %d : f32
    %w = math.roundeven %y : f32
    %b = arith.fptosi %w : f32 to i8"""
QUANTIZE = """
    %w = math.roundeven %v : f32
    %m = arith.constant {zero:.1f} : f32
    %n = arith.addf %w, %m : f32
    %l = arith.constant -128.0 : f32
    %h = arith.constant 127.0 : f32
    %c = arith.cmpf olt, %n, %l : f32
    %d = arith.select %c, %l, %n : f32
    %e = arith.cmpf ogt, %d, %h : f32
    %f = arith.select %e, %h, %d : f32
    %y = arith.fptosi %f : f32 to i8"""
# A number times %most, rounded to a byte.
QUANTIZED = "\n    %v = arith.mulf %x, %most : f32" + QUANTIZE.format(zero=3).replace("%y =", "%b =")
FACTOR = np.float32(0.06)


def function_of_bytes(shape, body=SIGMOID, given="i8", made="i8"):
    """The text of an element-wise op of one tensor."""
    sizes, loops = "x".join(map(str, shape)), ", ".join(f"d{d}" for d in range(len(shape)))
    amap, kinds = f"affine_map<({loops}) -> ({loops})>", ", ".join(['"parallel"'] * len(shape))
    return f"""func.func @f(%a: tensor<{sizes}x{given}>) -> tensor<{sizes}x{made}> {{
  %step = arith.constant 0.03 : f32
  %one = arith.constant 1.0 : f32
  %most = arith.constant 120.0 : f32
  %into = tensor.empty() : tensor<{sizes}x{made}>
  %res = linalg.generic {{indexing_maps = [{amap}, {amap}], iterator_types = [{kinds}]}}
    ins(%a : tensor<{sizes}x{given}>) outs(%into : tensor<{sizes}x{made}>) {{
  ^bb0(%x: {given}, %o: {made}):{body}
    linalg.yield %b : {made}
  }} -> tensor<{sizes}x{made}>
  return %res : tensor<{sizes}x{made}>
}}"""


def kind(shape, element="i8"):
    return f"tensor<{'x'.join(map(str, (*shape, element)))}>"


def generic(result, maps, inputs, into, body, *, batched=False):
    """Text of an op over rows and columns, which yields %y; of two operands, one is a result that is reduced."""
    *names, kinds = inputs
    lead = "b, " if batched else ""
    loops = (*["parallel"] * batched, "parallel", "reduction" if len(maps) == 2 else "parallel")
    maps = ", ".join(f"affine_map<({lead}i, j) -> ({lead}{each})>" for each in maps)
    iterators = ", ".join(f'"{each}"' for each in loops)
    arguments = ", ".join(f"%i{n}: {each[each.rindex('x') + 1 : -1]}" for n, each in enumerate([*kinds, into[1]]))
    gives = into[1][into[1].rindex("x") + 1 : -1]
    return f"""
  %{result} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{iterators}]}}
    ins({", ".join(names)} : {", ".join(kinds)}) outs({into[0]} : {into[1]}) {{
  ^bb0({arguments}):{body}
    linalg.yield %y : {gives}
  }} -> {into[1]}"""


def softmax_of_bytes(rows, columns, *batch):
    """Text of the softmax of rows of bytes, rounded to bytes; of matrices if there is a batch."""
    matrix, reals = kind((*batch, rows, columns)), kind((*batch, rows, columns), "f32")
    column, sums = kind((*batch, rows)), kind((*batch, rows), "f32")
    op = partial(generic, batched=bool(batch))
    ops = [
        op(
            "of_max",
            ("i, j", "i"),
            ("%x", [matrix]),
            ("%lowest", column),
            "\n    %y = arith.maxsi %i0, %i1 : i8",
        ),
        op(
            "of_exp",
            ("i, j", "i", "i, j"),
            ("%x", "%of_max", [matrix, column]),
            ("%reals", reals),
            f"""
    %p = arith.sitofp %i0 : i8 to f32
    %q = arith.sitofp %i1 : i8 to f32
    %s = arith.subf %p, %q : f32
    %t = arith.constant {FACTOR:.17e} : f32
    %u = arith.mulf %s, %t : f32
    %y = math.exp %u : f32""",
        ),
        op(
            "of_sum",
            ("i, j", "i"),
            ("%of_exp", [reals]),
            ("%zeros", sums),
            "\n    %y = arith.addf %i0, %i1 : f32",
        ),
        op(
            "found",
            ("i, j", "i", "i, j"),
            ("%of_exp", "%of_sum", [reals, sums]),
            ("%into", matrix),
            """
    %g = arith.constant 255.0 : f32
    %k = arith.divf %g, %i1 : f32
    %v = arith.mulf %i0, %k : f32"""
            + QUANTIZE.format(zero=-128),
        ),
    ]
    return f"""func.func @f(%x: {matrix}) -> {matrix} {{
  %least = arith.constant -128 : i8
  %none = arith.constant 0.0 : f32
  %columns = tensor.empty() : {column}
  %lowest = linalg.fill ins(%least : i8) outs(%columns : {column}) -> {column}
  %sums = tensor.empty() : {sums}
  %zeros = linalg.fill ins(%none : f32) outs(%sums : {sums}) -> {sums}
  %reals = tensor.empty() : {reals}
  %into = tensor.empty() : {matrix}{"".join(ops)}
  return %found : {matrix}
}}"""


def sums_of_windows(plane, window, weights, *, stride=1, others=1, narrow=False):
    """A convolution of each channel of (channels, h, w) by itself, its places one by one, and what follows it."""
    channels = len(weights[0])
    size = [(side - places) // stride + 1 for side, places in zip(plane, window, strict=True)]
    made, taps = (channels, *size), list(product(*map(range, window)))
    lines = ["%into = tensor.empty() : " + kind(made, "i8")]
    for n, (i, j) in enumerate(taps):
        numbers = ", ".join(f"[[{w}]]" for w in weights[n])
        lines.append(f"%w{n} = arith.constant dense<[{numbers}]> : {kind((channels, 1, 1))}")
        lines.append(
            f"%k{n} = tensor.collapse_shape %w{n} [[0, 1, 2]] : {kind((channels, 1, 1))} into {kind((channels,))}"
        )
        place = f"[0, {i}, {j}] [{channels}, {size[0]}, {size[1]}] [1, {stride}, {stride}]"
        lines.append(f"%x{n} = tensor.extract_slice %x{place} : {kind((channels, *plane))} to {kind(made)}")
    body = [f"%s0 = arith.constant {others} : i32"]
    for n in range(len(taps)):
        of = "i16" if narrow else "i32"
        body += [f"%a{n} = arith.extsi %e{n} : i8 to {of}", f"%b{n} = arith.extsi %f{n} : i8 to {of}"]
        if narrow:  # what is added in 16 bits may not fit
            body += [f"%m{n} = arith.muli %a{n}, %b{n} : i16", f"%d{n} = arith.addi %m{n}, %m{n} : i16"]
            body += [f"%p{n} = arith.extsi %d{n} : i16 to i32"]
        else:
            body += [f"%p{n} = arith.muli %a{n}, %b{n} : i32"]
        total = f"%q{n - 1}" if n else "%s0"
        body += [f"%q{n} = arith.addi {total}, %p{n} : i32"]
    body += ["%v = arith.extsi %g : i8 to i32", f"%t = arith.addi %q{len(taps) - 1}, %v : i32"]
    body += ["%c = arith.constant 9 : i32", "%u = arith.shrsi %t, %c : i32", "%y = arith.trunci %u : i32 to i8"]
    full, rows = "affine_map<(c, h, w) -> (c, h, w)>", "affine_map<(c, h, w) -> (c)>"
    count = len(taps)
    inputs = [*(f"%x{n}" for n in range(count)), *(f"%k{n}" for n in range(count)), "%r"]
    kinds = [*[kind(made)] * count, *[kind((channels,))] * count, kind(made)]
    elements = [*(f"%e{n}: i8" for n in range(count)), *(f"%f{n}: i8" for n in range(count)), "%g: i8", "%o: i8"]
    maps = [*[full] * count, *[rows] * count, full, full]
    loops = ", ".join(['"parallel"'] * 3)
    newline = "\n  "
    return f"""func.func @f(%x: {kind((channels, *plane))}, %r: {kind(made)}) -> {kind(made)} {{
  {newline.join(lines)}
  %y = linalg.generic {{indexing_maps = [{", ".join(maps)}], iterator_types = [{loops}]}}
    ins({", ".join(inputs)} : {", ".join(kinds)}) outs(%into : {kind(made)}) {{
  ^bb0({", ".join(elements)}):
    {newline.join(body)}
    linalg.yield %y : i8
  }} -> {kind(made)}
  return %y : {kind(made)}
}}"""


CONVOLUTION = """
#x = affine_map<(n, h, w, f, i, j, c) -> (n, h * STEP + i * APART, w * STEP + j * APART, c)>
#k = affine_map<(n, h, w, f, i, j, c) -> (i, j, c, f)>
#y = affine_map<(n, h, w, f, i, j, c) -> (n, h, w, f)>
func.func @bytes(%x: tensor<XTYPE>, %k: tensor<KTYPE> {autotune.role = "weight"}) -> tensor<YTYPE> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<YTYPE>
  %i = linalg.fill ins(%zero : i32) outs(%e : tensor<YTYPE>) -> tensor<YTYPE>
  %y = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel",
      "reduction", "reduction", "reduction"]}
    ins(%x, %k : tensor<XTYPE>, tensor<KTYPE>) outs(%i : tensor<YTYPE>) {
    ^bb0(%a: i8, %b: i8, %sum: i32):
      %wide = arith.extsi %a : i8 to i32
      %weight = arith.extsi %b : i8 to i32
      %product = arith.muli %wide, %weight : i32
      %more = arith.addi %sum, %product : i32
      linalg.yield %more : i32
    } -> tensor<YTYPE>
  return %y : tensor<YTYPE>
}
"""


def convolution_of_bytes(size, channels, filters, *, side=3, batch=1, step=1, apart=1):
    """Text of a convolution of bytes by a weight, channels last, summed in 32 bits."""
    count = (size - (side - 1) * apart - 1) // step + 1
    known = {
        "XTYPE": f"{batch}x{size}x{size}x{channels}xi8",
        "KTYPE": f"{side}x{side}x{channels}x{filters}xi8",
        "YTYPE": f"{batch}x{count}x{count}x{filters}xi32",
        "STEP": str(step),
        "APART": str(apart),
    }
    text = CONVOLUTION
    for name, value in known.items():
        text = text.replace(name, value)
    return text


def numbers(divisor):
    """Numbers whose quotients lie at halves and beside them, and those that are strange."""
    halves = (np.arange(-300, 300) + 0.5).astype(np.float32) * divisor
    near = halves.view(np.int32)[:, None] + np.arange(-8, 9, dtype=np.int32)
    strange = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-38, 3e38, -3e38, 1e30], np.float32)
    drawn = (
        np.random.default_rng(0).standard_normal(COUNT - near.size - strange.size).astype(np.float32) * 200 * divisor
    )
    return np.concatenate([near.reshape(-1).view(np.float32), strange, drawn])


def roundings(divisor, zero, low, high, *, lanes=LANES, count=COUNT, mark=""):
    """A payload of bytes; a divisor of 0 is none."""
    kind, vector, bytes_ = f"memref<{count}xf32>", f"vector<{lanes}xf32>", f"vector<{lanes}xi8>"
    text = f"""func.func @apply(%x: {kind}, %y: memref<{count}xi8>) {{
      %begin = arith.constant 0 : index
      %step = arith.constant {lanes} : index
      %count = arith.constant {count} : index
      %divisor = arith.constant dense<{divisor:.17e}> : {vector}
      %zero = arith.constant dense<{zero:.1f}> : {vector}
      %low = arith.constant dense<{low:.1f}> : {vector}
      %high = arith.constant dense<{high:.1f}> : {vector}
      scf.for %i = %begin to %count step %step {{
        %in = vector.load %x[%i] : {kind}, {vector}
        %q = arith.divf %in, %divisor : {vector}
        %whole = math.roundeven {"%q" if divisor else "%in"} : {vector}
        %moved = arith.addf %whole, %zero : {vector}
        %below = arith.cmpf olt, %moved, %low : {vector}
        %least = arith.select %below, %low, %moved : vector<{lanes}xi1>, {vector}
        %above = arith.cmpf ogt, %least, %high : {vector}
        %most = arith.select %above, %high, %least : vector<{lanes}xi1>, {vector}
        %out = arith.fptosi %most {f"{{{mark}}}" if mark else ""} : {vector} to {bytes_}
        vector.store %out, %y[%i] : memref<{count}xi8>, {bytes_}
      }}
      return
    }}"""
    return Payload("apply", text, "apply", (Argument("x", "input", (count,)), Argument("y", "output", (count,), "i8")))
