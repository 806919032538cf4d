"""Element-wise ops that round to bytes: saturating packs, where the processor has them."""

import numpy as np
import pytest
from byte_support import QUANTIZED, function_of_bytes
from precision_support import computed
from tuning_support import loaded

from autotune.compiler.tasks.partition import partition
from autotune.contrib.byte_ops.marks import PACKS, PACKS_BYTES
from autotune.contrib.byte_ops.packs_family import BYTE_PACKS
from autotune.core.host.machine import this_machine
from autotune.core.host.matrix_unit import cpu_flags
from autotune.registry import families_for


@pytest.fixture(autouse=True)
def able(monkeypatch):
    """A processor that packs 64 bytes, or is taken for one; what it has is asked where code is written."""
    monkeypatch.setattr("autotune.contrib.byte_ops.packs_family.cpu_flags", lambda: cpu_flags() | {PACKS_BYTES})


def test_numbers_are_rounded_and_limited(monkeypatch, tmp_path):
    payload = loaded(tmp_path, function_of_bytes((3, 331), QUANTIZED, given="f32"))
    x = np.random.default_rng(5).standard_normal((3, 331)).astype(np.float32)
    x[0, :5] = np.inf, -np.inf, 3e38, -3e38, 0.5 / 120
    with np.errstate(over="ignore"):
        wanted = np.clip(np.rint(x * np.float32(120)) + 3, -128, 127).astype(np.int8)
    inputs = {payload.arguments[0].name: x}
    np.testing.assert_array_equal(computed(BYTE_PACKS, payload, inputs)[0], wanted)
    monkeypatch.setattr("autotune.contrib.byte_ops.packs_code.cpu_flags", frozenset)
    np.testing.assert_array_equal(computed(BYTE_PACKS, payload, inputs)[0], wanted)


def test_it_comes_first_for_quantizations_only(monkeypatch, tmp_path):
    texts = [function_of_bytes((8, 64), QUANTIZED, given="f32"), function_of_bytes((8, 64))]
    (quantized,), (unlimited,) = (partition(loaded(tmp_path, text)).tasks for text in texts)
    assert [families_for(each)[0].name for each in (quantized, unlimited)] == ["byte_packs", "vectorize"]
    machine = this_machine()
    assert PACKS in BYTE_PACKS.build(quantized, BYTE_PACKS.default(quantized, machine), machine)
    monkeypatch.setattr("autotune.contrib.byte_ops.packs_family.cpu_flags", frozenset)
    assert not BYTE_PACKS.covers(quantized)
    assert PACKS_BYTES in BYTE_PACKS.lacking
