"""The history of regression checks: read back as written, found where it lies, drawn."""

from datetime import UTC, datetime

import pytest

from autotune.core.errors import StoreError
from autotune.reports.pictures.gallery import draw_history
from autotune.store.history import Check, append_history, history_beside, read_history


def history_of(path, checks, payloads=("mine",)):
    """Write a history of ``verdict, compiler`` a day, the same of every payload; gives its frame."""
    lines = []
    for day, (verdict, compiler) in enumerate(checks, 1):
        factors = [None if verdict == "wrong" else 2.0] * 4
        when = datetime(2026, 1, day, tzinfo=UTC)
        lines += [Check(1, when, payload, verdict, *factors, "m", compiler, "v") for payload in payloads]
    append_history(path, lines)
    return read_history(path)


def test_history_shows_every_check_and_names_every_verdict(tmp_path):
    checks = history_of(tmp_path / "h", [("ok", "old"), ("slower", "old"), ("wrong", "new"), ("ok", "new")])
    (picture,) = draw_history(checks)
    (axes,) = picture.figure.axes
    (legend,) = picture.figure.legends
    assert [text.get_text() for text in legend.texts] == ["ok", "slower", "wrong, no time", "compiler changed"]
    shown = [line for line in axes.lines if line.get_marker() in ("o", "v", "X")]
    assert sorted(len(line.get_xdata()) for line in shown) == [1, 1, 2]
    assert axes.get_title(loc="left") == "mine"
    assert axes.get_ylabel() == "speed-up"
    assert "UTC" in axes.get_xlabel()


def test_history_has_a_panel_a_payload_and_all_share_their_dates(tmp_path):
    checks = history_of(tmp_path / "h", [("stale", "c"), ("faster", "c"), ("inconclusive", "c")], ("a", "b", "c"))
    (picture,) = draw_history(checks)
    panels = [axes for axes in picture.figure.axes if axes.axison]
    assert [axes.get_title(loc="left") for axes in panels] == ["a", "b", "c"]
    assert len({axes.get_xlim() for axes in panels}) == 1
    assert list(draw_history(checks[checks["payload"] == "d"])) == []


def test_history_of_many_payloads_is_several_pictures_that_name_each_once(tmp_path):
    names = [f"payload {number}" for number in range(9)]
    pictures = list(draw_history(history_of(tmp_path / "h", [("ok", "c")], names)))
    assert [picture.name for picture in pictures] == ["history", "history-2", "history-3"]
    panels = [axes for picture in pictures for axes in picture.figure.axes if axes.axison]
    assert [axes.get_title(loc="left") for axes in panels] == names


def test_history_is_found_beside_a_store_and_above_bundles(tmp_path):
    home, other = tmp_path / "machine", tmp_path / "other"
    for folder in (home / "bundles" / "nano", other):
        folder.mkdir(parents=True)
    (home / "history.jsonl").touch()
    (home / "store.journal").touch()
    assert history_beside(home / "store.journal") == history_beside(home / "bundles" / "nano") == home / "history.jsonl"
    assert history_beside(other / "store.journal") is None
    assert history_beside(f"sqlite:///{home}/store") is None


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"format_version": 2}', "7"])
def test_damaged_history_is_refused_by_line(tmp_path, text):
    (tmp_path / "h").write_text(text + "\n")
    with pytest.raises(StoreError, match="line 1"):
        read_history(tmp_path / "h")
