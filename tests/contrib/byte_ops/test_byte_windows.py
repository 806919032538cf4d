"""Sums of products of neighbours in rows of bytes: the whole numbers that NumPy gives, whatever windows there are."""

from itertools import product

import numpy as np
import pytest
from precision_support import computed
from tuning_support import loaded, run

from autotune.compiler.codegen.openmp import find_openmp
from autotune.compiler.passes.pipelines import tail
from autotune.compiler.tasks.partition import partition
from autotune.contrib.byte_ops import windows_family
from autotune.contrib.byte_ops.marks import CHOOSES, MULTIPLIES
from autotune.contrib.byte_ops.windows_family import BYTE_WINDOWS
from autotune.core.host.machine import this_machine
from autotune.core.host.matrix_unit import cpu_flags
from autotune.core.scripts.assembly import assemble, write_step
from autotune.registry import families_for

RNG = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def able(monkeypatch):
    """A processor that chooses and multiplies bytes, or is taken for one; code is written for what there is."""
    monkeypatch.setattr(windows_family, "cpu_flags", lambda: cpu_flags() | {CHOOSES, MULTIPLIES})


def kind(shape, element="i8"):
    return f"tensor<{'x'.join(map(str, (*shape, element)))}>"


def convolution(folder, channels, plane, window, *, stride=1, weights=None, others=1, narrow=False):
    """A convolution of each channel of (channels, h, w) by itself, its places one by one, and what follows it."""
    size = [(side - places) // stride + 1 for side, places in zip(plane, window, strict=True)]
    made, taps = (channels, *size), list(product(*map(range, window)))
    weights = RNG.integers(-127, 128, (len(taps), channels)) if weights is None else weights
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
    text = f"""func.func @f(%x: {kind((channels, *plane))}, %r: {kind(made)}) -> {kind(made)} {{
  {newline.join(lines)}
  %y = linalg.generic {{indexing_maps = [{", ".join(maps)}], iterator_types = [{loops}]}}
    ins({", ".join(inputs)} : {", ".join(kinds)}) outs(%into : {kind(made)}) {{
  ^bb0({", ".join(elements)}):
    {newline.join(body)}
    linalg.yield %y : i8
  }} -> {kind(made)}
  return %y : {kind(made)}
}}"""
    payload = loaded(folder, text)
    x, residual = (RNG.integers(-128, 128, a.shape).astype(np.int8) for a in payload.arguments if a.role == "input")
    given = dict(zip([a.name for a in payload.arguments if a.role == "input"], (x, residual), strict=True))
    wanted = residual.astype(np.int64) + others
    for (i, j), w in zip(taps, weights, strict=True):
        part = x[:, i : i + (size[0] - 1) * stride + 1 : stride, j : j + (size[1] - 1) * stride + 1 : stride]
        wanted += part.astype(np.int64) * w[:, None, None]
    return payload, given, (wanted >> 9).astype(np.int8)


@pytest.mark.parametrize(
    ("plane", "window", "stride"),
    [
        ((5, 9), (3, 3), 1),
        ((7, 58), (3, 3), 1),
        ((7, 130), (2, 5), 1),
        ((9, 35), (3, 3), 2),
        ((8, 150), (2, 7), 2),
        ((9, 61), (3, 2), 3),
        ((9, 64), (2, 3), 4),
        ((11, 80), (2, 3), 5),
        ((6, 28), (4, 1), 1),
    ],
    ids=str,
)
def test_sums_of_windows_are_those_of_whole_numbers(plane, window, stride, tmp_path):
    payload, given, wanted = convolution(tmp_path, 3, plane, window, stride=stride)
    (found,) = computed(BYTE_WINDOWS, payload, given)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("lanes", [16, 32, 64])
def test_steps_of_every_length_give_them(lanes, tmp_path):
    payload, given, wanted = convolution(tmp_path, 2, (4, 101), (3, 3))
    (found,) = computed(BYTE_WINDOWS, payload, given, lanes=lanes)
    np.testing.assert_array_equal(found, wanted)


def test_without_the_instruction_they_are_multiplications(monkeypatch, tmp_path):
    payload, given, wanted = convolution(tmp_path, 2, (4, 40), (3, 3))
    monkeypatch.setattr("autotune.contrib.byte_ops.windows_code.cpu_flags", frozenset)
    (found,) = computed(BYTE_WINDOWS, payload, given)
    np.testing.assert_array_equal(found, wanted)


def test_the_whole_range_of_bytes_is_summed(tmp_path):
    ends = np.array([[127, -127], [-127, 127], [1, 127], [-127, -127], [127, 0], [127, -1]])
    payload, given, _ = convolution(tmp_path, 2, (6, 40), (2, 3), weights=ends, others=-7)
    (x, residual) = given.values()
    x[...] = np.resize(np.array([-128, 127, 127, -128, 0], np.int8), x.shape)
    (found,) = computed(BYTE_WINDOWS, payload, given)
    wanted = residual.astype(np.int64) - 7
    for (i, j), w in zip(product(range(2), range(3)), ends, strict=True):
        wanted += x[:, i : i + 5, j : j + 38].astype(np.int64) * w[:, None, None]
    np.testing.assert_array_equal(found, (wanted >> 9).astype(np.int8))


def test_sums_of_16_bits_that_do_not_fit_wrap_as_they_are_written(tmp_path):
    payload, given, _ = convolution(tmp_path, 2, (6, 40), (2, 3), weights=np.full((6, 2), 127), narrow=True)
    (x, residual) = given.values()
    x[...] = np.resize(np.array([-128, 127, 5], np.int8), x.shape)
    (found,) = computed(BYTE_WINDOWS, payload, given)
    wanted = residual.astype(np.int64) + 1
    for i, j in product(range(2), range(3)):
        once = x[:, i : i + 5, j : j + 38].astype(np.int16) * np.int16(127)
        wanted += once + once
    np.testing.assert_array_equal(found, (wanted >> 9).astype(np.int8))


@pytest.mark.skipif(find_openmp() is None, reason="no OpenMP runtime is installed")
def test_threads_share_channels(tmp_path):
    payload, given, wanted = convolution(tmp_path, 64, (4, 66), (3, 3))
    parts, machine = partition(payload), this_machine(2)
    (task,) = parts.tasks
    step = write_step(task, BYTE_WINDOWS, BYTE_WINDOWS.default(task, machine), machine)
    assert step.config["pieces_m"] == 2
    (found,) = run(payload, given, assemble([step]), tail(2), text=parts.payload.text)
    np.testing.assert_array_equal(found, wanted)


def test_it_comes_first_where_there_are_enough_products(tmp_path):
    names = {}
    for window in ((1, 3), (3, 3)):
        payload, *_ = convolution(tmp_path, 2, (6, 40), window)
        names[window] = [family.name for family in families_for(partition(payload).tasks[0])]
    assert names == {(1, 3): ["vectorize"], (3, 3): ["byte_windows", "vectorize"]}
