"""Files that users name are written whole or not at all."""

import errno
import os
import stat
import threading

import pytest

from autotune.core.host.whole_file import whole_file, write_file


def fail(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def write_a_part(path):
    with whole_file(path) as fresh:
        fresh.write_text("a part")
        fail()


def test_a_new_file_has_the_rights_of_any_and_nothing_lies_beside_it(tmp_path):
    path = tmp_path / "page.html"
    write_file(path, "whole")
    plain = tmp_path / "plain"
    plain.touch()
    assert path.read_text() == "whole"
    assert path.stat().st_mode == plain.stat().st_mode
    assert sorted(os.listdir(tmp_path)) == ["page.html", "plain"]


def test_what_fails_leaves_the_file_of_before_and_names_the_one_that_is_meant(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("before")
    with pytest.raises(OSError, match="No space left") as caught:
        write_a_part(path)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(path))
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["page.html"]


def test_a_file_that_is_replaced_keeps_its_rights(tmp_path):
    path = tmp_path / "page.html"
    path.touch(0o600)
    write_file(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_links_and_files_of_two_names_stay_what_they_are(tmp_path):
    path, link, other = tmp_path / "page.html", tmp_path / "link", tmp_path / "other"
    path.touch()
    link.symlink_to(path)
    os.link(path, other)
    for each in (link, other):
        write_file(each, each.name)
        assert path.read_text() == each.name
    assert link.is_symlink()


def test_a_fifo_is_written_to(tmp_path):
    path, found = tmp_path / "fifo", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: found.append(path.read_text()))
    reader.start()
    write_file(path, "text")
    reader.join()
    assert found == ["text"]


@pytest.mark.parametrize("name", ["gone/page.html", "n" * 300, "folder", "/dev/full"])
def test_a_path_that_cannot_be_written_is_named(tmp_path, name):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match=r"\[Errno") as caught:
        write_file(tmp_path / name, "text")
    assert caught.value.filename == str(tmp_path / name)
    assert os.listdir(tmp_path) == ["folder"]


def test_a_file_that_has_no_room_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="No space left"):
        write_file(tmp_path / "kept", b"data")
    assert os.listdir(tmp_path) == []
