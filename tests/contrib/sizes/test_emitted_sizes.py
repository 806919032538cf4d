"""Libraries of any size: what they compute is what the model computes, whatever part of a request is padded or cut."""

import ctypes
import re
import shutil
import sys
import threading
import zipfile
from dataclasses import replace
from importlib import import_module

import numpy as np
import onnxruntime
import pytest
from emit_support import BASE, NEEDS_LINKER, VALGRIND, build, output_of
from sizes_support import CLOSE, LONGEST, WIDTH, attention, in_numpy, request, shortened_heads

import autotune as at
from autotune.contrib.emit import forms
from autotune.contrib.emit.c_library import write_library
from autotune.contrib.emit.c_source import source_text
from autotune.contrib.emit.forms import any_size_library, emit_as
from autotune.contrib.emit.levels import LEVELS, level_of
from autotune.contrib.emit.standalone import CallArgument, Function
from autotune.contrib.emit.variants import compile_sizes, level_of_sizes
from autotune.contrib.sizes.folder import CompiledSize, SizedModel, write_sized
from autotune.contrib.sizes.making import import_size, share_weights
from autotune.contrib.sizes.paths import is_sized
from autotune.contrib.sizes.plan import plan_request, points_of
from autotune.contrib.sizes.proof import Dim
from autotune.core.host.machine import this_machine
from autotune.core.plugs.any_size import AnySizeReader, ServedSize
from autotune.registry import any_size_reader
from autotune.tuning.candidates import default_candidate
from autotune.worker.loading.reading import partition

pytestmark = NEEDS_LINKER
LEVEL = level_of(this_machine())
MOST_BATCH = 5  # more than any compiled size holds, so that requests are computed in parts
MAIN = """\
#include "autotune_main.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *said;

/* Computes what lies in ids and mask, both of one size, and writes it to a file. */
static int serve(autotune_main_context *context, int64_t batch, int64_t tokens, const char *name) {
  static int64_t ids[5 * 12], mask[5 * 12];
  static float y[5 * 12 * 16];
  FILE *file = fopen(name, "rb");
  size_t count = (size_t)(batch * tokens);
  if (file == NULL || fread(ids, 8, count, file) != count || fread(mask, 8, count, file) != count) return -1;
  fclose(file);
  int status = autotune_main_run(context, batch, tokens, ids, mask, y);
  for (int i = 0; i < 20 && status == 0; ++i) status = autotune_main_run(context, batch, tokens, ids, mask, y);
  file = fopen(name, "wb");
  fwrite(y, 4, count * 16, file);
  fclose(file);
  return status;
}

int main(int count, char **words) {
  autotune_main_context *context;
  int status = autotune_main_open(&context, words[1], 0);
  for (int i = 2; status == 0 && i + 2 < count; i += 3)
    status = serve(context, atoi(words[i]), atoi(words[i + 1]), words[i + 2]);
  said = autotune_main_status(status);
  autotune_main_close(context);
  puts(said);
  return status;
}
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return attention(tmp_path_factory.mktemp("emitted") / "attention.onnx")


@pytest.fixture(scope="module")
def folder(model, warm_converters):
    """A folder of two sizes, which serves larger batches in parts."""
    folder, sizes = model.parent / "any", [{"batch": 1, "tokens": 12}, {"batch": 2, "tokens": 12}]
    for each in sizes:
        import_size(model, folder, each)
    share_weights(folder, sizes)
    dims = (
        Dim("batch", 1, MOST_BATCH, pad=True, split=True, results=(0,)),
        Dim("tokens", 1, 12, pad=True, results=(1,), masks=("mask",)),
    )
    axes = {name: {"batch": 0, "tokens": 1} for name in ("ids", "mask")}
    compiled = tuple(CompiledSize(each, seconds) for each, seconds in zip(sizes, (1e-5, 1.5e-5), strict=True))
    write_sized(folder, SizedModel("attention.onnx", "0" * 64, dims, axes, compiled))
    return folder


@pytest.fixture(scope="module")
def library(folder):
    """A folder with the library in C, and a program that calls it."""
    output = folder.parent / "c"
    emit_as([folder], "c", output)
    return output, build(output, MAIN, "autotune_main")


@pytest.fixture(scope="module")
def module(folder):
    """The installed wheel."""
    wheel, _ = emit_as([folder], "wheel", folder.parent / "wheel")
    zipfile.ZipFile(wheel).extractall(folder.parent / "installed")
    sys.path.insert(0, str(folder.parent / "installed"))
    yield import_module("autotune_main")
    sys.path.remove(str(folder.parent / "installed"))
    for name in [name for name in sys.modules if name.startswith("autotune_main")]:
        del sys.modules[name]


def expected(model, given):
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    return session.run(None, given)[0]


SIZES = [(1, 1), (1, 12), (2, 5), (3, 12), (5, 7), (5, 12), (4, 1)]


def words_of(path, rng):
    """What the program in C takes of a request of each size, in files; and the requests."""
    words, given = [], []
    for batch, tokens in SIZES:
        given.append(request(rng, batch, tokens))
        file = path / f"{batch}-{tokens}"
        file.write_bytes(b"".join(array.tobytes() for array in given[-1].values()))
        words += [batch, tokens, file]
    return words, given


def test_a_program_in_c_computes_requests_of_any_size(model, library, tmp_path):
    output, program = library
    words, given = words_of(tmp_path, np.random.default_rng(0))
    assert output_of(program, output / "autotune_main.safetensors", *words) == ("no fault\n", "")
    for (batch, tokens), each in zip(SIZES, given, strict=True):
        found = np.fromfile(tmp_path / f"{batch}-{tokens}", np.float32).reshape(batch, tokens, -1)
        np.testing.assert_allclose(found, expected(model, each), atol=1e-5)


SHOW = """
int show_plan(const int64_t *request, int64_t *shown) {
  static struct plan plan;
  const int status = plan_request(&variants[0], &plan, request);
  for (int i = 0; i < plan.parts; ++i) {
    shown[3 * i] = plan.part[i].size;
    shown[3 * i + 1] = plan.part[i].start;
    shown[3 * i + 2] = plan.part[i].count;
  }
  return status == STATUS_OK ? plan.parts : 0;
}
"""


def test_a_request_is_planned_as_in_python(folder, tmp_path):
    library, rng = any_size_library(folder, tmp_path), np.random.default_rng(0)
    sizes = points_of({"batch": [1, 2, 4], "tokens": [2, 5, 12]})
    served = tuple(ServedSize(each, float(rng.uniform(1, 9)) * 1e-6, 0, 0) for each in sizes)
    batch, tokens = (replace(dim, high=max(9, dim.high)) for dim in library.any_size.dims)
    for number, (split, pad) in enumerate(((True, True), (True, False), (False, True))):
        dims = replace(batch, split=split, pad=pad), tokens
        with_these = replace(library, sized=(replace(library.any_size, dims=dims, served=served),))
        output = tmp_path / str(number)
        output.mkdir()
        plan = ctypes.CDLL(str(write_library(with_these, output, (SHOW,), ("show_plan",)))).show_plan
        for wanted in points_of({"batch": range(1, 10), "tokens": range(1, 13)}):
            request, shown = (ctypes.c_int64 * 2)(*wanted.values()), (ctypes.c_int64 * 27)()
            parts = np.array(shown[: 3 * plan(request, shown)]).reshape(-1, 3)
            planned = plan_request(dims, sizes, [each.seconds for each in served], wanted)
            assert sorted(parts.tolist()) == sorted([each.size, each.start, each.count] for each in planned)


def test_there_is_one_copy_of_the_weights_for_all_sizes(folder, library):
    output, _ = library
    held = sum(path.stat().st_size for path in folder.rglob("*.safetensors"))
    assert (output / "autotune_main.safetensors").stat().st_size < held + 1000
    text = source_text(any_size_library(folder, output, (), output / "autotune_main.safetensors"))
    panels = re.findall(r"^static inline void (store_\w+)\(", text, re.MULTILINE)
    assert len(panels) == len(set(panels)) <= 3


@pytest.mark.skipif(VALGRIND is None, reason="there is no valgrind")
def test_valgrind_sees_no_error_and_no_allocation_in_calls_of_any_size(folder, tmp_path, monkeypatch):
    model = any_size_reader().read(folder, None)
    plain = replace(this_machine(), isa="sse2")  # what valgrind knows
    programs = tuple(
        replace(each, machine=plain, candidate=default_candidate(partition(each.payload), LEVELS[BASE].machine(plain)))
        for each in model.programs
    )
    reader = AnySizeReader(is_sized, lambda *_: replace(model, programs=programs))
    monkeypatch.setattr(forms, "any_size_reader", lambda: reader)
    emit_as([folder], "c", tmp_path / "c")
    program, counts = build(tmp_path / "c", MAIN, "autotune_main"), []
    for repeated in (1, 3):
        words, _ = words_of(tmp_path, np.random.default_rng(0))
        lines = [VALGRIND, "--leak-check=full", "--error-exitcode=9", program]
        said, seen = output_of(*lines, tmp_path / "c" / "autotune_main.safetensors", *words[: 3 * repeated])
        assert (said, "ERROR SUMMARY: 0 errors" in seen) == ("no fault\n", True), seen
        assert "All heap blocks were freed" in seen
        files = 4 * repeated  # opening one twice is two allocations each
        counts.append(int(re.search(r"([\d,]+) allocs", seen)[1].replace(",", "")) - files)
    assert counts[0] == counts[1]


def test_the_wheel_takes_any_size(model, module):
    function, rng = module.load(), np.random.default_rng(1)
    for size in SIZES:
        given = request(rng, *size)
        np.testing.assert_allclose(function(**given), expected(model, given), atol=1e-5)
    np.testing.assert_array_equal(function(given["ids"][:, ::-1][:, ::-1], given["mask"]), function(**given))


MASK = "mask"
BAD = {
    "batch must be from 1 to 5, it is not": lambda given: {key: np.ones((6, 4), int) for key in given},
    "tokens must be from 1 to 12, it is not": lambda given: {key: np.ones((1, 13), int) for key in given},
    "batch must be from 1 to 5": lambda given: {key: np.ones((0, 4), int) for key in given},
    "tokens must be one size in all arrays, it is 4 and, in mask, 5": lambda given: {
        **given,
        "mask": np.ones((2, 5), int),
    },
    "mask must hold a 1 in each line that is padded": lambda given: {**given, "mask": np.zeros((2, 4), int)},
    "elements of ids must be from": lambda given: {**given, "ids": np.full((2, 4), 50)},
    "ids must be int64, it is float32": lambda given: {**given, "ids": np.ones((2, 4), np.float32)},
    r"ids must be of shape \(batch, tokens\), it is \(8,\)": lambda given: {**given, "ids": np.ones(8, int)},
    "a call takes ids, mask; got 0 by order and": lambda given: {"ids": given["ids"]},
}


@pytest.mark.parametrize("words", BAD)
def test_requests_that_are_not_served_are_one_line(module, words):
    given = request(np.random.default_rng(0), 2, 4)
    with pytest.raises((TypeError, ValueError), match=words) as error:
        module.load()(**BAD[words](given))
    assert "\n" not in str(error.value)


def test_onnx_runtime_takes_any_size_and_says_what_is_refused(model, folder, tmp_path):
    shared, path, _ = emit_as([folder], "onnx", tmp_path / "onnx")
    options, rng = onnxruntime.SessionOptions(), np.random.default_rng(2)
    options.register_custom_ops_library(str(shared))
    session = onnxruntime.InferenceSession(str(path), options)
    assert session.get_outputs()[0].shape == ["batch", "tokens", 16]
    for size in SIZES:
        given = request(rng, *size)
        np.testing.assert_allclose(session.run(None, given)[0], expected(model, given), atol=1e-5)
    for words, given in (
        ("tokens must be from 1 to 12", request(rng, 1, 13)),
        ("mask must be of a shape that the operator takes", {**request(rng, 1, 4), "mask": np.ones((1, 5), int)}),
        ("mask must hold a 1", {**request(rng, 1, 4), "mask": np.zeros((1, 4), int)}),
    ):
        with pytest.raises(Exception, match=words):
            session.run(None, given)


@pytest.fixture(scope="module")
def shortened(tmp_path_factory, warm_converters):
    """The function of one size, whose loops end where a request does."""
    folder = tmp_path_factory.mktemp("shortened")
    model = shortened_heads(folder)
    grain = model.sizes[0].grain
    write_sized(folder, model)
    assert at.sizes.open(folder).plan(batch=1, tokens=1) == [(f"batch=1,tokens={grain}", 1)]
    shared, _, weights = emit_as([folder], "c", folder / "c")
    return function_of(shared, weights), grain, folder


def function_of(shared, weights):
    """The function of a library of the shortened model."""
    names = "batch", "tokens"
    arguments = [
        CallArgument("x", "input", "float32", (*names, WIDTH)),
        CallArgument("mask", "input", "float32", names),
        CallArgument("y", "output", "float32", (*names, WIDTH)),
    ]
    return Function(shared, "autotune_main", arguments, weights, sizes=names)


def right(function, rng, batch, tokens, calls=1):
    """Whether a request of a size gives what NumPy computes, in every call."""
    x = rng.standard_normal((batch, tokens, WIDTH)).astype(np.float32)
    mask = (rng.random((batch, tokens)) < 0.5).astype(np.float32)
    mask[:, 0] = 1
    expected = in_numpy(x, mask)
    return all(np.allclose(function(x=x, mask=mask), expected, **CLOSE) for _ in range(calls))


def test_loops_of_an_emitted_program_end_where_a_request_does(shortened):
    function, grain, _ = shortened
    rng, spoilt = np.random.default_rng(0), np.full((1, LONGEST, WIDTH), np.nan, np.float32)
    for batch, tokens in ((1, 1), (1, grain), (2, grain - 1), (1, LONGEST - 1), (3, LONGEST)):
        function(x=spoilt, mask=np.ones((1, LONGEST), np.float32))
        assert right(function, rng, batch, tokens)


def test_where_loops_end_is_known_to_each_thread_apart(shortened):
    function, grain, folder = shortened
    model = any_size_reader().read(folder, None)
    (code,) = compile_sizes(model, level_of_sizes(model), tuned=True)
    assert code.extents
    assert b".tdata" in code.code
    found = []

    def call(seed, tokens):
        found.append(right(function, np.random.default_rng(seed), 2, tokens, calls=50))

    threads = [threading.Thread(target=call, args=each) for each in enumerate((grain, LONGEST, grain, LONGEST))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4


@pytest.mark.parametrize("form", ["object", "llvm", "asm"])
def test_forms_of_one_program_are_refused_for_a_folder_of_many(folder, refused, form):
    words = f"--as {form} must be given one size, {folder} holds a model of any size"
    refused("emit", folder, "--as", form, words=words)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--payload", "nano"), "a model of any size must be emitted alone"),
        (("--target", "aarch64"), "--target of a library must be one of"),
    ],
)
def test_what_a_folder_of_many_sizes_cannot_be_emitted_with_is_refused(folder, refused, more, words):
    refused("emit", folder, *more, words=words)


def test_a_library_of_any_size_holds_levels_and_takes_the_best_that_the_processor_has(shortened, tmp_path):
    _, _, folder = shortened
    library = any_size_library(folder, tmp_path, ("x86-64-v3", "x86-64", LEVEL.name))
    names = [variant.code.level.name for variant in library.variants]
    assert names == list(dict.fromkeys([LEVEL.name, "x86-64-v3", "x86-64"]))
    assert [variant.code.tuned for variant in library.variants] == [name == LEVEL.name for name in names]
    assert all(variant.served for variant in library.variants)
    rng = np.random.default_rng(0)
    for first in range(len(names)):  # what the processor would take that has no more than a level
        count, output = len(library.codes) // len(names), tmp_path / names[first]
        output.mkdir()
        lower = replace(library, codes=library.codes[first * count :], sized=library.sized[first:])
        function = function_of(write_library(lower, output), library.weights.path)
        for batch, tokens in ((1, 1), (2, 3), (3, LONGEST)):
            assert right(function, rng, batch, tokens)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("sizes/*/payload.json", "a payload file must be readable"),
        ("weights.safetensors", "weights.safetensors"),
        ("sizes.json", "a bundle must hold manifest.json"),
    ],
)
def test_a_folder_that_lost_a_file_is_refused_in_one_line(folder, refused, tmp_path, file, words):
    shutil.copytree(folder, tmp_path / "any")
    next((tmp_path / "any").glob(file)).unlink()
    refused("emit", tmp_path / "any", "-o", tmp_path / "out", words=words)


def test_weights_that_changed_are_refused_in_one_line(folder, refused, tmp_path):
    shutil.copytree(folder, tmp_path / "any")
    path = tmp_path / "any" / "weights.safetensors"
    for data in (path.read_bytes()[:-8], path.read_bytes()[:-1] + b"\x01"):
        path.write_bytes(data)
        refused("emit", tmp_path / "any", "-o", tmp_path / "out", words="weights.safetensors")
