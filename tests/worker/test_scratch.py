"""What a killed tuner leaves behind: folders that nobody holds are swept away, those of living tuners are not."""

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from autotune.core.host.scratch import WORKERS, Scratch
from autotune.store.bundle import replace_folder, scratch_beside
from autotune.worker.bench import claims
from autotune.worker.worker import Worker

HOLDS_A_WORKER = """
import sys
from autotune.worker.worker import Worker
with Worker() as worker:
    worker.call(print, "here")
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(monkeypatch, tmp_path):
    """A folder for temporary files of this test's own."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def left(place):
    """What is in a folder but the locks of cores, which all tuners of a user share."""
    return sorted(path.name for path in place.iterdir() if not path.name.startswith(claims.PREFIX))


HOLDS_A_FOLDER = """
import sys
from pathlib import Path
from autotune.store.bundle import scratch_beside
with scratch_beside(Path(sys.argv[1])) as scratch:
    (scratch.path / "schedule.mlir").write_text("half")
    print("ready", flush=True)
    sys.stdin.read()
"""


def start(program=HOLDS_A_WORKER, *arguments):
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    return process


def test_what_kill_9_leaves_is_swept_by_the_next_worker_and_what_lives_is_not(temporary):
    killed, alive = start(), start()
    assert len(left(temporary)) == 2
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    names = left(temporary)
    with Worker():
        now = left(temporary)
        assert len(now) == 2
        assert len(set(now) & set(names)) == 1
    alive.communicate()
    assert left(temporary) == []


def test_what_kill_9_leaves_is_swept_by_the_next_verb(temporary, autotune):
    killed = start()
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert len(left(temporary)) == 1
    assert autotune("list")[0] == 0
    assert left(temporary) == []


def leave_something(argument):
    return tempfile.mkdtemp(prefix="autotune-"), argument


def test_what_a_process_leaves_in_its_temporary_folder_goes_with_its_worker(temporary):
    with Worker(sandboxed=False) as worker:
        folder, _ = worker.call(leave_something, None)
        assert Path(folder).is_dir()
        assert Path(folder).parent.parent == temporary
    assert left(temporary) == []


def test_a_folder_or_file_of_somebody_elses_is_left_alone(temporary):
    (temporary / f"{WORKERS}file").write_text("mine")
    (temporary / "autotune-notes").mkdir()
    (temporary / f"{WORKERS}link").symlink_to(temporary / "autotune-notes")
    Scratch().close()
    assert left(temporary) == ["autotune-notes", f"{WORKERS}file", f"{WORKERS}link"]


def test_what_kill_9_leaves_beside_a_bundle_is_swept_by_the_next_write_and_what_lives_is_not(tmp_path):
    folder = tmp_path / "b[0]"
    mine = tmp_path / f".{folder.name}-notes"
    mine.mkdir()
    killed, alive = (start(HOLDS_A_FOLDER, str(folder)) for _ in range(2))
    assert len(list(tmp_path.glob(".*-autotune-*"))) == 2
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    for text in ("first", "second"):
        replace_folder(folder, {"schedule.mlir": text})
        assert (folder / "schedule.mlir").read_text() == text
        assert len(list(tmp_path.glob(".*-autotune-*"))) == 1
    alive.communicate()
    replace_folder(folder, {"schedule.mlir": "third"})
    assert {path.name for path in tmp_path.iterdir()} == {folder.name, mine.name}


def test_folder_beside_a_bundle_makes_the_parents_that_the_bundle_will_have(tmp_path):
    with scratch_beside(tmp_path / "slower" / "bundle") as scratch:
        assert scratch.path.parent == tmp_path / "slower"


def test_a_folder_of_temporary_files_that_mlir_cannot_be_told_is_refused_by_name(temporary, monkeypatch, refused):
    monkeypatch.setattr(tempfile, "tempdir", f"{temporary}/caf\udce9")
    refused("tune", "matmul,m=8,n=8,k=8", "--trials", "1", "--store", temporary / "s", words="set TMPDIR")
