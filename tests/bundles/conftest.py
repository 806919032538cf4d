"""Bundles of an imported product, and haste: no test that asks for it is about speed."""

import pytest
from bundle_support import make_bundle, no_care
from import_support import import_product


@pytest.fixture(scope="module")
def proved(tmp_path_factory):
    """The folder of an imported product, and a bundle and a store of it."""
    around = tmp_path_factory.mktemp("proved")
    model = import_product(around)
    return model, make_bundle(around, str(model)), around / "store.journal"


@pytest.fixture
def hasty(monkeypatch):
    """One process measures, with little care."""
    monkeypatch.setattr("autotune.bundles.replay.MOST_SESSIONS", 1)
    monkeypatch.setattr("autotune.bundles.replay.MOST_UNSURE", 1)
    monkeypatch.setattr("autotune.bundles.regress.QUICK_SESSIONS", 1)
    with no_care():
        yield
