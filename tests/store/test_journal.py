"""The file of a store: no fault of disk, process or user loses what was written."""

import errno
import fcntl
import json
import math
import os
import resource
import signal
import sqlite3
import subprocess
import sys
from contextlib import suppress

import optuna
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_support import IDENTITY, PLACES, SPACE, fill, make, needs_user, numbers, one_line

from autotune.core.errors import StoreError
from autotune.store import journal as module
from autotune.store.store import Store, trials


def test_writer_mends_what_a_killed_writer_left_torn(path):
    with Store.open(path) as store:
        sweep = store.sweep("nano", "matmul0", IDENTITY)
        sweep.add(make(0), SPACE)
        with path.open("ab") as file:
            file.write(b'{"op_code":4,"wor')
        sweep.add(make(1), SPACE)
    assert numbers(path) == [0, 1]
    assert path.with_name(path.name + ".torn").read_bytes() == b'{"op_code":4,"wor'


def test_full_disk_pauses_and_goes_on(path, monkeypatch):
    write, said = os.write, []
    with monkeypatch.context() as patch:

        def full(descriptor, data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def pause(sentence):
            said.append(sentence)
            if len(said) == 3:
                patch.setattr(module.os, "write", write)

        with Store.open(path, pause=pause) as store:
            sweep = store.sweep("nano", "matmul0", IDENTITY)
            sweep.add(make(0), SPACE)
            patch.setattr(module.os, "write", full)
            sweep.add(make(1), SPACE)
    assert numbers(path) == [0, 1]
    assert len(said) == 3
    assert "make room" in said[0]


CLAIMER = """
import sys
sys.path[:0] = sys.argv[1].split(":")
import os, time
from autotune.store.store import Store
from store_support import IDENTITY, SPACE, make
with Store.open(sys.argv[2]) as store:
    sweep = store.sweep("nano", "matmul0", IDENTITY)
    print(sweep.claim("ab" * 32), sweep.claim("cd" * 32), flush=True)
    sys.stdin.read()
"""


def test_trial_that_another_tuner_works_on_is_taken_until_it_ends(path):
    fill(path, 1)
    with Store.open(path) as store:
        sweep = store.sweep("nano", "matmul0", IDENTITY)
        assert sweep.claim("ab" * 32)
        command = [sys.executable, "-c", CLAIMER, PLACES, str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout.readline() == "False True\n"
            assert not sweep.claim("cd" * 32)
            other.kill()
        assert sweep.claim("cd" * 32)
        assert not sweep.claim("key0")  # recorded long ago


def test_file_torn_at_any_byte_keeps_every_whole_record(tmp_path_factory):
    whole = tmp_path_factory.mktemp("whole") / "s"
    fill(whole, 2)
    data = whole.read_bytes()
    path = tmp_path_factory.mktemp("torn") / "s"

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, len(data)))
    def check(cut):
        path.write_bytes(data[:cut])
        torn = path.with_name("s.torn")
        torn.unlink(missing_ok=True)
        complete = data[:cut].rfind(b"\n") + 1
        saved = cut + 1 <= len(data) and data[cut : cut + 1] == b"\n"  # only the line end is missing
        whole_trials = data[: cut + 1 if saved else complete].count(b'"op_code":4')
        with Store.open(path) as store:
            assert bool(store.messages) == (complete != cut)
            found = store.sweep("nano", "matmul0", IDENTITY).trials()
            assert [trial.number for trial in found] == list(range(whole_trials))
        if complete != cut and not saved:
            assert torn.read_bytes() == data[complete:cut]
        fill(path, 1, first=whole_trials)
        assert numbers(path) == list(range(whole_trials + 1))

    check()


@pytest.mark.parametrize("tail", [b"\0" * 100, b"not json\n", b"{}\n", b'{"op_code":'])
def test_torn_last_line_is_cut_off_and_kept_aside(path, tail):
    fill(path, 1)
    with path.open("ab") as file:
        file.write(tail)
    with Store.open(path) as store:
        assert len(store.messages) == 1
        assert str(path) in store.messages[0]
    assert path.with_name("store.journal.torn").read_bytes() == tail
    assert numbers(path) == [0]


@pytest.mark.parametrize("place", [".", "/dev/null"])
def test_what_is_not_a_file_is_refused(tmp_path, place):
    with pytest.raises(StoreError, match="regular file") as error:
        Store.open(tmp_path / place)
    one_line(error)


def test_folder_below_a_file_is_refused_in_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="pass --store PATH") as error:
        Store.open(tmp_path / "file" / "store")
    one_line(error)


@needs_user
@pytest.mark.parametrize("what", ["folder", "file"])
def test_missing_permission_is_refused_in_one_line(path, what):
    fill(path, 1)
    target, mode = (path.parent, 0o500) if what == "folder" else (path, 0o400)
    target.chmod(mode)
    try:
        with pytest.raises(StoreError, match="Permission denied") as error:
            Store.open(path if what == "file" else path.with_name("new"))
        one_line(error)
        assert len(trials(path)) == 1
    finally:
        target.chmod(0o700)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_refused_open_is_one_line(path, monkeypatch, code):
    def refuse(*args):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(module.os, "open", refuse)
    with pytest.raises(StoreError, match=os.strerror(code)) as error:
        Store.open(path)
    assert str(path) in one_line(error)


@pytest.mark.parametrize("room", [0, 1, 200])
def test_full_disk_loses_nothing_and_the_store_goes_on(path, monkeypatch, room):
    write, left = os.write, [room]

    def full(descriptor, data):
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = write(descriptor, data[: left[0]])
        left[0] -= written
        return written

    with Store.open(path) as store:
        sweep = store.sweep("nano", "matmul0", IDENTITY)
        sweep.add(make(0), SPACE)
        before = path.read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(module.os, "write", full)
            with pytest.raises(StoreError, match="No space left") as error:
                sweep.add(make(1), SPACE)
        assert str(path) in one_line(error)
        assert path.read_bytes() == before
        assert [trial.number for trial in sweep.trials()] == [0]
        sweep.add(make(2), SPACE)
    assert numbers(path) == [0, 2]


def test_size_limit_of_the_system_loses_nothing(path):
    fill(path, 2)
    size = path.stat().st_size
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Store.open(path) as store:
        sweep = store.sweep("nano", "matmul0", IDENTITY)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, limits[1]))
        try:
            with pytest.raises(StoreError, match="File too large"):
                sweep.add(make(2), SPACE)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.stat().st_size == size
    assert numbers(path) == [0, 1]


WRITER = """
import sys, pathlib, itertools
sys.path[:0] = sys.argv[1].split(":")
import os, time
from autotune.store.store import Store
from store_support import IDENTITY, SPACE, make
with Store.open(sys.argv[2]) as store:
    sweep = store.sweep("nano", "matmul0", IDENTITY)
    if len(sys.argv) > 3 and os.fork() == 0:
        time.sleep(20)
        os._exit(0)
    for number in itertools.count():
        sweep.add(make(number), SPACE)
        print(number, flush=True)
"""


def start_writer(path, *extra: str) -> subprocess.Popen:
    command = [sys.executable, "-c", WRITER, PLACES, str(path), *extra]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)


def assert_unlocked(path):
    with path.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("extra", [(), ("fork",)])
def test_killed_writer_leaves_every_finished_trial_and_no_lock(path, extra):
    process = start_writer(path, *extra)
    try:
        while int(process.stdout.readline()) < 20:
            pass
        assert len(trials(path)) >= 20
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert_unlocked(path)  # with "fork", a child of the killed writer is still alive
        found = numbers(path)
        assert found == list(range(len(found)))
        assert len(found) > 20
    finally:
        with suppress(ProcessLookupError):  # gone, unless a child of the writer outlived it
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_stale_lock_of_optuna_is_no_obstacle(path):
    fill(path, 1)
    lock = path.with_name(path.name + ".lock")
    lock.symlink_to(path)
    fill(path, 1, first=1)
    assert numbers(path) == [0, 1]
    assert lock.is_symlink()  # whoever waits for it takes it away in the end


def test_store_is_written_once_a_trial(path, monkeypatch):
    calls = []
    with Store.open(path) as store:
        sweep = store.sweep("nano", "matmul0", IDENTITY)
        append = module.append
        monkeypatch.setattr(module, "append", lambda *args: (calls.append(args), append(*args)))
        sweep.add(make(0), SPACE)
        store.sweep("nano", "matmul0", IDENTITY)
    assert len(calls) == 1


def test_records_are_strict_json(path):
    with Store.open(path) as store:
        store.sweep("nano", "matmul0", IDENTITY).add(make(0, "non-finite", max_error=math.nan), SPACE)

    def refuse(constant):
        raise AssertionError(constant)

    for line in path.read_text().splitlines():
        json.loads(line, parse_constant=refuse)


@pytest.mark.parametrize("url", ["nosuch://host/db", "://", "postgresql://u:secret@localhost:1/db"])
def test_database_that_does_not_answer_is_one_line_without_its_password(url):
    with pytest.raises(StoreError, match="pass --store PATH") as error:
        Store.open(url)
    assert "secret" not in one_line(error)


def test_database_of_something_else_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "theirs.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table customers (name text)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"a store's database must be its own, .* holds customers; name an empty one"):
        Store.open(f"sqlite:///{path}")
    assert path.read_bytes() == before


def test_database_that_is_no_store_is_refused(tmp_path):
    url = f"sqlite:///{tmp_path}/other.db"
    optuna.create_study(storage=url, study_name="mine")
    with pytest.raises(StoreError, match="autotune header"):
        Store.open(url)
    (tmp_path / "text.db").write_text("this is not a database, but long enough to be read as one" * 20)
    with pytest.raises(StoreError, match="not a database") as error:
        Store.open(f"sqlite:///{tmp_path}/text.db")
    one_line(error)
