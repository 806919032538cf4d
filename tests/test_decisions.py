"""The decisions: each has a date and a choice, each is in the index, and links between them hold."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "docs" / "decisions"
INDEX = (FOLDER / "index.md").read_text()
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.name != "index.md")
ENTRY = re.compile(r"^## (.+)\n\n\*\d{4}-\d\d-\d\d\*\n\n\*\*Choice\.\*\* ", re.M)


def anchor(head):
    """Where a heading is linked, on GitHub and in the built pages alike."""
    return re.sub(r"[^\w -]", "", head).strip().lower().replace(" ", "-")


def heads(path):
    return re.findall(r"^## (.+)$", path.read_text(), re.M)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_decision_is_a_question_with_a_date_and_a_choice(path):
    assert heads(path)
    assert ENTRY.findall(path.read_text()) == heads(path)
    assert all("?" in head for head in heads(path))


def test_index_lists_every_decision_once_in_the_order_of_its_page():
    rows = re.findall(r"^\| \[[^]]+\]\(([\w-]+\.md#[\w-]+)\)", INDEX.partition("## What did not pay")[0], re.M)
    assert len(rows) == len(set(rows))
    for path in PAGES:
        wanted = [f"{path.name}#{anchor(head)}" for head in heads(path)]
        assert [row for row in rows if row.startswith(f"{path.name}#")] == wanted


@pytest.mark.parametrize("path", [*PAGES, FOLDER / "index.md"], ids=lambda path: path.stem)
def test_links_between_decisions_hold(path):
    for page, name in re.findall(r"\(([\w-]+\.md)?#([\w-]+)\)", path.read_text()):
        target = FOLDER / page if page else path
        assert name in [anchor(head) for head in heads(target)], f"{path.name}: {page}#{name}"
