"""What no schedule changes is named with its part of a call: by show, tune and inspect, in words and in JSON."""

import json

import pytest
from bundle_support import edit_manifest, make_bundle, no_care

from autotune.core.errors import BundleError
from autotune.core.ops.uncovered import UncoveredOp, divide
from autotune.reports.format import uncovered
from autotune.store.bundle import read_bundle
from autotune.worker.loading.reading import open_payload, partition

READS = """#map = affine_map<(d0, d1) -> (d0, d1)>
func.func @main(%x: tensor<24x32xf32>, %y: tensor<8x32xf32>) -> tensor<24x32xf32> {
  %empty = tensor.empty() : tensor<24x32xf32>
  %doubled = linalg.add ins(%x, %x : tensor<24x32xf32>, tensor<24x32xf32>) outs(%empty : tensor<24x32xf32>)
    -> tensor<24x32xf32>
  %read = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]}
    ins(%doubled : tensor<24x32xf32>) outs(%empty : tensor<24x32xf32>) {
  ^bb0(%in: f32, %out: f32):
    %row = linalg.index 0 : index
    %column = linalg.index 1 : index
    %three = arith.constant 3 : index
    %third = arith.divui %row, %three : index
    %there = tensor.extract %y[%third, %column] : tensor<8x32xf32>
    %sum = arith.addf %in, %there : f32
    %tanh = math.tanh %sum : f32
    linalg.yield %tanh : f32
  } -> tensor<24x32xf32>
  return %read : tensor<24x32xf32>
}
"""
LOOP = """
func.func @main(%x: memref<8xf32>, %y: memref<8xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %eight = arith.constant 8 : index
  scf.for %i = %zero to %eight step %one {
    %value = memref.load %x[%i] : memref<8xf32>
    %root = math.exp %value : f32
    memref.store %root, %y[%i] : memref<8xf32>
  }
  return
}
"""


def parts_of(folder, text):
    (folder / "mine.mlir").write_text(text)
    return partition(open_payload(str(folder / "mine.mlir")))


def test_ops_that_no_task_covers_are_named_with_their_operations_and_why(tmp_path):
    found = parts_of(tmp_path, READS)
    assert [task.count for task in found.tasks] == [1]
    (read,) = found.uncovered
    assert (read.name, read.runs, read.operations) == ("elementwise 24x32", 1, 4 * 24 * 32)
    assert read.why == "its body reads elements of tensors at computed indices"


def test_a_loop_of_single_elements_is_named(tmp_path):
    (loop,) = parts_of(tmp_path, LOOP).uncovered
    assert (loop.name, loop.runs, loop.operations) == ("scf.for", 1, 8 * 3)


@pytest.mark.parametrize("spec", ["nano,layers=1", "softmax,rows=4,cols=32", "conv"])
def test_tasks_of_shipped_payloads_cover_everything(spec):
    assert partition(open_payload(spec)).uncovered == ()


def test_what_tasks_do_not_take_of_a_call_is_divided_by_operations():
    ops = (UncoveredOp("a", 1, 10, "why"), UncoveredOp("b", 2, 30, "why"))
    assert [(each.op.name, each.share) for each in divide(ops, 1.0, 0.2)] == [("b", pytest.approx(0.6)), ("a", 0.2)]
    assert [each.share for each in divide(ops, 1.0, 1.1)] == [0.0, 0.0]
    assert [each.share for each in divide(ops, 1.0, None)] == [None, None]
    assert uncovered([("a", "why", 0.01)]) == ""
    assert uncovered([("a", "why", None)]) == "no schedule changes a, - of a call (why)"


@pytest.fixture(scope="module")
def _times():
    """Tasks take a quarter of a call, whatever the machine does beside."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("autotune.tuning.stages.summary.divide", lambda ops, *_: divide(ops, 1.0, 0.25))
        yield


@pytest.fixture(scope="module")
def tuned(tmp_path_factory, _times):
    folder = tmp_path_factory.mktemp("uncovered")
    (folder / "mine.mlir").write_text(READS)
    return folder / "mine.mlir", make_bundle(folder, str(folder / "mine.mlir"))


def test_tune_inspect_and_show_name_them(tuned, autotune, tmp_path):
    path, bundle = tuned
    with no_care():
        _, out, _ = autotune(
            "tune", path, "--trials", 1, "--store", tmp_path / "s", "--bundle", tmp_path / "b", "--json"
        )
    _, seen, _ = autotune("inspect", bundle, "--json")
    for text in (out, seen):
        (read,) = json.loads(text)["uncovered"]
        assert read["name"] == "elementwise 24x32"
        assert read["share"] == 0.75
    _, words, _ = autotune("inspect", bundle)
    assert "no schedule changes elementwise 24x32, " in " ".join(words.split())
    _, listed, _ = autotune("show", path, "--stage", "tasks")
    assert "no task: elementwise 24x32  runs 1, " in listed


def test_a_manifest_cannot_claim_more_than_a_call(tuned):
    edit_manifest(tuned[1], lambda data: data["uncovered"][0].update(share=1.5))
    with pytest.raises(BundleError, match=r"uncovered.0.share"):
        read_bundle(tuned[1])
