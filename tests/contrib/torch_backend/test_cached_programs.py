"""Cached programs are data: what is damaged, of another format or impossible is ignored."""

import json

import numpy as np
import pytest

from autotune.contrib.torch_backend.cached_programs import (
    CODE,
    CONSTANTS,
    PROGRAM,
    ProgramArgument,
    read_program,
    read_refusal,
    read_uncovered,
    record_refusal,
    record_uncovered,
    write_program,
)
from autotune.contrib.torch_backend.options import read_options
from autotune.core.errors import OptionError
from autotune.core.payload import DTYPES

ARGUMENTS = (
    ProgramArgument("input", 0, (2, 3), "i64", accepts=(0, 5)),
    ProgramArgument("constant", 0, (3,), "f32", "c"),
    ProgramArgument("output", 0, (2,), "f32"),
)


@pytest.fixture
def folder(tmp_path):
    write_program(
        tmp_path / "a", ARGUMENTS, (), "entry", b"code", {"c": np.arange(3, dtype=np.float32)}, searched=7, error=0.1
    )
    return tmp_path / "a"


def test_what_is_kept_is_read_again(folder):
    cached = read_program(folder)
    assert (cached.program.arguments, cached.program.searched, cached.program.error) == (ARGUMENTS, 7, 0.1)
    assert cached.code == b"code"
    np.testing.assert_array_equal(cached.constants["c"], [0, 1, 2])


def test_constants_in_bf16_are_kept_as_their_bits(tmp_path):
    mask = np.array([0, -1.5, np.inf], DTYPES["bf16"])
    write_program(
        tmp_path / "a", (ARGUMENTS[0], ProgramArgument("constant", 0, (3,), "bf16", "c")), (), "entry", b"", {"c": mask}
    )
    np.testing.assert_array_equal(read_program(tmp_path / "a").constants["c"], mask.view("u2"))


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_constants_are_kept_however_they_lie_in_memory(dtype, tmp_path):
    whole = np.arange(24).astype(DTYPES[dtype]).reshape(4, 6)
    constants = {"turned": whole.T, "parts": whole[:, ::2], "behind": whole[::-1]}
    arguments = [ProgramArgument("constant", n, a.shape, dtype, name) for n, (name, a) in enumerate(constants.items())]
    write_program(tmp_path / "a", arguments, (), "entry", b"", constants)
    for name, found in read_program(tmp_path / "a").constants.items():
        np.testing.assert_array_equal(found.view(DTYPES[dtype]), constants[name])


@pytest.mark.parametrize("name", [PROGRAM, CODE, CONSTANTS])
def test_what_is_damaged_or_missing_is_not_there(folder, name):
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data[:-3])
    assert read_program(folder) is None
    (folder / name).unlink()
    assert read_program(folder) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("format", 3),
        ("format", 1),
        ("symbol", 3),
        ("arguments", [{**vars(ARGUMENTS[0]), "dtype": "i3"}]),
        ("panels", [{}]),
    ],
)
def test_what_no_program_may_say_is_not_there(folder, field, value):
    said = json.loads((folder / PROGRAM).read_text())
    (folder / PROGRAM).write_text(json.dumps({**said, field: value}))
    assert read_program(folder) is None


def test_ops_that_are_left_out_are_recorded(tmp_path):
    assert read_uncovered(tmp_path / "b.json") == frozenset()
    record_uncovered(tmp_path / "b.json", frozenset({"aten.x.default"}))
    assert read_uncovered(tmp_path / "b.json") == {"aten.x.default"}
    (tmp_path / "b.json").write_text("{")
    assert read_uncovered(tmp_path / "b.json") == frozenset()


def test_why_a_region_is_refused_is_recorded(tmp_path):
    assert read_refusal(tmp_path / "a" / "b.refused") == ""
    record_refusal(tmp_path / "a" / "b.refused", "no\nsuch op")
    assert read_refusal(tmp_path / "a" / "b.refused") == "no such op"
    (tmp_path / "a" / "b.refused").write_bytes(b"\xff")
    assert read_refusal(tmp_path / "a" / "b.refused") == ""


@pytest.mark.parametrize(
    ("given", "mode", "said"),
    [
        ({"store": 3}, None, "store of backend autotune must be a path, got 3; name a folder"),
        ({"store": "a\0b"}, None, "store of backend autotune must be a path"),
        ({"trails": 3}, None, "must be among trials, seconds, error, threads, store; got trails"),
        ({3: 4}, None, "threads, store; got 3"),
        ({"trials": -1}, None, "trials must be from 0"),
        ({"error": 2}, None, "error must be from 0 to 1"),
        ({}, "max-autotune", "without a mode, got 'max-autotune'"),
    ],
)
def test_options_that_are_refused(given, mode, said):
    with pytest.raises(OptionError, match=said):
        read_options(given, mode)


def test_a_store_may_be_named(tmp_path):
    assert read_options({"store": tmp_path}).folder == tmp_path
