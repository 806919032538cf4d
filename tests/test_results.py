"""What scripts of results/ share: one file a machine and block, an entry a line, and blocks of pages made of it."""

import importlib
import json
from pathlib import Path

import pytest
import typer

RESULTS = Path(__file__).parents[1] / "results"


@pytest.fixture
def blocks(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(RESULTS)
    found = importlib.import_module("blocks")
    monkeypatch.setattr(found, "ROOT", tmp_path)
    return found


def test_an_entry_is_a_line_of_the_file_of_its_block_and_others_stay(blocks):
    blocks.keep("times", "nano", {"seconds": [1.0, 2.0]})
    blocks.keep("times", "gpt2,seq=64", {"seconds": []})
    path = blocks.file_of("times")
    assert path.read_text().splitlines() == [
        "{",
        '"gpt2_seq64": {"seconds": []},',
        '"nano": {"seconds": [1.0, 2.0]}',
        "}",
    ]
    assert blocks.read(path, "gpt2,seq=64") == {"seconds": []}
    assert blocks.read(path, "bert") == blocks.read(path.with_name("none.json"), "nano") == {}


def test_objects_of_objects_are_written_an_entry_a_line_too(blocks, tmp_path):
    found = {"of": 2, "cases": {"a": {"x": {}}, "b": {"x": [1]}}}
    blocks.keep_all(tmp_path / "x.json", found)
    assert json.loads((tmp_path / "x.json").read_text()) == found
    assert '"b": {"x": [1]}' in (tmp_path / "x.json").read_text().splitlines()


def test_files_of_single_entries_are_refused_until_they_are_folded(blocks, tmp_path):
    page, folder = tmp_path / "page.md", tmp_path / "machine" / "times"
    page.write_text("<!-- times -->\n<!-- end of times -->\n")
    folder.mkdir(parents=True)
    (folder / "nano.json").write_text('{"seconds": 1}')
    (folder.with_suffix(".json")).write_text('{"gpt2": {"seconds": 2}, "nano": {"seconds": 3}}')
    block = blocks.Block("times", lambda path: f"{sorted(blocks.load(path))}\n", page=page)
    with pytest.raises(typer.BadParameter, match=r"times must lie in one file a machine; run results/blocks\.py"):
        block.render()
    blocks.fold()
    block.render()
    assert "['gpt2', 'nano']" in page.read_text()
    assert blocks.read(folder.with_suffix(".json"), "nano") == {"seconds": 1}
    assert not folder.exists()
