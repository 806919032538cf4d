"""Doors of the kernel that lead out of the sandbox, tried from inside: something outside shows what happened."""

import ctypes
import errno
import os
import signal
import socket
import struct
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from warm_pythons import COLD

from autotune.compiler.passes.pipelines import PLAIN
from autotune.core.candidate import Candidate
from autotune.core.errors import PayloadError
from autotune.core.evaluator import Job
from autotune.core.host.machine import this_machine
from autotune.core.host.readable import allow_reading, is_shared, readable
from autotune.core.trial import RIGHT
from autotune.worker.bench.kernels import copy_payload
from autotune.worker.isolation.sandbox import ALLOWED, available_mechanisms
from autotune.worker.worker import Worker

pytestmark = [
    pytest.mark.skipif(
        set(available_mechanisms()) != {"landlock", "seccomp"}, reason="this machine lacks a mechanism of the sandbox"
    ),
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of system calls are those of x86_64"),
]

HIGH = 1 << 32
FCNTL, IOCTL, PRCTL, SHMCTL, SENDTO, SETXATTR, KILL = 72, 16, 157, 31, 44, 188, 62
SETXATTRAT, FILE_SETATTR, X32 = 463, 469, 0x40000000
IPC_CREAT, IPC_RMID, FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, NODUMP = 0o1000, 0, 0x80086601, 0x40086602, 0x40
REFUSED = (errno.EPERM, errno.EACCES, errno.ENOSYS)


def system_call(arguments) -> tuple[int, int]:
    """Result of a system call by number, and its error; bytes are passed by address."""
    libc = ctypes.CDLL(None, use_errno=True)
    kept = [ctypes.create_string_buffer(each) if isinstance(each, bytes) else each for each in arguments]
    words = [ctypes.c_uint64(ctypes.addressof(each) if isinstance(each, ctypes.Array) else each) for each in kept]
    ctypes.set_errno(0)
    libc.syscall.restype = ctypes.c_long
    return libc.syscall(*words), ctypes.get_errno()


def send_by_path(path) -> int:
    """Send a datagram to a path, over one of a pair of sockets."""
    try:
        mine, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        mine.sendto(b"leak", path)
    except OSError as error:
        return error.errno
    return 0


def send_over_every_descriptor(path) -> list[int]:
    """Send to an address over whatever is open."""
    address = struct.pack("H", socket.AF_UNIX) + path.encode() + b"\0"
    return [system_call((SENDTO, each, b"leak", 4, 0, address, len(address)))[1] for each in range(64)]


def read(path) -> int:
    """Number of the error of reading a file; 0 for none."""
    try:
        Path(path).read_bytes()
    except OSError as error:
        return error.errno
    return 0


def set_flags(path) -> int:
    """Change the flags of a file through a descriptor that may only read."""
    descriptor = os.open(path, os.O_RDONLY)
    return system_call((IOCTL, descriptor, FS_IOC_SETFLAGS, struct.pack("l", NODUMP)))[1]


def read_text(path) -> str:
    """Text of a file."""
    return Path(path).read_text()


@pytest.fixture(scope="module")
def worker():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("autotune.worker.isolation.keeper.start_keeping", COLD)
        shared = Worker(20.0)
    with shared:
        yield shared


@pytest.fixture
def service(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "log"))
        listening.setblocking(False)
        yield listening


def heard(service):
    try:
        return service.recv(100)
    except BlockingIOError:
        return b""


def test_service_that_listens_at_a_path_hears_nothing(worker, service):
    path = service.getsockname()
    assert worker.call(send_by_path, path) in REFUSED
    assert set(worker.call(send_over_every_descriptor, path)) == {errno.EPERM}
    assert heard(service) == b""
    assert send_by_path(path) == 0
    assert heard(service) == b"leak"


@pytest.mark.parametrize("high", [0, HIGH], ids=["plain", "high-bit"])
@pytest.mark.parametrize(
    "call",
    [
        pytest.param((FCNTL, 0, 8, 1), id="fcntl-F_SETOWN"),
        pytest.param((FCNTL, 0, 15, 0), id="fcntl-F_SETOWN_EX"),
        pytest.param((FCNTL, 0, 10, 9), id="fcntl-F_SETSIG"),
        pytest.param((FCNTL, 0, 1024, 0), id="fcntl-F_SETLEASE"),
        pytest.param((IOCTL, 0, 0x5412, b"x"), id="ioctl-TIOCSTI"),
        pytest.param((IOCTL, 0, 0x8901, 0), id="ioctl-FIOSETOWN"),
        pytest.param((IOCTL, 0, FS_IOC_SETFLAGS, 0), id="ioctl-FS_IOC_SETFLAGS"),
        pytest.param((IOCTL, 0, 0x401C5820, 0), id="ioctl-FS_IOC_FSSETXATTR"),
    ],
)
def test_command_of_a_descriptor_is_refused_as_the_kernel_sees_it(worker, call, high):
    number, descriptor, command, *rest = call
    assert worker.call(system_call, (number, descriptor, high | command, *rest)) == (-1, errno.EPERM)


def test_process_dies_with_its_keeper_and_signals_no_other(worker):
    for high in (0, HIGH, HIGH << 3):
        assert worker.call(system_call, (PRCTL, high | 1, 0)) == (-1, errno.EPERM)
    victim = subprocess.Popen(["sleep", "60"])
    try:
        for high in (0, HIGH):
            assert worker.call(system_call, (KILL, high | victim.pid, signal.SIGKILL)) == (-1, errno.EPERM)
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()


def test_segment_of_another_process_is_not_removed_by_its_number(worker):
    libc = ctypes.CDLL(None)
    segment = libc.shmget(0, 4096, IPC_CREAT | 0o600)
    try:
        assert worker.call(system_call, (SHMCTL, segment, IPC_RMID, 0)) == (-1, errno.EPERM)
        assert libc.shmctl(segment, 2, ctypes.create_string_buffer(256)) == 0  # IPC_STAT
    finally:
        libc.shmctl(segment, IPC_RMID, None)


@pytest.mark.parametrize("call", [64, 65, 66, 220, 68, 69, 70, 71, 29, 30, 31, 67])
def test_no_door_of_system_v_is_open(worker, call):
    assert worker.call(system_call, (call, 0, 0, 0, 0)) == (-1, errno.EPERM)


def test_attributes_and_flags_of_a_file_that_may_be_read_stay(worker, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("as it was")
    allow_reading(victim)
    name, value = b"user.autotune", b"changed"
    assert worker.call(system_call, (SETXATTR, bytes(victim), name, value, len(value), 0))[1] in REFUSED
    for call in (SETXATTRAT, FILE_SETATTR):
        assert worker.call(system_call, (call, (1 << 64) - 100, bytes(victim), 0, name, value, 0))[1] == errno.ENOSYS
    assert worker.call(set_flags, str(victim)) == errno.EPERM
    assert os.listxattr(victim) == []


@pytest.mark.parametrize(
    "call",
    [
        *(227, 164, 159, 305, 170, 171, 103, 298, 126, 428, 442),  # clocks, names, the kernel's log, counters, mounts
        *(425, 426, 427, 323, 321, 272, 308, 435, 437, 41, 53, 46, 47, 57, 58, 59, 101, 310, 434, 438, 317, 444),
        *(248, 249, 250, 175, 246, 169, 172, 173, 161, 165, 155, 319, 447, 240, 253, 284, 282, 289, 73),
        *range(463, 512),  # that this kernel, or a later one, has
    ],
)
def test_call_that_computing_never_needs_is_refused(worker, call):
    assert call not in ALLOWED
    result, error = worker.call(system_call, (call, 0, 0, 0, 0, 0, 0))
    assert (result, error in REFUSED) == (-1, True), os.strerror(error)


def test_call_by_numbers_of_x32_is_refused(worker):
    assert worker.call(system_call, (X32 | 39,))[1] in REFUSED
    assert worker.call(system_call, (X32 | 0x200 | 20,))[1] in REFUSED


def test_root_keeps_no_right_but_to_read(worker):
    (effective,) = [line for line in worker.call(read_text, "/proc/self/status").splitlines() if "CapEff" in line]
    assert int(effective.split()[1], 16) in (0, 4)


def test_files_of_the_user_cannot_be_read_but_those_that_were_named(worker, tmp_path):
    home = Path.home()
    beside = tmp_path / "beside"
    beside.write_text("a secret")
    (tmp_path / "link").symlink_to(beside)
    for path in (
        beside,
        tmp_path / "link",
        home / ".bashrc",
        "/etc/passwd",
        "/proc/1/cmdline",
        f"/proc/{os.getpid()}/stat",
    ):
        if os.path.exists(path):
            assert worker.call(read, str(path)) == errno.EACCES, path
    assert worker.call(read, __file__) == 0  # as code that Python imports
    assert worker.call(read, "/proc/self/statm") == 0
    assert worker.call(read, "/sys/devices/system/cpu/online") == 0
    allow_reading(beside)
    assert worker.call(read, str(beside)) == 0
    assert worker.call(read, str(tmp_path / "link")) == 0  # what a link leads to decides


def inputs_of_file(path, seed):
    """Inputs that lie in a file."""
    return {"x": np.fromfile(path, np.float32)}


def test_payload_that_reads_a_file_nobody_named_says_how_to_name_it(worker, tmp_path):
    path = tmp_path / "x.bin"
    np.arange(64, dtype=np.float32).tofile(path)
    payload = replace(copy_payload(64, 8), inputs=partial(inputs_of_file, str(path)))
    plain = Job(payload, (Candidate(None, PLAIN),), this_machine())
    with pytest.raises(PayloadError, match=r"allow_reading"):
        worker.evaluate(plain)
    allow_reading(path)
    assert worker.evaluate(plain)[0].outcome in RIGHT


def test_folders_of_a_variable_are_readable_as_soon_as_it_names_them(tmp_path, monkeypatch):
    (tmp_path / "libraries").mkdir()
    assert str(tmp_path / "libraries") not in readable().paths
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "libraries"))
    assert str(tmp_path / "libraries") in readable().paths
    monkeypatch.setenv("HOME", str(tmp_path / "libraries" / "home"))
    assert str(tmp_path / "libraries") not in readable().paths


def test_folder_of_everything_is_never_readable_as_a_whole(tmp_path, monkeypatch):
    home = tmp_path / "home"
    (home / "package").mkdir(parents=True)
    for path in ("mine.py", "package/__init__.py", "package/data.bin", "key", "notes.txt"):
        (home / path).write_text("")
    (home / ".ssh").mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.syspath_prepend(str(home))
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{home}:/:.:{home}/libraries")
    (home / "libraries").mkdir()
    found = readable()
    assert {f"{home}/mine.py", f"{home}/package", f"{home}/libraries"} <= set(found.paths)
    assert not {str(home), "/", f"{home}/key", f"{home}/notes.txt", f"{home}/.ssh"} & set(found.paths)
    assert not any(map(is_shared, found.paths))


def test_enclosed_program_reads_no_file_of_the_user(tmp_path):
    (tmp_path / "secret").write_text("a secret")
    command = [sys.executable, "-m", "autotune.contrib.targets.enclose", "1000", "5", os.path.realpath("/bin/cat")]
    with (tmp_path / "secret").open() as source:
        given = subprocess.run(command, stdin=source, capture_output=True, check=False)
    asked = subprocess.run([*command, "secret"], cwd=tmp_path, capture_output=True, check=False)
    assert (given.stdout, asked.stdout) == (b"a secret", b"")
    assert b"Permission denied" in asked.stderr
