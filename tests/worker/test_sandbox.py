"""The sandbox, tried by machine code: programs that ask the system for what no candidate needs, and are refused."""

import os
import re
import signal
import subprocess
import sys

import pytest
from test_faults import product
from test_worker import GOOD, OUTPUT, instead, job
from warm_pythons import COLD

from autotune.core.trial import RIGHT
from autotune.worker.isolation.sandbox import available_mechanisms
from autotune.worker.probe import attempt_all, find_holes
from autotune.worker.worker import Worker

pytestmark = pytest.mark.skipif(
    set(available_mechanisms()) != {"landlock", "seccomp"},
    reason="this machine lacks a mechanism of the sandbox: see autotune doctor",
)


def tries(call, declaration, text="true"):
    """The right product if a call of libc is refused, that is, returns -1; NaN somewhere if it succeeds.

    Args:
        call: The call, of ``%path``, a pointer to `text`, ``%zero32`` to ``%two32``, ``%create32`` and ``%null``.
        declaration: Declaration of what is called.
        text: What ``%path`` points to.
    """
    size = len(text) + 1
    kind = re.search(r"-> (i\d+)", declaration).group(1)
    return instead(
        f"""{product()}
%path = llvm.mlir.addressof @path : !llvm.ptr
%null = llvm.mlir.zero : !llvm.ptr
%zero32 = llvm.mlir.constant(0 : i32) : i32
%one32 = llvm.mlir.constant(1 : i32) : i32
%two32 = llvm.mlir.constant(2 : i32) : i32
%create32 = llvm.mlir.constant({os.O_CREAT | os.O_WRONLY} : i32) : i32
%got = {call}
%minus = llvm.mlir.constant(-1 : {kind}) : {kind}
%done = arith.cmpi ne, %got, %minus : {kind}
%nan = arith.constant 0x7FC00000 : f32
scf.if %done {{
  memref.store %nan, %{OUTPUT.name}[%c0, %c0] : {OUTPUT.type}
}}""",
        f'llvm.mlir.global internal constant @path("{text}\\00") : !llvm.array<{size} x i8>\n{declaration}',
    )


HARM = {
    "open": (
        "llvm.call @open(%path, %create32, %zero32) : (!llvm.ptr, i32, i32) -> i32",
        "llvm.func @open(!llvm.ptr, i32, i32) -> i32",
    ),
    "creat": ("llvm.call @creat(%path, %zero32) : (!llvm.ptr, i32) -> i32", "llvm.func @creat(!llvm.ptr, i32) -> i32"),
    "unlink": ("llvm.call @unlink(%path) : (!llvm.ptr) -> i32", "llvm.func @unlink(!llvm.ptr) -> i32"),
    "chmod": ("llvm.call @chmod(%path, %zero32) : (!llvm.ptr, i32) -> i32", "llvm.func @chmod(!llvm.ptr, i32) -> i32"),
    "rename": (
        "llvm.call @rename(%path, %path) : (!llvm.ptr, !llvm.ptr) -> i32",
        "llvm.func @rename(!llvm.ptr, !llvm.ptr) -> i32",
    ),
    "mkdir": ("llvm.call @mkdir(%path, %zero32) : (!llvm.ptr, i32) -> i32", "llvm.func @mkdir(!llvm.ptr, i32) -> i32"),
    "socket": (
        "llvm.call @socket(%two32, %one32, %zero32) : (i32, i32, i32) -> i32",
        "llvm.func @socket(i32, i32, i32) -> i32",
    ),
    "local-socket": (
        "llvm.call @socket(%one32, %one32, %zero32) : (i32, i32, i32) -> i32",
        "llvm.func @socket(i32, i32, i32) -> i32",
    ),
    "fork": ("llvm.call @fork() : () -> i32", "llvm.func @fork() -> i32"),
    "execv": (
        "llvm.call @execv(%path, %null) : (!llvm.ptr, !llvm.ptr) -> i32",
        "llvm.func @execv(!llvm.ptr, !llvm.ptr) -> i32",
    ),
    "ptrace": (
        "llvm.call @ptrace(%zero32, %zero32, %null, %null) : (i32, i32, !llvm.ptr, !llvm.ptr) -> i64",
        "llvm.func @ptrace(i32, i32, !llvm.ptr, !llvm.ptr) -> i64",
    ),
    "memfd": (
        "llvm.call @memfd_create(%path, %zero32) : (!llvm.ptr, i32) -> i32",
        "llvm.func @memfd_create(!llvm.ptr, i32) -> i32",
    ),
}


@pytest.fixture(scope="module")
def worker():
    """With a keeper as the tool starts it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("autotune.worker.isolation.keeper.start_keeping", COLD)
        shared = Worker(20.0)
    with shared:
        yield shared


@pytest.mark.parametrize("harm", HARM)
def test_machine_code_is_refused_what_no_candidate_needs_and_the_sweep_lives(worker, harm, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("as it was")
    path = "/bin/true" if harm == "execv" else str(tmp_path / "new") if harm in ("mkdir", "creat") else str(victim)
    candidate = tries(*HARM[harm], text=path)
    for sandboxed, outcome in ((True, "ok"), (False, "non-finite")):
        if not sandboxed and harm in ("fork", "execv"):
            continue  # the processes that come of it are the subject of other tests
        if sandboxed:
            (found,) = worker.evaluate(job(candidate))
        else:  # the attempt is real: without a sandbox it succeeds
            with Worker(20.0, sandboxed=False) as open_to_all:
                (found,) = open_to_all.evaluate(job(candidate))
        assert found.outcome == outcome, found.diagnostic
        if sandboxed:
            assert victim.read_text() == "as it was"
            assert not (tmp_path / "new").exists()
    assert worker.evaluate(job(GOOD))[0].outcome in RIGHT


def test_parent_cannot_be_signalled_and_the_process_may_abort_itself(worker):
    kill = instead(
        f"""{product()}
%parent = llvm.call @getppid() : () -> i32
%nine = llvm.mlir.constant(9 : i32) : i32
%got = llvm.call @kill(%parent, %nine) : (i32, i32) -> i32""",
        "llvm.func @getppid() -> i32\nllvm.func @kill(i32, i32) -> i32",
    )
    keeper = worker._keeper._process.pid
    assert worker.evaluate(job(kill))[0].outcome in RIGHT
    assert worker._keeper._process.pid == keeper
    assert worker.call(signal.raise_signal, signal.SIGABRT).outcome == "crashed"


def test_no_attempt_of_the_probe_succeeds_inside_and_some_do_outside(worker):
    assert find_holes(worker) == ()
    with Worker(20.0, sandboxed=False) as open_to_all:
        assert {"write a file", "open a socket", "start a program", "fork"} <= set(find_holes(open_to_all))
        assert {"read a user's file", "send to a service", "outlive its keeper", "mark a file"} <= set(
            find_holes(open_to_all)
        )


def test_the_sandbox_is_entered_before_the_first_call_of_every_process(worker):
    for _ in range(2):
        worker.renew()
        assert worker.call(attempt_all, "/etc/passwd") == ()


def test_refused_call_is_an_error_of_who_asked(worker, tmp_path):
    with pytest.raises(PermissionError):
        worker.call(os.mkdir, str(tmp_path / "folder"))


def test_both_mechanisms_are_in_effect_in_a_process_that_asked_for_nothing_before(tmp_path):
    (tmp_path / "scratch").touch()
    code = "from autotune.worker.isolation.sandbox import *; import sys; print(*enter_sandbox(sys.argv[1], Readable()))"
    command = [sys.executable, "-c", code, tmp_path / "scratch"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["landlock", "seccomp"], done.stderr
