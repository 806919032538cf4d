"""Functions of scalars in kernels, beside NumPy in double precision: in arithmetic where SPIR-V has no form of them."""

from math import erf, erfc

import numpy as np
import pytest

from autotune.compiler.ir.module import context, parse, run_passes
from autotune.contrib.gpu import nvptx, spirv, vulkan
from autotune.contrib.gpu.device import VULKAN
from autotune.contrib.gpu.functions import EXPANDED, write_functions
from autotune.contrib.gpu.interpret import interpret
from autotune.contrib.gpu.kernel import read_kernel

N, EPSILON = 64, 2.0**-23
MANY = 8  # units of the last place of the largest result
FUNCTIONS = {  # what is expected, and the range of x
    "absf": (np.abs, (-4, 4)),
    "acos": (np.arccos, (-1, 1)),
    "acosh": (np.arccosh, (1, 9)),
    "asin": (np.arcsin, (-1, 1)),
    "asinh": (np.arcsinh, (-9, 9)),
    "atan": (np.arctan, (-9, 9)),
    "atanh": (np.arctanh, (-0.99, 0.99)),
    "cbrt": (np.cbrt, (-9, 9)),
    "ceil": (np.ceil, (-9, 9)),
    "cos": (np.cos, (-3, 3)),
    "cosh": (np.cosh, (-4, 4)),
    "erf": (np.vectorize(erf), (-4, 4)),
    "erfc": (np.vectorize(erfc), (-4, 9)),
    "exp": (np.exp, (-9, 9)),
    "exp2": (np.exp2, (-20, 20)),
    "expm1": (np.expm1, (-4, 4)),
    "floor": (np.floor, (-9, 9)),
    "log": (np.log, (0.01, 9)),
    "log10": (np.log10, (0.01, 9)),
    "log1p": (np.log1p, (-0.9, 9)),
    "log2": (np.log2, (0.01, 9)),
    "round": (lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), (-9, 9)),
    "roundeven": (np.rint, (-9, 9)),
    "rsqrt": (lambda x: 1 / np.sqrt(x), (0.01, 9)),
    "sin": (np.sin, (-3, 3)),
    "sinh": (np.sinh, (-4, 4)),
    "sqrt": (np.sqrt, (0, 9)),
    "tan": (np.tan, (-1, 1)),
    "tanh": (np.tanh, (-9, 9)),
    "trunc": (np.trunc, (-9, 9)),
}
PAIRS = {  # lines that make %y of %x and %z
    "%y = math.atan2 %x, %z : f32": np.arctan2,
    "%y = math.copysign %x, %z : f32": np.copysign,
    "%y = arith.remf %x, %z : f32": np.fmod,
    "%a = math.absf %x : f32\n %y = math.powf %a, %z : f32": lambda x, z: np.abs(x) ** z,
    "%i = arith.fptosi %z : f32 to i32\n %y = math.fpowi %x, %i : f32, i32": lambda x, z: x ** np.trunc(z),
    "%c = arith.constant 0.5 : f32\n %y = math.clampf %x to [%c, %z] : f32": lambda x, z: np.fmin(np.fmax(x, 0.5), z),
}
STRANGE = {  # results where x is -inf, inf and NaN
    "math.erf": (-1, 1, np.nan),
    "math.erfc": (2, 0, np.nan),
    "math.tanh": (-1, 1, np.nan),
    "math.exp2": (0, np.inf, np.nan),
    "math.expm1": (-1, np.inf, np.nan),
    "math.cbrt": (-np.inf, np.inf, np.nan),
    "math.atan": (-np.pi / 2, np.pi / 2, np.nan),
    "math.sinh": (-np.inf, np.inf, np.nan),
    "math.asinh": (-np.inf, np.inf, np.nan),
    "math.log1p": (np.nan, np.inf, np.nan),
    "math.trunc": (-np.inf, np.inf, np.nan),
}
KERNEL = """
module attributes {{gpu.container_module}} {{
  func.func @f(%p: memref<{rows}xf32>, %q: memref<{rows}xf32>, %o: memref<{rows}xf32>) {{
    %c1 = arith.constant 1 : index
    %n = arith.constant {n} : index
    gpu.launch_func @k::@k blocks in (%c1, %c1, %c1) threads in (%n, %c1, %c1)
        args(%p : memref<{rows}xf32>, %q : memref<{rows}xf32>, %o : memref<{rows}xf32>)
    return
  }}
  gpu.module @k {{
    gpu.func @k(%p: memref<{rows}xf32>, %q: memref<{rows}xf32>, %o: memref<{rows}xf32>) kernel attributes {{
        known_block_size = array<i32: {n}, 1, 1>, known_grid_size = array<i32: 1, 1, 1>}} {{
      %t = gpu.thread_id x
{body}
      gpu.return
    }}
  }}
}}
"""


def kernel_of(lines, n):
    """A kernel that makes a row of results of each of some lines, `n` long."""
    row = """%r = arith.constant {row} : index
      scf.if %all {{
        %x = memref.load %p[%r, %t] : {kind}
        %z = memref.load %q[%r, %t] : {kind}
        {line}
        memref.store %y, %o[%r, %t] : {kind}
      }}"""
    kind = f"memref<{len(lines)}x{n}xf32>"
    body = "%all = arith.constant true\n" + "\n".join(
        row.replace("%r", f"%r{number}").format(row=number, kind=kind, line=line) for number, line in enumerate(lines)
    )
    with context():
        module = parse(KERNEL.format(rows=f"{len(lines)}x{n}", n=n, body=body), "kernel")
        write_functions(module)
        run_passes(module, "builtin.module(canonicalize,cse)")
        return read_kernel(module, VULKAN)


def runs_of(kernel, x, z):
    """Results thread by thread, and on lavapipe where it is."""
    arrays = [x, z, np.zeros_like(x)]
    given = [arrays[number] for number in kernel.arguments]
    run = interpret(kernel, given)
    assert not run.race
    results = {"threads": run.outputs[-1]}
    if not vulkan.missing_parts():
        binary = spirv.serialise(spirv.spirv_text(kernel))
        spirv.validate(binary, vulkan.find_lavapipe().validator)
        results["lavapipe"] = vulkan.run_on(vulkan.find_lavapipe(), kernel, binary, given)[-1]
    return results


@pytest.fixture(scope="module")
def table():
    """Kernel, arguments, expected results and results of every function and pair, a row each."""
    rng = np.random.default_rng(0)
    lines = [*(f"%y = math.{name} %x : f32" for name in FUNCTIONS), *PAIRS]
    x = np.stack([rng.uniform(low, high, N) for _, (low, high) in FUNCTIONS.values()] + [rng.uniform(-4, 4, N)] * 6)
    x, z = x.astype(np.float32), rng.uniform(0.5, 4, x.shape).astype(np.float32)
    for row, (_, (low, _)) in enumerate(FUNCTIONS.values()):
        if low < 0:
            x[row, :4] = 0, -0.0, 1e-6, -1e-3
    z[-6:-4] *= np.sign(rng.uniform(-1, 1, (2, N)))  # of atan2 and copysign
    z[-6, :4], x[-6, :4] = (1, -1, 0, -2), (0, -0.0, 3, 2)
    functions = [function for function, _ in FUNCTIONS.values()]
    exact = [function(row) for function, row in zip(functions, x.astype(np.float64), strict=False)]
    exact += [f(a, b) for f, a, b in zip(PAIRS.values(), x[-6:].astype(float), z[-6:].astype(float), strict=True)]
    kernel = kernel_of(lines, N)
    return kernel, lines, exact, runs_of(kernel, x, z)


@pytest.mark.parametrize("number", range(len(FUNCTIONS) + len(PAIRS)))
def test_functions_are_right_thread_by_thread_and_on_lavapipe(table, number):
    _, lines, exact, results = table
    for where, rows in results.items():
        off = np.abs(rows[number] - exact[number]).max() / (np.abs(exact[number]).max() * EPSILON)
        assert off < MANY, (where, lines[number])


def test_small_results_keep_their_digits(table):
    _, lines, exact, results = table
    for name in ("asin", "asinh", "atan", "atanh", "cbrt", "erf", "expm1", "log1p", "sinh", "tanh"):
        number = lines.index(f"%y = math.{name} %x : f32")
        assert f"math.{name}" in EXPANDED
        for rows in results.values():
            np.testing.assert_allclose(rows[number], exact[number], rtol=MANY * EPSILON)


def test_functions_of_what_is_infinite_or_no_number():
    x = np.tile(np.array([-np.inf, np.inf, np.nan], np.float32), (len(STRANGE), 1))
    kernel = kernel_of([f"%y = {name} %x : f32" for name in STRANGE], 3)
    expected = np.array(list(STRANGE.values()), np.float32)
    np.testing.assert_allclose(runs_of(kernel, x, x)["threads"], expected, rtol=MANY * EPSILON)


def test_no_function_is_left_to_ptx_alone(table):
    text = nvptx.ptx_text(table[0], "sm_80")
    assert ".extern" not in text
    if nvptx.find_ptxas() is not None:  # an extra
        assert nvptx.assemble(text, "sm_80", nvptx.find_ptxas()).spilled == 0
