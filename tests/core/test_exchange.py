"""Paths that exchange what they name, and folders that are never gone while they are replaced."""

from pathlib import Path

import pytest

from autotune.core.host.exchange import exchange
from autotune.store import bundle


def is_supported(folder):
    one, other = folder / "one", folder / "other"
    one.mkdir()
    other.mkdir()
    return exchange(one, other)


def test_two_folders_exchange_what_they_hold(tmp_path):
    if not is_supported(tmp_path):
        pytest.skip("this file system cannot exchange")
    (tmp_path / "one" / "file").write_text("a")
    assert exchange(tmp_path / "one", tmp_path / "other")
    assert (tmp_path / "other" / "file").read_text() == "a"
    assert list((tmp_path / "one").iterdir()) == []


def test_what_is_not_there_is_an_error_that_names_it(tmp_path):
    if not is_supported(tmp_path):
        pytest.skip("this file system cannot exchange")
    with pytest.raises(FileNotFoundError, match="none"):
        exchange(tmp_path / "one", tmp_path / "none")


def test_a_folder_that_is_replaced_is_there_at_every_moment(tmp_path, monkeypatch):
    """A process that is killed in between leaves the old winner or the new one; renamed one by one, both were gone."""
    if not is_supported(tmp_path):
        pytest.skip("this file system cannot exchange")
    folder = tmp_path / "bundle"
    bundle.replace_folder(folder, {"number": "0"})

    def killed(path, target):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", killed)
    bundle.replace_folder(folder, {"number": "1"})
    assert (folder / "number").read_text() == "1"


def test_where_folders_cannot_be_exchanged_one_is_replaced_by_two_renames(tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "exchange", lambda one, other: False)
    for number in "01":
        bundle.replace_folder(tmp_path / "bundle", {"number": number})
    assert (tmp_path / "bundle" / "number").read_text() == "1"
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]
