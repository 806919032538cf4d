"""Places of stores."""

from pathlib import Path

import pytest


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "runs" / "store.journal"


@pytest.fixture(params=["file", "database", "server"])
def location(request, tmp_path):
    if request.param == "server":
        return request.getfixturevalue("postgres_url")
    return tmp_path / "store.journal" if request.param == "file" else f"sqlite:///{tmp_path}/store.db"
