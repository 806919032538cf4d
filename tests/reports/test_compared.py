"""Comparisons beside bundles: read where they are of the same thing, refused where they are damaged."""

import json

import pytest

from autotune.core.errors import StoreError
from autotune.reports.compared import compared_beside

ROW = {
    "name": "best",
    "outcome": "ok",
    "version": "v",
    "seconds": 2e-3,
    "interval": [1e-3, 3e-3],
    "ratio": 1.0,
    "ratio_interval": [1.0, 1.0],
    "roof_fraction": 0.5,
    "max_error": 1e-6,
}
MISSING = {**dict.fromkeys(ROW), "name": "torch", "outcome": "missing", "version": ""}
COMPARISON = {"payload": "mine", "machine": {"fingerprint": "m"}, "ratio_to": "best", "rows": [ROW, MISSING], "seed": 0}


@pytest.fixture
def bundle(tmp_path):
    """A folder of a bundle with a comparison beside it; gives the folder and the comparison's file."""
    for folder in ("bundles/mine", "comparisons"):
        (tmp_path / folder).mkdir(parents=True)
    path = tmp_path / "comparisons" / "mine.json"
    path.write_text(json.dumps(COMPARISON))
    return tmp_path / "bundles" / "mine", path


def test_a_comparison_is_found_beside_the_folder_of_bundles(bundle):
    folder, _ = bundle
    best, missing = compared_beside(folder, "mine", "m").rows
    assert (best.time.low, best.time.estimate, best.time.high) == (1e-3, 2e-3, 3e-3)
    assert best.factor.estimate == 1.0
    assert missing.time is missing.factor is None


def test_a_comparison_of_something_else_is_passed_over(bundle, tmp_path):
    folder, _ = bundle
    assert compared_beside(folder, "other", "m") is None
    assert compared_beside(folder, "mine", "other") is None
    assert compared_beside(tmp_path / "bundles" / "none", "mine", "m") is None


@pytest.mark.parametrize("change", [{"rows": 3}, {"rows": [{**ROW, "seconds": -1}]}, {"machine": None}])
def test_a_damaged_comparison_is_refused_with_its_place(bundle, change):
    folder, path = bundle
    path.write_text(json.dumps(COMPARISON | change))
    with pytest.raises(StoreError, match=r"mine\.json must be what .* writes, (rows|machine)"):
        compared_beside(folder, "mine", "m")
