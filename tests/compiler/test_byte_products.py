"""Products of bytes by known weights, summed in pairs of 16 bits: the numbers are those of 32 bits."""

import numpy as np
import pytest
from tuning_support import agrees, loaded, run_tuned

from autotune.compiler.ir.module import context, parse
from autotune.compiler.normalise.types.byte_products import sum_pairs_of_products
from autotune.core.host.machine import this_machine

ROWS, COLUMNS = 5, 70
BYTES, WIDE = f"tensor<{ROWS}x{COLUMNS}xi8>", f"tensor<{ROWS}x{COLUMNS}xi32>"
MAP, ROW, COLUMN = (f"affine_map<(d0, d1) -> {places}>" for places in ("(d0, d1)", "(d0)", "(d1)"))
PARALLEL = 'iterator_types = ["parallel", "parallel"]'


def element_wise(name, made, operands, read, body):
    """An op of one operation."""
    kinds, maps = zip(*read, strict=True)
    spelled = ", ".join((*maps, MAP))
    arguments = ", ".join(f"%a{n}: {kind.split('x')[-1].rstrip('>')}" for n, kind in enumerate(kinds))
    return f"""%{made} = linalg.generic {{indexing_maps = [{spelled}], {PARALLEL}}}
    ins({", ".join(operands)} : {", ".join(kinds)}) outs(%e : {WIDE}) {{
  ^bb0({arguments}, %o: i32):
    %v = {name} {body}
    linalg.yield %v : i32
  }} -> {WIDE}
"""


def sums(weights, along):
    """A sum of products of bytes, a weight each, and of another tensor."""
    amap, kind = (ROW, f"tensor<{ROWS}xi32>") if along == "rows" else (COLUMN, f"tensor<{COLUMNS}xi32>")
    text, total = f"%e = tensor.empty() : {WIDE}\n", "%more"
    for n, weight in enumerate(weights):
        text += f"%w{n} = arith.constant dense<{weight.tolist()}> : {kind}\n"
        text += element_wise("arith.extsi", f"x{n}", [f"%b{n}"], [(BYTES, MAP)], "%a0 : i8 to i32")
        text += element_wise("arith.muli", f"p{n}", [f"%x{n}", f"%w{n}"], [(WIDE, MAP), (kind, amap)], "%a0, %a1 : i32")
        text += element_wise("arith.addi", f"s{n}", [total, f"%p{n}"], [(WIDE, MAP), (WIDE, MAP)], "%a0, %a1 : i32")
        total = f"%s{n}"
    given = ", ".join(f"%b{n}: {BYTES}" for n in range(len(weights)))
    return f"func.func @f({given}, %more: {WIDE}) -> {WIDE} {{\n{text}return {total} : {WIDE}\n}}"


@pytest.mark.parametrize("along", ["rows", "columns"])
@pytest.mark.parametrize(
    ("count", "least", "halves"), [(1, -127, 0), (2, -127, 1), (5, -127, 2), (5, -128, 2), (2, -128, 0)]
)
def test_products_of_bytes_are_summed_in_pairs(count, least, halves, along, tmp_path):
    rng = np.random.default_rng(0)
    weights = rng.integers(-127, 128, (count, ROWS if along == "rows" else COLUMNS))
    weights[:, :2] = 127, -127
    weights[-1, 0] = least
    payload = loaded(tmp_path, sums(weights, along))
    inputs = payload.make_inputs(0)
    names = [argument.name for argument in payload.arguments if argument.role == "input"]
    for name in names[:-1]:
        inputs[name][...] = rng.integers(-128, 128, (ROWS, COLUMNS))
        inputs[name][:, :2] = -128
    wide = [inputs[name].astype(np.int64) for name in names]
    spread = [weight[:, None] if along == "rows" else weight for weight in weights]
    expected = sum(x * w for x, w in zip(wide, spread, strict=False)) + wide[-1]
    agrees(payload, run_tuned(payload, inputs, this_machine())[0], [expected.astype(np.int32)])
    with context():
        module = parse(payload.text, "mine")
        sum_pairs_of_products(module)
        assert str(module).count("arith.muli") == count
        assert sum("arith.addi" in line and "i16" in line for line in str(module).splitlines()) == halves
