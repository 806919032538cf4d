"""Places of stores."""

from pathlib import Path

import pytest


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "runs" / "store.journal"


@pytest.fixture(params=["file", "database"])
def location(request, tmp_path):
    return tmp_path / "store.journal" if request.param == "file" else f"sqlite:///{tmp_path}/store.db"
