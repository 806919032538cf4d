"""Examples of every form of the rules that come with autotune, of random sizes, in float64."""

import numpy as np
from tuning_support import tensor, tensor_payload

from autotune.core.payload import Argument

BY_TWO = "affine_map<(i, j) -> (i, j)>"
BY_ROW = "affine_map<(i, j) -> (i)>"


def given(name, *shape, role="input", low=-1.0, high=1.0):
    """An argument in float64."""
    return Argument(name, role, shape, "f64", low, high)


def written(*shape):
    """The output."""
    return given("out", *shape, role="output")


def t(*shape):
    """A tensor type in float64."""
    return tensor(shape, "f64")


def filled(name, shape, value):
    """Ops that fill a tensor."""
    return f"""%{name}_n = arith.constant {value} : f64
    %{name}_e = tensor.empty() : {t(*shape)}
    %{name} = linalg.fill ins(%{name}_n : f64) outs(%{name}_e : {t(*shape)}) -> {t(*shape)}"""


def generic(name, inputs, shape, maps, body, *, iterators="parallel", into=None):
    """A generic op: inputs by name and shape, the body over %e0, %e1, .. and %acc, which yields %y."""
    kinds = (
        ", ".join(f'"{kind}"' for kind in iterators.split(" "))
        if " " in iterators
        else ", ".join([f'"{iterators}"'] * len(shape))
    )
    names, types = ", ".join(f"%{n}" for n, _ in inputs), ", ".join(t(*s) for _, s in inputs)
    elements = ", ".join([*(f"%e{i}: f64" for i in range(len(inputs))), "%acc: f64"])
    start = "" if into else f"%{name}_e = tensor.empty() : {t(*shape)}\n    "
    return f"""{start}%{name} = linalg.generic {{indexing_maps = [{", ".join(maps)}], iterator_types = [{kinds}]}}
      ins({names} : {types}) outs(%{into or f"{name}_e"} : {t(*shape)}) {{
    ^bb0({elements}):
      {body}
      linalg.yield %y : f64
    }} -> {t(*shape)}"""


def named(name, op, inputs, shape):
    """An element-wise op with a name of its own."""
    names, types = ", ".join(f"%{n}" for n in inputs), ", ".join([t(*shape)] * len(inputs))
    return f"""%{name}_e = tensor.empty() : {t(*shape)}
    %{name} = linalg.{op} ins({names} : {types}) outs(%{name}_e : {t(*shape)}) -> {t(*shape)}"""


def product(name, a, b, sizes):
    """A matmul into zeros."""
    m, n, k = sizes
    return f"""%{name} = linalg.matmul ins(%{a}, %{b} : {t(m, k)}, {t(k, n)}) outs(%zeros : {t(m, n)}) -> {t(m, n)}"""


def add_zero(m, n, _):
    body = "%z = arith.constant 0.0 : f64\n      %s = math.absf %e0 : f64\n      %y = arith.addf %z, %s : f64"
    return [given("x", m, n), written(m, n)], generic("result", [("x", (m, n))], (m, n), [BY_TWO] * 2, body)


def add_zero_generic(m, n, _):
    body = filled("zeros", (m, n), "0.0")
    both = [("x", (m, n)), ("zeros", (m, n))]
    added = generic("sum", both, (m, n), [BY_TWO] * 3, "%y = arith.addf %e0, %e1 : f64")
    return [given("x", m, n), written(m, n)], f"{body}\n    {added}\n    {named('result', 'exp', ['sum'], (m, n))}"


def add_zero_named(m, n, _):
    ops = filled("zeros", (m, n), "0.0"), named("sum", "add", ["x", "zeros"], (m, n))
    return [given("x", m, n), written(m, n)], "\n    ".join([*ops, named("result", "exp", ["sum"], (m, n))])


def times_one(m, n, _):
    ops = filled("ones", (m, n), "1.0"), named("same", "mul", ["ones", "x"], (m, n))
    return [given("x", m, n), written(m, n)], "\n    ".join([*ops, named("result", "exp", ["same"], (m, n))])


def double_negation(m, n, _):
    ops = named("once", "negf", ["x"], (m, n)), named("twice", "negf", ["once"], (m, n))
    return [given("x", m, n), written(m, n)], "\n    ".join([*ops, named("result", "exp", ["twice"], (m, n))])


def moved(name, value, shape):
    """A transpose of two dimensions as a generic op."""
    turned = "affine_map<(i, j) -> (j, i)>"
    rows, columns = shape
    return generic(name, [(value, shape)], (columns, rows), [turned, BY_TWO], "%y = arith.constant 0.0 : f64").replace(
        "%y = arith.constant 0.0 : f64\n      linalg.yield %y", "linalg.yield %e0"
    )


def swapped(name, value, shape):
    """A transpose of two dimensions with a name of its own."""
    rows, columns = shape
    kind = t(columns, rows)
    return f"""%{name}_e = tensor.empty() : {kind}
    %{name} = linalg.transpose ins(%{value} : {t(*shape)}) outs(%{name}_e : {kind}) permutation = [1, 0]"""


def turned_back(m, n, _):
    ops = swapped("there", "x", (m, n)), moved("back", "there", (n, m))
    return [given("x", m, n), written(m, n)], "\n    ".join([*ops, named("result", "exp", ["back"], (m, n))])


def turned_back_named(m, n, _):
    ops = moved("there", "x", (m, n)), swapped("back", "there", (n, m))
    return [given("x", m, n), written(m, n)], "\n    ".join([*ops, named("result", "exp", ["back"], (m, n))])


def eye(size):
    """A constant identity."""
    rows = ", ".join(str([float(i == j) for j in range(size)]) for i in range(size))
    return f"%eye = arith.constant dense<[{rows}]> : {t(size, size)}"


def times_identity(m, n, _):
    ops = eye(n), filled("zeros", (m, n), "0.0"), product("p", "x", "eye", (m, n, n))
    return [given("x", m, n), written(m, n)], "\n    ".join([*ops, named("result", "exp", ["p"], (m, n))])


def times_identity_left(m, n, _):
    ops = eye(m), filled("zeros", (m, n), "0.0"), product("p", "eye", "x", (m, n, m))
    return [given("x", m, n), written(m, n)], "\n    ".join([*ops, named("result", "exp", ["p"], (m, n))])


def shifted_softmax(m, n, _):
    added = "%y = arith.addf %e1, %e0 : f64"
    ops = (
        generic("shift", [("c", (m,)), ("x", (m, n))], (m, n), [BY_ROW, BY_TWO, BY_TWO], added),
        filled("low", (m,), "0xFFF0000000000000"),
        generic(
            "most",
            [("shift", (m, n))],
            (m,),
            [BY_TWO, BY_ROW],
            "%y = arith.maximumf %e0, %acc : f64",
            iterators="parallel reduction",
            into="low",
        ),
        generic(
            "off",
            [("shift", (m, n)), ("most", (m,))],
            (m, n),
            [BY_TWO, BY_ROW, BY_TWO],
            "%y = arith.subf %e0, %e1 : f64",
        ),
    )
    return [given("x", m, n), given("c", m), written(m, n)], "\n    ".join(
        [*ops, named("result", "exp", ["off"], (m, n))]
    )


def one_matrix(m, n, k):
    both = [("p", (m, n)), ("q", (m, n))]
    ops = (
        filled("zeros", (m, n), "0.0"),
        product("p", "a", "b", (m, n, k)),
        product("q", "c", "b", (m, n, k)),
        generic("result", both, (m, n), [BY_TWO] * 3, "%y = arith.addf %e0, %e1 : f64"),
    )
    return [given("a", m, k), given("c", m, k), given("b", k, n), written(m, n)], "\n    ".join(ops)


def one_matrix_named(m, n, k):
    arguments, _ = one_matrix(m, n, k)
    ops = filled("zeros", (m, n), "0.0"), product("p", "a", "b", (m, n, k)), product("q", "c", "b", (m, n, k))
    return arguments, "\n    ".join([*ops, named("result", "add", ["p", "q"], (m, n))])


def common_factor(m, n, _):
    body = """%p = arith.mulf %e0, %e1 : f64
      %q = arith.mulf %e2, %e0 : f64
      %y = arith.addf %p, %q : f64"""
    inputs = [(name, (m, n)) for name in "abc"]
    arguments = [given(name, m, n) for name in "abc"]
    return [*arguments, written(m, n)], generic("result", inputs, (m, n), [BY_TWO] * 4, body)


def numbers(rng, *shape, low=-1.0):
    """A dense constant's numbers."""
    return "dense<" + str(rng.uniform(low, 1.0, shape).tolist()) + "> : " + t(*shape)


def batch_norm(m, n, k):
    rng = np.random.default_rng([m, n, k])
    place, channel = "affine_map<(b, f, h, w) -> (b, f, h, w)>", "affine_map<(b, f, h, w) -> (f)>"
    shape = (2, m, n, n)
    constants = "\n    ".join(
        f"%{name} = arith.constant {numbers(rng, m, low=0.5 if name == 'variance' else -1.0)}"
        for name in ("gain", "bias", "mean", "variance", "start")
    )
    body = """%eps = arith.constant 1.0e-5 : f64
      %away = arith.subf %e0, %e3 : f64
      %wide = arith.addf %e4, %eps : f64
      %per = math.rsqrt %wide : f64
      %unit = arith.mulf %away, %per : f64
      %gained = arith.mulf %unit, %e1 : f64
      %y = arith.addf %gained, %e2 : f64"""
    inputs = [("conv", shape), *((name, (m,)) for name in ("gain", "bias", "mean", "variance"))]
    conv = f"""%kernel = arith.constant {numbers(rng, m, k, 3, 2)}
    %begun_e = tensor.empty() : {t(*shape)}
    %begun = linalg.broadcast ins(%start : {t(m)}) outs(%begun_e : {t(*shape)}) dimensions = [0, 2, 3]
    %conv = linalg.conv_2d_nchw_fchw {{strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}}
      ins(%x, %kernel : {t(2, k, n + 2, n + 1)}, {t(m, k, 3, 2)}) outs(%begun : {t(*shape)}) -> {t(*shape)}"""
    normed = generic("result", inputs, shape, [place, *[channel] * 4, place], body)
    return [given("x", 2, k, n + 2, n + 1), written(*shape)], f"{constants}\n    {conv}\n    {normed}"


EXAMPLES = {
    "add_zero": add_zero,
    "add_zero.generic": add_zero_generic,
    "add_zero.named": add_zero_named,
    "times_one": times_one,
    "double_negation": double_negation,
    "turned_back": turned_back,
    "turned_back.named": turned_back_named,
    "times_identity": times_identity,
    "times_identity.left": times_identity_left,
    "shifted_softmax": shifted_softmax,
    "one_matrix": one_matrix,
    "one_matrix.named": one_matrix_named,
    "common_factor": common_factor,
    "batch_norm": batch_norm,
}


def example(form, seed):
    """A payload of random sizes on which one form of a rule fires once."""
    m, n, k = map(int, np.random.default_rng(seed).integers(2, 8, 3))
    arguments, body = EXAMPLES[form](m, n, k)
    return tensor_payload(form.replace(".", "_"), arguments, body)
