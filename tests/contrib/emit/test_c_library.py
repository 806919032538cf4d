"""Libraries in C: right on every level, one status a fault, nothing allocated in a call, contexts that do not meet."""

import os
import re
import subprocess
import threading
from dataclasses import replace
from importlib import resources

import numpy as np
import pytest
from bundle_support import BRAIN, make_bundle
from c_support import COMPILER, NEEDS_C
from emit_support import BASE, NEEDS_LINKER, OURS, QEMU, VALGRIND, agrees, build, library_of, linked, output_of

import autotune as at
from autotune.compiler.codegen.llvm_tools import find_tool
from autotune.contrib.emit.c_library import write_c
from autotune.contrib.emit.c_source import SharedLibrary, header_text
from autotune.contrib.emit.forms import emit_as
from autotune.contrib.emit.levels import LEVELS, features_for, find_level, level_of
from autotune.contrib.emit.linking import link
from autotune.contrib.emit.standalone import Function, LibraryError
from autotune.contrib.emit.statuses import range_of
from autotune.contrib.emit.variants import compile_claim, compile_variants, symbol_of
from autotune.core.candidate import Claim
from autotune.core.errors import BundleError, MachineError
from autotune.core.host.machine import this_machine
from autotune.core.host.matrix_unit import ask_for_tiles
from autotune.core.payload import Argument, Payload
from autotune.core.scripts.marks import BY_TILES
from autotune.registry import load_family
from autotune.store.bundle import read_bundle
from autotune.tuning.candidates import default_candidate
from autotune.worker.loading.reading import partition
from autotune.worker.worker import Worker

pytestmark = NEEDS_LINKER
PANELS = "matmul,m=16,n=40,k=24,constant_b=1"
MODEL = "gpt,d_model=16,heads=2,d_ff=32,vocab=17,seq=5,layers=2"
RUNS = """\
#include "autotune_softmax.h"
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **words) {
  static float x[5 * 37], y[5 * 37];
  autotune_softmax_context *context;
  int status = autotune_softmax_open(&context, NULL, 0);
  for (int i = 0; status == 0 && i < atoi(words[count - 1]); ++i) status = autotune_softmax_run(context, x, y);
  autotune_softmax_close(status ? NULL : context);
  puts(autotune_softmax_status(status));
  return status;
}
"""


@pytest.fixture(scope="module")
def panels(tmp_path_factory):
    """A library with weights, for two levels."""
    folder = tmp_path_factory.mktemp("panels")
    library = library_of(folder, PANELS, (OURS, BASE))
    return folder, library, linked(folder, library)


@pytest.fixture(scope="module")
def softmax(tmp_path_factory):
    """A program in C with a library of this machine's level alone."""
    folder = tmp_path_factory.mktemp("softmax")
    library = library_of(folder, "softmax,rows=5,cols=37", (OURS,))
    write_c(library, folder)
    return build(folder, RUNS, library.name)


def test_the_library_computes_what_the_reference_does_and_exports_four_symbols(panels):
    folder, library, function = panels
    assert agrees(function, library.payload)
    listed = output_of(
        find_tool("llvm-nm"), "-D", "--defined-only", "--just-symbol-name", folder / "libautotune_matmul.so"
    )
    assert set(listed[0].split()) == {f"autotune_matmul_{call}" for call in ("open", "run", "close", "status")}


def test_each_level_alone_computes_the_same(panels, tmp_path):
    _, library, _ = panels
    for code in library.codes:
        folder = tmp_path / code.level.name
        folder.mkdir()
        assert agrees(linked(folder, replace(library, codes=(code,))), library.payload)


def test_a_small_model_computes_what_its_reference_does(tmp_path):
    library = library_of(tmp_path, MODEL, (OURS,))
    assert agrees(linked(tmp_path, library), library.payload)


@pytest.fixture(scope="module")
def parallel(tmp_path_factory):
    """A library whose loops three threads share."""
    folder = tmp_path_factory.mktemp("parallel")
    library = library_of(folder, "matmul,m=256,n=256,k=256", (OURS,), threads=3)
    return library, folder / "libautotune_matmul.so", linked(folder, library).arguments


@pytest.mark.parametrize("threads", [0, 1, 2, 3])
def test_threads_compute_what_one_computes(threads, parallel):
    library, path, arguments = parallel
    assert library.threads == 3
    function = Function(path, library.name, arguments, None, threads)
    assert all(agrees(function, library.payload) for _ in range(20))
    function.close()


def test_more_threads_than_it_was_tuned_on_are_refused(parallel):
    library, path, arguments = parallel
    with pytest.raises(LibraryError, match=r"^threads must be from 1 to 3, or 0 for as many as it was tuned on$"):
        Function(path, library.name, arguments, None, 4)


def test_contexts_of_two_threads_compute_at_once(panels):
    _, library, function = panels
    right = []

    def call():
        right.append(all(agrees(function, library.payload) for _ in range(50)))

    both = [threading.Thread(target=call) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert right == [True, True]


def test_weights_must_be_those_that_were_emitted(panels, tmp_path):
    folder, library, function = panels
    path, name, arguments = folder / "libautotune_matmul.so", library.name, function.arguments
    data = bytearray(library.weights.path.read_bytes())
    (tmp_path / "same").write_bytes(data)
    assert agrees(Function(path, name, arguments, tmp_path / "same"), library.payload)
    data[-1] ^= 1
    (tmp_path / "other").write_bytes(data)
    (tmp_path / "short").write_bytes(data[:-4])
    os.mkfifo(tmp_path / "pipe")  # nobody writes to it: it must not be waited for
    sha256 = library.weights.sha256
    for given, sentence in (
        (tmp_path / "other", f"the weights file must be the one that was emitted, of sha256 {sha256}; it is another"),
        (tmp_path / "short", f"the weights file must be the one that was emitted, of sha256 {sha256}; it is another"),
        (tmp_path, f"the weights file must be the one that was emitted, of sha256 {sha256}; it is another"),
        (tmp_path / "pipe", f"the weights file must be the one that was emitted, of sha256 {sha256}; it is another"),
        (tmp_path / "none", "the weights file must be readable, it is not"),
        (None, f"a weights file must be given, of sha256 {sha256}; NULL was given"),
    ):
        with pytest.raises(LibraryError) as raised:
            Function(path, name, arguments, given)
        assert str(raised.value) == sentence


FAULTS = """\
#include "autotune_sums.h"
#include <stdio.h>
#include <string.h>
#define SAY(call) puts(autotune_sums_status(call))
int main(void) {
  autotune_sums_context *context;
  int32_t index[3] = {0, 1, 2};
  float x[9], out[8];
  SAY(autotune_sums_open(NULL, NULL, 0));
  SAY(autotune_sums_open(&context, "weights", 0));
  SAY(autotune_sums_open(&context, NULL, -1));
  SAY(autotune_sums_run(context, index, x, out));
  SAY(autotune_sums_open(&context, NULL, 1));
  SAY(autotune_sums_run(context, NULL, x, out));
  SAY(autotune_sums_run(context, index, (float *)(void *)((char *)x + 2), out));
  SAY(autotune_sums_run(context, index, x, x + 1));
  SAY(autotune_sums_run(context, index, x + 1, out));
  index[2] = 4;
  SAY(autotune_sums_run(context, index, x, out));
  index[2] = -1;
  SAY(autotune_sums_run(context, index, x, out));
  autotune_sums_close(context);
  autotune_sums_close(NULL);
  SAY(-1);
  SAY(1000);
  return 0;
}
"""
SENTENCES = """\
a context must be one that open gave
no weights file must be given, this library has no weights
threads must be from 1 to 1, or 0 for as many as it was tuned on
a context must be one that open gave
no fault
index must be an array of 12 bytes, it is NULL
x must lie at a multiple of 4 bytes, it does not
out is written, so it must overlap no other array; it does
no fault
elements of index must be from 0 to 3, one is not
elements of index must be from 0 to 3, one is not
a status must be one that a call gave
a status must be one that a call gave
"""
GATHER = """\
func.func @sums(%index: memref<3xi32>, %x: memref<4x2xf32>, %out: memref<3x2xf32>) {
  %i = bufferization.to_tensor %index restrict : memref<3xi32> to tensor<3xi32>
  %t = bufferization.to_tensor %x restrict : memref<4x2xf32> to tensor<4x2xf32>
  %e = tensor.empty() : tensor<3x2xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r)>, affine_map<(r, c) -> (r, c)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%i : tensor<3xi32>) outs(%e : tensor<3x2xf32>) {
    ^bb0(%row: i32, %o: f32):
      %n = arith.index_cast %row : i32 to index
      %c = linalg.index 1 : index
      %v = tensor.extract %t[%n, %c] : tensor<4x2xf32>
      linalg.yield %v : f32
  } -> tensor<3x2xf32>
  bufferization.materialize_in_destination %r in restrict writable %out : (tensor<3x2xf32>, memref<3x2xf32>) -> ()
  return
}
"""


def test_every_fault_is_a_status_with_a_sentence(tmp_path):
    arguments = (
        Argument("index", "input", (3,), "i32", accepts=(0, 4)),
        Argument("x", "input", (4, 2)),
        Argument("out", "output", (3, 2)),
    )
    payload = Payload("sums", GATHER, "sums", arguments)
    library = library_of(tmp_path, payload, (BASE,))
    write_c(library, tmp_path)
    assert output_of(build(tmp_path, FAULTS, library.name))[0] == SENTENCES


def test_a_context_that_is_in_use_refuses_a_second_call(tmp_path):
    library = library_of(tmp_path, "matmul,m=256,n=256,k=256", (OURS,))
    function = linked(tmp_path, library)
    context = function._new_context()
    arrays = [np.ones(argument.shape, argument.dtype) for argument in function.arguments]
    others = [np.ones(argument.shape, argument.dtype) for argument in function.arguments]
    found = [set(), set()]

    def call(pointers, statuses):
        for _ in range(200):
            statuses.add(function._run(context, *(array.ctypes.data for array in pointers)))

    both = [threading.Thread(target=call, args=each) for each in zip((arrays, others), found, strict=True)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert found[0] | found[1] <= {0, 9}
    assert 0 in found[0] | found[1]
    assert function._status(9).decode().startswith("a context must serve one call at a time")
    for given, statuses in zip((arrays, others), found, strict=True):
        if 0 in statuses:  # one may have been refused each time, while the other computed
            np.testing.assert_allclose(given[2], 256)


@pytest.mark.skipif(
    QEMU is None or OURS == BASE, reason="there is no qemu-x86_64, or nothing that a machine could lack"
)
def test_a_processor_without_the_features_is_refused_and_a_lower_level_serves_it(softmax, tmp_path):
    said, _ = output_of(QEMU, "-cpu", "Nehalem", softmax, 1)
    assert said == (
        f"the processor must have {', '.join(LEVELS[OURS].features)}, it lacks fma; emit with a lower --target\n"
    )
    library = library_of(tmp_path, "softmax,rows=5,cols=37", (OURS, "x86-64-v2"))
    write_c(library, tmp_path)
    assert output_of(QEMU, "-cpu", "Nehalem", build(tmp_path, RUNS, library.name), 1)[0] == "no fault\n"


@pytest.mark.skipif(VALGRIND is None, reason="there is no valgrind")
def test_valgrind_sees_no_error_and_no_allocation_in_a_call(tmp_path):
    library = library_of(tmp_path, "softmax,rows=5,cols=37", ("x86-64-v2",))
    write_c(library, tmp_path)
    program = build(tmp_path, RUNS, library.name)
    counts = []
    for calls in (1, 100):
        said, seen = output_of(VALGRIND, "--leak-check=full", "--error-exitcode=9", program, calls)
        assert said == "no fault\n", seen
        assert "ERROR SUMMARY: 0 errors" in seen
        assert "All heap blocks were freed" in seen
        counts.append(re.search(r"([\d,]+) allocs", seen)[1])
    assert counts[0] == counts[1]


def test_the_header_names_arguments_and_no_word_of_c_among_them():
    arguments = tuple(
        Argument(name, role, (2,))
        for name, role in (("int", "input"), ("x.1", "input"), ("_", "input"), ("y", "output"))
    )
    library = SharedLibrary(Payload("f", "", "f", arguments), (), None)
    assert library.names == ["int_0", "x_1", "a2", "y"]
    written = SharedLibrary(Payload("f", "", "f", arguments), (stand_in(),), None)
    for name in ("const float *int_0 /* [2] */", "const float *x_1", "float *y"):
        assert name in header_text(written)


def stand_in():
    """A variant that was not compiled: headers need no code."""
    from autotune.contrib.emit.variants import LevelProgram

    return LevelProgram(LEVELS[BASE], "f", b"", (), (), (), 0, 1, False, False)


def test_a_level_has_no_features_of_this_machine_s_matrix_unit():
    like = replace(this_machine(), tiles="amx")
    assert LEVELS["x86-64-v2"].target(like, ()).attributes == "+sse2"
    assert "amx" not in LEVELS["x86-64-v4"].target(like, ()).attributes


def test_a_program_by_tiles_has_a_level_of_its_own():
    like = replace(this_machine(), isa="avx512f", tiles="amx")
    scripts = ["", '{autotune.precision = {t = "bf16"}}', '{autotune.precision = {t = "tile_bf16"}}', f'"{BY_TILES}"']
    names = ["x86-64-v4", "x86-64-v4", "x86-64-v4-amx", "x86-64-v4-amx"]
    assert [level_of(like, script).name for script in scripts] == names
    assert {"amx-tile", "amx-bf16", "avx512bf16"} <= {*LEVELS["x86-64-v4-amx"].features}
    assert "+amx-int8" in LEVELS["x86-64-v4-amx"].target(this_machine(), ()).attributes


@pytest.mark.skipif(not ask_for_tiles(), reason="needs a matrix unit")
def test_a_library_of_tiles_agrees_where_the_unit_is(tmp_path):
    payload = at.payload("matmul,m=21,n=40,k=70")
    candidate = default_candidate(partition(payload), this_machine(), lambda *_: load_family("tile_bf16"))
    level = level_of(this_machine(), candidate.script)
    assert level.name == "x86-64-v4-amx"
    with Worker() as worker:
        code = compile_claim(Claim(payload, candidate), level, symbol_of(level), worker, this_machine())
    function, given = linked(tmp_path, SharedLibrary(payload, (code,), None)), payload.make_inputs(0)
    exact = given["a"] @ given["b"]
    apart = np.abs(function(a=given["a"], b=given["b"]) - exact).max() / np.abs(exact).max()
    assert 1e-4 < apart < 1e-2  # it rounds


def test_a_level_that_nothing_was_tuned_for_rounds_no_more_than_was_allowed(tmp_path):
    (tmp_path / "brain.mlir").write_text(BRAIN)
    bundle = read_bundle(make_bundle(tmp_path, str(tmp_path / "brain.mlir"), error=0.0))
    unasked = replace(bundle, manifest=replace(bundle.manifest, command=("autotune", "tune", "brain.mlir")))
    found = [compile_variants((each,), ["x86-64-v4-amx"]) for each in (bundle, unasked)]
    assert [weight.precision for (program,) in found for weight in program.weights] == ["", "tile_bf16"]


ASKS = """
#include <unistd.h>
struct feature { unsigned leaf, subleaf, part, bit; };
struct variant { int features; struct feature *feature; unsigned saved; };
CHECKS
int main(void) { struct variant tiles = {0, 0, 0x60000}; return !can_run(&tiles); }
"""


@NEEDS_C
@pytest.mark.skipif(not ask_for_tiles(), reason="needs a matrix unit")
def test_a_level_with_tiles_serves_a_program_that_has_none(tmp_path):
    source = resources.files("autotune.contrib.emit") / "cpuid.c"
    (tmp_path / "asks.c").write_text(ASKS.replace("CHECKS", source.read_text()))
    subprocess.run([COMPILER, str(tmp_path / "asks.c"), "-o", str(tmp_path / "asks")], check=True)
    assert subprocess.run([str(tmp_path / "asks")], check=False).returncode == 0  # nothing in it asked before


BYTES = """
func.func @bytes(%a: tensor<19x70xi8>, %b: tensor<70x33xi8> {autotune.role = "weight"}) -> tensor<19x33xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<19x33xi32>
  %i = linalg.fill ins(%zero : i32) outs(%e : tensor<19x33xi32>) -> tensor<19x33xi32>
  %m = linalg.matmul ins(%a, %b : tensor<19x70xi8>, tensor<70x33xi8>) outs(%i : tensor<19x33xi32>) -> tensor<19x33xi32>
  return %m : tensor<19x33xi32>
}
"""


def test_a_library_whose_weights_are_bytes_has_the_sums_of_whole_numbers(tmp_path):
    (tmp_path / "bytes.mlir").write_text(BYTES)
    library = library_of(tmp_path, str(tmp_path / "bytes.mlir"), (OURS,))
    a, b = library.payload.make_inputs(0).values()
    np.testing.assert_array_equal(linked(tmp_path, library)(a), a.astype("i4") @ b.astype("i4"))
    written = [argument for argument, _ in library.call_arguments if argument.role == "output"]
    assert [(each.dtype, range_of(each)) for each in written] == [("i32", None)], "what lay there is not looked at"


def test_levels_and_features():
    assert find_level("x86-64-v3").isa == "avx2"
    assert level_of(this_machine()).name == OURS
    assert features_for(["x86.avx512.vpdpbusd.512", "x86.avx512bf16.dpbf16ps.512"]) == ("avx512bf16", "avx512vnni")
    with pytest.raises(MachineError, match="--target of a library must be one of x86-64-v4-amx, x86-64-v4, x86-64-v3"):
        find_level("riscv64")
    with pytest.raises(MachineError, match="the bundle is of neon"):
        level_of(replace(this_machine(), isa="neon"))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda b: {"form": "wasm"}, "--as must be one of c"),
        (lambda b: {"targets": ("pentium",)}, "--target of a library must be one of"),
        (lambda b: {"weights": b}, "--weights must be left out"),
        (lambda b: {"bundles": [b, b]}, "bundles of one library must be of different levels"),
    ],
)
def test_bad_input_is_refused_in_one_line(change, sentence, tmp_path):
    from bundle_support import shared_bundle

    bundle = shared_bundle(tmp_path, "softmax,rows=5,cols=37")
    given = {"bundles": [bundle], "form": "c", "output": tmp_path / "out", **change(bundle)}
    with pytest.raises((BundleError, MachineError), match=sentence):
        emit_as(**given)


def test_without_a_compiler_the_parts_are_there_and_how_to_link_them(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setitem(__import__("sys").modules, "ziglang", None)
    with pytest.raises(
        BundleError, match=r"a library is linked by a C compiler, none is here.* cc -std=gnu11 .*f\.c"
    ) as why:
        link(tmp_path / "src", {"f.c": "int f_run(void) { return 3; }\n"}, tmp_path / "libf.so", ("f_run",))
    line = str(why.value).split(": ")[-1]
    monkeypatch.undo()
    subprocess.run(line, shell=True, cwd=tmp_path / "src", check=True)
    assert (tmp_path / "libf.so").is_file()


def test_weights_files_of_others_are_read_or_refused(tmp_path):
    from safetensors.numpy import load_file, save_file

    from autotune.contrib.emit.weights import read_weights, write_weights

    weights = [Argument("w", "weight", (3, 5)), Argument("v", "weight", (2,), "i8")]
    values = {"w": np.arange(15, dtype="f4").reshape(3, 5), "v": np.array([1, -1], "i1")}
    write_weights(tmp_path / "ours", weights, values)
    assert all((load_file(tmp_path / "ours")[name] == value).all() for name, value in values.items())
    save_file(values, tmp_path / "theirs")
    for path in (tmp_path / "ours", tmp_path / "theirs"):
        found, data = read_weights(path, weights), path.read_bytes()
        assert len(data) == found.bytes
        start = found.offsets["w"]
        assert (np.frombuffer(data[start : start + 60], "f4").reshape(3, 5) == values["w"]).all()
    save_file({"w": values["w"].T.copy(), "v": values["v"]}, tmp_path / "turned")
    (tmp_path / "noise").write_bytes(b"\xff" * 100)
    (tmp_path / "cut").write_bytes((tmp_path / "ours").read_bytes()[:-40])
    (tmp_path / "deep").write_bytes((10**5).to_bytes(8, "little") + b"[" * 10**5)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name, sentence in (
        ("turned", r"w must be f32 \[3, 5\], it is F32 \[5, 3\]"),
        ("noise", "must be a safetensors file"),
        ("cut", "must hold all of w"),
        ("nothing", "must be readable"),
        ("deep", "must be a safetensors file"),
        ("fifo", "it is a FIFO"),
        ("endless", "it is a device"),
    ):
        with pytest.raises(BundleError, match=sentence):
            read_weights(tmp_path / name, weights)
