"""Reading in the isolated process: what people give us may end that process, and never ours."""

import os
import signal

import pytest

from autotune.compiler.passes.pipelines import PLAIN
from autotune.core.candidate import Candidate
from autotune.core.errors import CompileError, PayloadError
from autotune.core.host.files import read_file
from autotune.registry import load_payload
from autotune.worker.loading.reading import compile_to, open_payload, partition, read_apart, reader

SPEC = "matmul,m=5,n=6,k=7"


def nested(depth):
    """A payload of nested conditions."""
    body = "scf.if %c {\n" * depth + "}\n" * depth
    return f"func.func @f(%a: memref<4xf32>) {{\n%c = arith.constant true\n{body}return\n}}"


def test_missing_file_is_named(tmp_path):
    with pytest.raises(PayloadError, match=r"missing.mlir is not: No such file"):
        open_payload(tmp_path / "missing.mlir")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (os.mkfifo, "it is a FIFO, not a regular file"),
        (os.mkdir, "Is a directory"),
        (lambda path: os.symlink("/dev/zero", path), "it is a device, not a regular file"),
        (lambda path: os.symlink(path, path), "Too many levels of symbolic links"),
        (lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_RDWR), 1 << 40), "it is larger than 256 MiB"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "it is not text"),
        (lambda path: os.symlink("nowhere", path), "it is a link to nowhere, which is not there"),
        (lambda path: path.write_text("module {\n\0}"), "line 2 holds a NUL"),
    ],
    ids=["fifo", "folder", "device", "loop", "huge", "bytes", "dangling", "nul"],
)
def test_what_is_no_text_file_is_refused_at_once(make, words, tmp_path):
    path = tmp_path / "payload.mlir"
    make(path)
    with pytest.raises(PayloadError, match=words):
        open_payload(path)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (os.mkfifo, "it is a FIFO"),
        (os.mkdir, "it is a folder"),
        (lambda path: path.write_text("func.func"), "it is a file"),
        (lambda path: os.symlink(path, path), "it is a link that leads to itself"),
        (lambda path: os.symlink("nowhere", path), "it is a link to nowhere, which is not there"),
    ],
    ids=["fifo", "folder", "file", "loop", "dangling"],
)
def test_a_name_that_is_no_payload_and_lies_here_is_said_to_be_what_it_is(make, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "mine")
    with pytest.raises(PayloadError, match=f"got 'mine'; {words}"):
        open_payload("mine")


def test_deeply_nested_payload_is_refused_and_the_tuner_lives(tmp_path):
    path = tmp_path / "deep.mlir"
    path.write_text(nested(5000))
    with pytest.raises(PayloadError, match=r"deep.mlir must not nest deeper than 200 brackets, it goes to 5001"):
        open_payload(path)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
def test_text_that_the_compiler_does_not_survive_is_an_error_of_the_text(number):
    with pytest.raises(PayloadError, match=rf"mine.mlir must be readable .* \(crashed: in .*{number.name}"):
        read_apart(signal.raise_signal, number, "mine.mlir", PayloadError)
    assert len(partition(load_payload(SPEC)).tasks) == 1


def test_partition_comes_back_with_the_functions_of_its_payload():
    payload = load_payload(SPEC)
    found = partition(payload)
    assert (found.payload.reference, found.payload.inputs) == (payload.reference, payload.inputs)
    assert "autotune.task" in found.payload.text


def test_text_that_does_not_parse_is_a_compile_error():
    payload = load_payload(SPEC)
    broken = type(payload)("broken", "func.func @", payload.entry, payload.arguments)
    with pytest.raises(CompileError, match="broken:1"):
        partition(broken)


def test_stage_of_a_candidate_is_compiled_apart():
    code = compile_to("code", load_payload(SPEC), Candidate(None, PLAIN)).text
    assert "<matmul" in code
    assert reader() is reader()


def test_file_that_grows_meanwhile_is_bounded(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(100))
    assert len(read_file(path, 100)) == 100
    with pytest.raises(OSError, match="larger"):
        read_file(path, 99)
    with pytest.raises(OSError, match="larger"):
        read_file("/proc/self/status", 10)  # of size 0, as it says
