"""What was recorded under the name that a family had is read by the name that it has, and a sweep of it resumes."""

import json

import pytest
from bundle_support import no_care

import autotune as at
from autotune.core.errors import ScheduleError
from autotune.store.bundle import read_bundle

TRANSPOSE = """func.func @flip(%x: memref<24x40xf32>, %y: memref<40x24xf32>) {
  %X = bufferization.to_tensor %x restrict : memref<24x40xf32> to tensor<24x40xf32>
  %empty = tensor.empty() : tensor<40x24xf32>
  %r = linalg.transpose ins(%X : tensor<24x40xf32>) outs(%empty : tensor<40x24xf32>) permutation = [1, 0]
  bufferization.materialize_in_destination %r in restrict writable %y : (tensor<40x24xf32>, memref<40x24xf32>) -> ()
  return
}
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A store and a bundle of a transpose as versions wrote them in which its family was called `turned`."""
    folder = tmp_path_factory.mktemp("former")
    (folder / "flip.mlir").write_text(TRANSPOSE)
    tune(folder, 3)
    store, manifest = folder / "store.journal", folder / "bundle" / "manifest.json"
    assert '"transpose"' in store.read_text()
    store.write_text(store.read_text().replace('"transpose"', '"turned"'))
    manifest.write_text(manifest.read_text().replace('"transpose"', '"turned"'))
    return folder


def tune(folder, trials, **options):
    with no_care():
        return at.tune(
            str(folder / "flip.mlir"),
            store=folder / "store.journal",
            bundle=folder / "bundle",
            trials=trials,
            **options,
        )


def test_trials_and_bundles_have_the_name_of_today(recorded):
    assert set(at.trials(recorded / "store.journal")["family"]) == {"transpose"}
    (task,) = read_bundle(recorded / "bundle").manifest.tasks.values()
    assert task.schedule == "transpose"
    at.Bundle.read(recorded / "bundle").replay()


def test_a_sweep_of_before_goes_on_and_runs_nothing_again(recorded):
    before = len(at.trials(recorded / "store.journal"))
    assert tune(recorded, 3).evaluated == 0
    assert len(at.trials(recorded / "store.journal")) == before


def test_the_former_name_is_an_option_value_still(recorded, tmp_path):
    assert tune(recorded, 3, family="turned").evaluated == 0
    with pytest.raises(ScheduleError, match=r"must be one of .*transpose"):
        tune(recorded, 3, family="turnd")


def test_the_manifest_of_a_new_bundle_has_the_new_name(tmp_path):
    (tmp_path / "flip.mlir").write_text(TRANSPOSE)
    tune(tmp_path, 1)
    tasks = json.loads((tmp_path / "bundle" / "manifest.json").read_text())["tasks"].values()
    assert {task["schedule"] for task in tasks} == {"transpose"}
