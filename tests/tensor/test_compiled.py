"""Compiling: once for each structure, in memory and on disk; what goes in and comes out; a winner of the tuner."""

import os
import re
import subprocess
import sys
import threading

import numpy as np
import pytest
from bundle_support import no_care
from tensor_support import agree

import autotune as at
import autotune.tensor as T
from autotune.compiler.panel_weight import PanelWeight
from autotune.tensor import build, program_cache

RNG = np.random.default_rng(0)
X = RNG.standard_normal((5, 7), dtype=np.float32)
W = RNG.standard_normal((7, 4), dtype=np.float32)
B = RNG.standard_normal((4,), dtype=np.float32)


def layer(x):
    return T.relu(x @ W + B)


def expected(x):
    return np.maximum(x @ W + B, 0)


@pytest.fixture
def lowered(monkeypatch):
    """Payloads that are lowered while a test runs."""
    seen = []

    def note(payload, candidate):
        seen.append(payload)
        return original(payload, candidate)

    original = build.lower_program
    monkeypatch.setattr(build, "lower_program", note)
    return seen


@pytest.fixture
def own_disk(monkeypatch, tmp_path):
    """A cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "autotune" / "tensors"


def test_function_of_tensors_becomes_one_of_arrays():
    f = T.compile(layer)
    agree(f(X), expected(X), 7)
    agree(f(X[:2]), expected(X[:2]), 7)
    assert f.__name__ == "layer"


def test_numpy_computes_a_graph_and_keeps_what_it_computed():
    y = T.asarray(X).sum(axis=1) * 2
    assert "array" not in repr(y)
    agree(y.numpy(), X.sum(axis=1) * 2, 7)
    agree(np.asarray(y), X.sum(axis=1) * 2, 7)
    assert y.node.inputs == ()
    y.numpy()[0] = 9
    agree((y + 0).numpy(), X.sum(axis=1) * 2, 7)


def test_same_structure_is_compiled_once(own_disk, lowered):
    build.shared_function.cache_clear()
    a, b = (T.asarray(X[:3] + number) for number in (1, 2))
    agree((T.exp(a) + 3).numpy(), np.exp(X[:3] + 1) + 3)
    agree((T.exp(b) + 3).numpy(), np.exp(X[:3] + 2) + 3)
    assert len(lowered) == 1
    (T.exp(b) + 4).numpy()
    T.exp(T.asarray(X[:2])).numpy()
    assert len(lowered) == 3


def test_program_is_found_on_disk_and_compiled_again_if_it_is_damaged(own_disk, lowered):
    agree(T.compile(layer)(X), expected(X), 7)
    agree(T.compile(layer)(X), expected(X), 7)
    assert len(lowered) == 1
    (file,) = own_disk.iterdir()
    file.write_bytes(file.read_bytes()[:-3] + b"1}\n")
    agree(T.compile(layer)(X), expected(X), 7)
    assert len(lowered) == 2


def test_other_constants_use_the_same_program(own_disk, lowered):
    for scale in (1, 2):
        weight = W * np.float32(scale)
        agree(T.compile(lambda x: x @ weight)(X), X @ weight, 7)  # noqa: B023
    assert len(lowered) == 1


def test_cache_has_a_bound(own_disk, monkeypatch):
    monkeypatch.setattr(program_cache, "MOST_FILES", 3)
    for number in range(5):
        program_cache.keep(program_cache.key_of(str(number)), program_cache.LoweredProgram(str(number)))
    assert len(list(own_disk.iterdir())) == 3
    assert program_cache.read_cached(program_cache.key_of("4")).text == "4"


def test_disk_that_cannot_be_written_costs_a_compilation(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    agree(T.compile(lambda x: x * 3)(X), X * 3)


def test_second_process_does_not_lower_again(tmp_path):
    program = (
        "import numpy as np, autotune.tensor as T\nfrom autotune.tensor import build\n"
        "def fail(*_): raise SystemExit('lowered')\n"
        "import sys\nif sys.argv[1] == 'second': build.lower_program = fail\n"
        "print(T.compile(lambda x: x * 2 + 1)(np.ones(4, np.float32)))"
    )
    run = [sys.executable, "-c", program]
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    for which in ("first", "second"):
        done = subprocess.run([*run, which], capture_output=True, text=True, check=True, env=env)
        assert done.stdout == "[3. 3. 3. 3.]\n"


def test_results_come_as_they_are_returned():
    f = T.compile(lambda x, n, *, turn: {"sum": x.sum(), "parts": (x[:n], [x.T if turn else x])})
    found = f(X, 2, turn=True)
    agree(found["sum"], X.sum(dtype=np.float32), 35)
    np.testing.assert_array_equal(found["parts"][0], X[:2])
    np.testing.assert_array_equal(found["parts"][1][0], X.T)
    np.testing.assert_array_equal(f(X, 3, turn=False)["parts"][1][0], X)


def test_sizes_of_none_and_one_and_no_dimensions():
    f = T.compile(lambda x, y: (x + y, x.sum(), y * 2, x.reshape(-1)))
    x, y = np.zeros((0, 3), np.float32), np.ones((1, 3), np.float32)
    total, zero, double, flat = f(x, y)
    assert total.shape == (0, 3)
    assert zero == 0
    np.testing.assert_array_equal(double, y * 2)
    assert flat.shape == (0,)
    assert T.compile(lambda x: x)(np.float32(3)).shape == ()
    assert T.zeros((0, 2)).numpy().shape == (0, 2)
    assert (T.zeros((3, 0)) @ T.zeros((0, 2)) + 1).numpy().tolist() == [[1, 1]] * 3


def test_booleans_and_whole_numbers_come_back_as_such():
    less, count = T.compile(lambda x, flag: ((x < 0) & flag, T.count_nonzero(flag)))(X, X > -1)
    np.testing.assert_array_equal(less, (X < 0) & (X > -1))
    assert less.dtype == bool
    assert count == np.count_nonzero(X > -1)


def test_bfloat16_is_stored_so_and_computed_in_float32():
    x, w = T.asarray(X, dtype=T.bfloat16), T.asarray(W, dtype=T.bfloat16)
    found = (x @ w).numpy()
    exact = x.numpy().astype(np.float32) @ w.numpy().astype(np.float32)
    assert found.dtype == T.bfloat16
    np.testing.assert_array_equal(found, exact.astype(T.bfloat16))
    assert (x + T.asarray(X)).dtype == T.float32
    np.testing.assert_array_equal(T.asarray(X).astype("bf16").astype("f32").numpy(), X.astype(T.bfloat16).astype("f4"))


def test_arrays_that_do_not_lie_in_order_are_read_right():
    f = T.compile(lambda x, y: x - y)
    np.testing.assert_array_equal(f(X[:, ::2], np.asfortranarray(X[:, ::2] * 2)), -X[:, ::2])


def test_places_are_checked_before_compiled_code_reads_them():
    f = T.compile(lambda table, ids: T.take(table, ids, axis=0))
    np.testing.assert_array_equal(f(X, np.array([4, 0, 4])), X[[4, 0, 4]])
    for wrong in ([5], [-1]):
        with pytest.raises(T.TensorIndexError, match=r"indices in argument 1 must be from 0 to 4, got -?\d"):
            f(X, np.array(wrong))
    double = T.compile(lambda table, ids: T.take(table, ids * 2, axis=0))
    np.testing.assert_array_equal(double(X, np.array([1, 9])), X[[2, 4]])


def test_compiled_functions_call_each_other():
    inner = T.compile(lambda x: x * 2)
    agree(T.compile(lambda x: inner(x) + inner(x + 1))(X), X * 4 + 2)


def test_threads_call_one_function_at_once():
    f, wrong = T.compile(layer), []
    f(X)

    def work(number):
        x = X + np.float32(number)
        for _ in range(50):
            if not np.allclose(f(x), expected(x), atol=1e-4):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_graph_of_thousands_of_operations_is_no_recursion():
    x = T.asarray(X)
    y = x
    for _ in range(3000):
        y = y + 1
    assert len(T.payload(lambda: y).text.splitlines()) > 3000
    assert y.shape == X.shape


def test_payload_of_a_function_is_one_for_all_verbs():
    payload = T.payload(layer, X)
    assert [task.family().name for task in at.tasks(payload)] == ["fused"]
    assert "linalg.matmul" in payload.text
    assert [(a.role, a.shape) for a in payload.arguments] == [
        ("input", (5, 7)),
        ("weight", (7, 4)),
        ("weight", (4,)),
        ("output", (5, 4)),
    ]


def test_winner_of_the_tuner_is_taken(tmp_path, monkeypatch, lowered):
    monkeypatch.chdir(tmp_path)
    with no_care():
        result = T.tune(layer, X, trials=1, cold=True)
    assert result.bundle.startswith("tuned/")
    agree(T.compile(layer)(X), expected(X), 7)
    assert lowered[-1].name == result.payload
    assert at.Bundle.read(result.bundle).payload.text == lowered[-1].text
    with pytest.raises(T.TensorError, match="must be of this function and these shapes"):
        T.compile(layer, bundle=result.bundle)(X[:3])


def test_text_has_no_dimension_of_size_one():
    payload = T.payload(lambda x: (x - x.mean(axis=1, keepdims=True))[:, None, :] * T.ones((1, 7)), X)
    assert not re.search(r"<1x|x1x", payload.text)
    assert "_shape" not in payload.text


def test_arrays_are_read_where_they_lie_and_results_written_where_they_stay(monkeypatch):
    for name in ("require", "ascontiguousarray"):
        monkeypatch.setattr(np, name, None)  # nothing is copied
    f = T.compile(lambda x, mask: (T.where(mask, x, 0), x > 0))
    x, mask = X[:, None, :], X[:1, None] < 0.5  # sizes of 1, and booleans
    chosen, positive = f(x, mask)
    np.testing.assert_array_equal(chosen, np.where(mask, x, 0))
    np.testing.assert_array_equal(positive, x > 0)
    assert positive.dtype == bool
    assert chosen.flags.owndata
    assert positive.flags.owndata


def test_a_function_goes_back_and_forth_between_shapes_and_constants():
    f = T.compile(lambda x, *more: x * (more[0] if more else 1))
    for _ in range(2):
        for x in (X, X[:2], X.astype(np.int32), X[:, ::2], X[:0]):
            np.testing.assert_array_equal(f(x), x)
            np.testing.assert_array_equal(f(x, x), x * x)
            np.testing.assert_array_equal(f(x, 3), x * 3)
    with pytest.raises(T.TensorTypeError, match="must be an array without a mask"):
        f(np.ma.masked_array(X, X > 0))


def test_a_later_call_does_not_look_at_the_arrays_a_function_is_bound_to(monkeypatch):
    f = T.compile(layer)
    agree(f(X), expected(X), 7)
    monkeypatch.setattr(np, "array_equal", None)
    monkeypatch.setattr(PanelWeight, "pack", None)
    monkeypatch.setattr("autotune.bundles.contexts.aligned_empty", None)
    agree(f(X + 1), expected(X + 1), 7)
