"""Bundles for tests: tuned without care, copied, spoilt, and signed again as a careful forger would."""

import atexit
import hashlib
import json
import re
import shutil
import tempfile
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from autotune.core.host.machine import Roofs
from autotune.store.store import Store
from autotune.tuning.options import TuneOptions
from autotune.tuning.tune import tune
from autotune.worker.loading.reading import open_payload
from autotune.worker.worker import Worker

ROOFS = Roofs(flops=1e11, dram_bytes=1e10, l2_bytes=1e11)
FLOOR = 0.05  # of noise
# A product in bf16, by a weight and with results of that type.
BRAIN = """
func.func @one(%x: tensor<16x32xbf16>, %w: tensor<32x48xbf16> {autotune.role = "weight"}) -> tensor<16x48xbf16> {
  %zero = arith.constant 0.0 : bf16
  %e = tensor.empty() : tensor<16x48xbf16>
  %i = linalg.fill ins(%zero : bf16) outs(%e : tensor<16x48xbf16>) -> tensor<16x48xbf16>
  %m = linalg.matmul ins(%x, %w : tensor<16x32xbf16>, tensor<32x48xbf16>) outs(%i : tensor<16x48xbf16>)
      -> tensor<16x48xbf16>
  return %m : tensor<16x48xbf16>
}
"""


@contextmanager
def no_care():
    """Roofs that nothing exceeds, however few samples are taken; neither they nor noise need be measured."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Worker, "roofs", lambda self, machine: ROOFS)
        patch.setattr("autotune.worker.limits_cache.measure_noise", lambda machine, bench, pairs: FLOOR)
        yield


def make_bundle(folder, spec, trials=1, **options):
    """Tune a payload with a few trials; gives the bundle's folder."""
    with no_care(), Store.open(folder / "store.journal") as store:
        tune(open_payload(spec), store, folder / "bundle", TuneOptions(trials=trials, **options))
    return folder / "bundle"


def shared_bundle(folder, spec):
    """A bundle of a payload, tuned once for all tests that a process runs; gives the folder of a copy."""
    return shutil.copytree(tuned_once(spec), folder / "bundle")


@cache
def tuned_once(spec):
    folder = Path(tempfile.mkdtemp(prefix="bundle-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return make_bundle(folder, spec)


def edit_manifest(folder, change):
    """Write a manifest anew after `change` has had it, or as the list that it gives."""
    path = folder / "manifest.json"
    data = json.loads(path.read_text())
    changed = change(data)
    path.write_text(json.dumps(changed if isinstance(changed, list) else data))


def edit_file(folder, name, data):
    """Replace a file of a bundle, and its hash with it."""
    data = data.encode() if isinstance(data, str) else data
    (folder / name).write_bytes(data)
    edit_manifest(folder, lambda m: m["sha256"].update({name: hashlib.sha256(data).hexdigest()}))


def compute_something_else(folder):
    """Make the tagged module of a matmul write the exponentials of what it should; signed anew."""
    text = (folder / "tagged.mlir").read_text()
    write = re.search(r"materialize_in_destination (%\w+) in (?:restrict )?writable (%\w+) : \((tensor<[^>]*>)", text)
    value, _, kind = write.groups()
    more = f"%more = tensor.empty() : {kind}\n%exp = linalg.exp ins({value} : {kind}) outs(%more : {kind}) -> {kind}\n"
    start = text.rindex("\n", 0, write.start()) + 1
    changed = text[:start] + more + text[start:].replace(f"destination {value} in", "destination %exp in", 1)
    edit_file(folder, "tagged.mlir", changed)
