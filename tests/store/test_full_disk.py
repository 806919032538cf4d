"""A full disk: at the start, during a sweep and at its end a tuner waits and says so, and loses nothing."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from store_support import IDENTITY, PLACES, SPACE, make, numbers

from autotune.core.errors import BundleError, StoreError
from autotune.store import journal as module
from autotune.store.room import with_room
from autotune.store.store import Store

SMALL_DISK = """
import sys
sys.path[:0] = sys.argv[1].split(":")
from pathlib import Path
from autotune.store.store import Store
from store_support import IDENTITY, SPACE, make, numbers
disk, said = Path(sys.argv[2]), []
filler = disk / "filler"
def fill():
    with open(filler, "wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)): pass
        except OSError: pass
def pause(sentence):
    said.append(sentence)
    filler.unlink()
fill()
with Store.open(disk / "store.journal", pause=pause) as store:
    assert len(said) == 1, said
    sweep = store.sweep("nano", "matmul0", IDENTITY)
    fill()
    for number in range(20): sweep.add(make(number), SPACE)
assert numbers(disk / "store.journal") == list(range(20))
print(len(said), said[0])
"""


def refuse(descriptor, data):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("what", ["write", "open"])
def test_a_disk_that_is_full_at_the_start_is_waited_for(path, monkeypatch, what):
    real, said = getattr(os, what), []
    with monkeypatch.context() as patch:

        def pause(sentence):
            said.append(sentence)
            if len(said) == 3:
                patch.setattr(module.os, what, real)

        patch.setattr(module.os, what, lambda *rest: refuse(*rest[:2]))
        with Store.open(path, pause=pause) as store:
            store.sweep("nano", "matmul0", IDENTITY).add(make(0), SPACE)
    assert numbers(path) == [0]
    assert len(said) == 3
    assert said[0] == f"store must have room; the disk of {path} is full; make room, the sweep waits"


def test_a_full_disk_is_one_line_where_nobody_waits(path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(module.os, "write", refuse)
        with pytest.raises(StoreError, match="No space left on device"):
            Store.open(path)


@pytest.mark.skipif(shutil.which("unshare") is None, reason="a small file system needs unshare")
def test_a_real_disk_that_is_full_is_waited_for(tmp_path):
    mount = f"mount -t tmpfs -o size=200k tmpfs {tmp_path}"
    if subprocess.run(["unshare", "-rm", "sh", "-c", mount], check=False, capture_output=True).returncode:
        pytest.skip("this user may mount nothing")
    program = tmp_path.parent / "program.py"
    program.write_text(SMALL_DISK)
    run = f"{mount} && exec {sys.executable} {program} {PLACES} {tmp_path}"
    done = subprocess.run(["unshare", "-rm", "sh", "-c", run], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 store must have room")


def test_an_error_behind_an_error_is_waited_for_and_others_are_not():
    full, said = [OSError(errno.EDQUOT, "quota"), None], []

    def act():
        cause = full.pop(0)
        if cause is not None:
            raise BundleError("must be writable") from cause
        return "done"

    assert with_room(act, Path("b"), said.append) == "done"
    assert len(said) == 1
    full[:] = [OSError(errno.EACCES, "no")]
    with pytest.raises(BundleError):
        with_room(act, Path("b"), said.append)
