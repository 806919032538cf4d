"""The C header of an emitted program: C calls it for every element type and role, whatever the names are."""

import doctest
import re
import shutil
import subprocess
from dataclasses import replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import ml_dtypes
import numpy as np
import pytest
from c_support import COMPILER, EXPECTED_TYPES, NEEDS_C, STRICT, c_program, call_from_c, emit
from hypothesis import given
from hypothesis import strategies as st
from precision_support import FAMILIES
from tuning_support import MACHINES, default_steps, run

from autotune.bundles import c_header as header
from autotune.bundles.c_header import C_TYPES, c_header, parameter
from autotune.compiler.lowering.emit import Emitted
from autotune.compiler.panel_weight import PanelWeight
from autotune.compiler.passes.pipelines import TAIL
from autotune.compiler.tasks.partition import partition
from autotune.core.c_names import c_name
from autotune.core.candidate import Candidate
from autotune.core.host.machine import this_machine
from autotune.core.payload import DTYPES, ROLES, Argument, Payload
from autotune.core.precision import PRECISIONS
from autotune.core.printable import in_comment
from autotune.core.scripts.assembly import assemble, panels_of, write_step
from autotune.registry import family_for, load_payload
from autotune.store.records import WeightRecord

SHOWN_BY = {"input": ("x_seen", "limit_seen"), "weight": ("w_seen",), "state": ("s", "s_seen"), "output": ("y",)}
SMALL = "gpt,layers=1,d_model=32,heads=2,positions=16,vocab=64,function=decode"
EVIL = "*/ #error evil /*"
NAMES = ("int", "class", EVIL, "a b", "memref_0", "0", "linux", "NULL", "")
UNTOUCHED = Candidate(assemble([]), TAIL)


def test_every_element_type_has_a_c_type():
    assert set(C_TYPES) == set(EXPECTED_TYPES) == set(DTYPES)
    assert set(SHOWN_BY) == set(ROLES)


def every_role(dtype, entry="every_role"):
    """A payload whose outputs are what it read of each role; ranks 0, 1 and 2."""
    cell, row, table = f"memref<{dtype}>", f"memref<5x{dtype}>", f"memref<3x5x{dtype}>"
    greater = "arith.cmpi sgt" if dtype.startswith("i") else "arith.cmpf ogt"
    arguments = (
        Argument("x", "input", (3, 5), dtype),
        Argument("w", "weight", (5,), dtype),
        Argument("limit", "input", (), dtype),
        Argument("s", "state", (3, 5), dtype),
        *(Argument(name, "output", (3, 5), dtype) for name in ("x_seen", "w_seen", "s_seen", "y")),
        Argument("limit_seen", "output", (), dtype),
    )
    text = f"""
#table = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (j)>
func.func @"{entry}"(%x: {table}, %w: {row}, %limit: {cell}, %s: {table},
                     %x_seen: {table}, %w_seen: {table}, %s_seen: {table}, %y: {table}, %limit_seen: {cell}) {{
  linalg.generic {{indexing_maps = [#table, #row, #table, #table, #table, #table, #table],
                  iterator_types = ["parallel", "parallel"]}}
    ins(%x, %w : {table}, {row})
    outs(%x_seen, %w_seen, %s_seen, %s, %y : {table}, {table}, {table}, {table}, {table}) {{
    ^bb0(%a: {dtype}, %b: {dtype}, %o0: {dtype}, %o1: {dtype}, %o2: {dtype}, %old: {dtype}, %o3: {dtype}):
      %grows = {greater}, %a, %old : {dtype}
      %new = arith.select %grows, %a, %old : {dtype}
      %more = {greater}, %a, %b : {dtype}
      %most = arith.select %more, %a, %b : {dtype}
      linalg.yield %a, %b, %old, %new, %most : {dtype}, {dtype}, {dtype}, {dtype}, {dtype}
    }}
  %held = memref.load %limit[] : {cell}
  memref.store %held, %limit_seen[] : {cell}
  return
}}"""
    return Payload("every_role", text, entry, arguments)


def expected_of(x, w, limit, s):
    """The same in NumPy."""
    return {
        "x_seen": x,
        "w_seen": np.broadcast_to(w, x.shape),
        "s_seen": s,
        "s": np.maximum(s, x),
        "y": np.maximum(x, w),
        "limit_seen": limit,
    }


def random_values(payload):
    """Values that need every byte of their type."""
    rng = np.random.default_rng(3)
    high = 1 << 62
    return {
        a.name: (rng.integers(-high, high, a.shape) >> (64 - 8 * DTYPES[a.dtype].itemsize)).astype(DTYPES[a.dtype])
        for a in payload.arguments
        if a.role != "output"
    }


@lru_cache
def called(dtype):
    """What a C caller gets of `every_role`, and what it should."""
    payload = every_role(dtype)
    values = random_values(payload)
    with TemporaryDirectory() as folder:
        weights = emit(payload, UNTOUCHED, Path(folder))
        return call_from_c(Path(folder), payload, weights, values), expected_of(**values)


@NEEDS_C
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_c_passes_every_element_type_in_every_role(dtype, role):
    got, expected = called(dtype)
    for name in SHOWN_BY[role]:
        np.testing.assert_array_equal(got[name], expected[name])


@NEEDS_C
@pytest.mark.parametrize("stored", ["bf16", "int8"])
def test_c_stores_weights_of_every_width_in_panels(stored, tmp_path):
    payload = load_payload(f"{SMALL},weights={stored}")
    parts = partition(payload)
    steps = default_steps(parts, MACHINES["sse"])
    candidate = Candidate(assemble(steps), TAIL, parts.payload.text, tuple(panels_of(steps)))
    weights = emit(payload, candidate, tmp_path)
    assert {a.dtype for w in weights for a in payload.arguments if a.name == w.argument} == {stored.replace("int", "i")}
    values = payload.make_inputs(7)
    got = call_from_c(tmp_path, payload, weights, values)
    for argument, expected in zip(payload.written, payload.reference(**values), strict=True):
        np.testing.assert_allclose(got[argument.name], expected, atol=1e-5)


@NEEDS_C
@pytest.mark.parametrize("family", FAMILIES)
def test_c_stores_weights_as_words_of_rounded_values(family, tmp_path):
    payload = load_payload(SMALL)
    parts, machine = partition(payload), this_machine()
    taken = [(task, family if family.covers(task) else family_for(task)) for task in parts.tasks]
    steps = [write_step(task, found, found.default(task, machine), machine) for task, found in taken]
    candidate = Candidate(assemble(steps), TAIL, parts.payload.text, tuple(panels_of(steps)))
    weights = emit(payload, candidate, tmp_path)
    assert family.name in {weight.precision for weight in weights}
    values = payload.make_inputs(7)
    got = call_from_c(tmp_path, payload, weights, values)
    here = run(payload, values, candidate.script, TAIL, text=candidate.text, panels=candidate.panels)
    for argument, expected in zip(payload.outputs, here, strict=True):
        np.testing.assert_allclose(got[argument.name], expected, atol=2e-3 * np.abs(expected).max())


STORED = [
    *((name, "f32") for name, precision in PRECISIONS.items() if not precision.exact),
    *((name, "i8") for name, precision in PRECISIONS.items() if precision.exact),
    *(("tile_bf16", dtype) for dtype in ("bf16", "f16", "i8")),
    ("tile_bf16x2", "f16"),
]


def stored_values(dtype, shape):
    """Numbers of an element type, its smallest and its infinity among them."""
    generator = np.random.default_rng(5)
    if dtype == "i8":
        return generator.integers(-128, 128, shape, np.int8)
    values = generator.standard_normal(shape).astype(DTYPES[dtype])
    if dtype != "f32":
        values.flat[:3] = np.inf, -3 * float(ml_dtypes.finfo(values.dtype).smallest_subnormal), -0.0
    return values


@NEEDS_C
def test_words_that_c_makes_have_the_bits_of_those_that_numpy_makes(tmp_path):
    text, calls, expected = [], [], []
    for number, ((name, dtype), transposed) in enumerate(product(STORED, (False, True))):
        batch, k, n, columns = 2, 37, 21, 16
        shape = (batch, PRECISIONS[name].words(k), n)
        panel = PanelWeight(0, 1, shape, columns, transposed, name)
        source = Argument("w", "weight", (batch, n, k) if transposed else (batch, k, n), dtype)
        record = WeightRecord("w", shape, panel.stored_shape, columns, transposed, name)
        values, stored = stored_values(dtype, source.shape), parameter(1, panel.argument(source))
        (tmp_path / f"in{number}").write_bytes(values.tobytes())
        expected.append(panel.pack(values))
        text.append(header.packer(f"pack{number}", record, stored, source))
        kind, count = EXPECTED_TYPES[dtype], expected[-1].size
        calls.append(
            f"{{ static {kind} w[{values.size}]; static int32_t p[{count}];"
            f' FILE *in = fopen("in{number}", "rb"), *out = fopen("out{number}", "wb");'
            f" if (fread(w, sizeof w, 1, in) != 1) return 1; pack{number}(w, p); fwrite(p, sizeof p, 1, out);"
            " fclose(in); fclose(out); }"
        )
    lines = ["#include <stdint.h>", "#include <stdio.h>", *text, "int main(void) {", *calls, "return 0; }"]
    (tmp_path / "main.c").write_text("\n".join(lines) + "\n")
    command = [COMPILER, "-std=c11", *STRICT, "-O1", "main.c", "-lm", "-o", "main"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    subprocess.run(["./main"], cwd=tmp_path, check=True)
    for number, words in enumerate(expected):
        got = np.fromfile(tmp_path / f"out{number}", np.int32)
        np.testing.assert_array_equal(got, words.view(np.int32).ravel(), str(STORED[number // 2]))


@NEEDS_C
@pytest.mark.parametrize("entry", ["plain", "my.entry-1$"])
def test_names_of_any_kind_reach_c_as_identifiers(entry, tmp_path):
    payload = every_role("f32", entry)
    evil = dict(zip([a.name for a in payload.arguments], NAMES, strict=True))
    renamed = Payload(EVIL, payload.text, entry, tuple(replace(a, name=evil[a.name]) for a in payload.arguments))
    weights = emit(renamed, UNTOUCHED, tmp_path, about=EVIL)
    values = random_values(payload)
    got = call_from_c(tmp_path, renamed, weights, {evil[name]: value for name, value in values.items()})
    for name, expected in expected_of(**values).items():
        np.testing.assert_array_equal(got[evil[name]], expected)


@pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler: c++")
def test_the_header_is_one_of_cpp_too(tmp_path):
    arguments = [Argument(name, "weight", (4, 6), "bf16") for name in ("new", "b_panels_0", "template")]
    weights = [WeightRecord(a.name, (4, 6), (2, 4, 3), 3, transposed=False) for a in (arguments[0], arguments[2])]
    arguments.append(Argument("this", "output", ()))
    (tmp_path / "autotune_f.h").write_text(
        c_header("f", arguments, weights, EVIL, Emitted(b"", (), cpu=EVIL, features=(EVIL,)))
    )
    (tmp_path / "main.cpp").write_text(c_program(Payload("f", "", "f", tuple(arguments)), weights, "autotune_f"))
    command = ["c++", *STRICT, "-fsyntax-only", "main.cpp"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_header_says_what_it_runs_on_and_what_memory_it_takes():
    emitted = Emitted(b"", (), 640, 1, 2, cpu="znver4", features=("avx2", "fma"))
    text = c_header("f", [Argument("x", "output", ())], [], "about", emitted)
    assert "Compiled for znver4; the processor must have avx2, fma." in text
    assert "one arena of 640 bytes, static: one call of autotune_f at a time" in text
    assert "A call allocates memory" in text
    assert "Link with -lm -lomp (or -liomp5), for 2 threads." in text
    text = c_header("f", [Argument("x", "output", ())], [], "about", Emitted(b"", ()))
    assert "arena" not in text
    assert "A call allocates nothing." in text


@given(st.text())
def test_text_in_a_comment_is_one_line_and_cannot_end_it(text):
    found = f"/* {in_comment(text)} */"
    assert found.index("*/") == len(found) - 2
    assert "/*" not in found[2:]
    assert found.isprintable()


@given(st.lists(st.tuples(st.text(), st.sampled_from(ROLES)), unique_by=lambda pair: pair[0], max_size=6))
def test_parameters_are_identifiers_and_no_two_share_one(pairs):
    names = [parameter(i, Argument(name, role, (1,))).name for i, (name, role) in enumerate(pairs)]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) for name in names)


@given(st.text())
def test_functions_have_names_that_c_knows(entry):
    assert re.fullmatch(r"autotune_[A-Za-z0-9_]*", c_name(entry))


def test_examples_in_docstrings_run():
    assert doctest.testmod(header).failed == 0
