"""Products with weights in blocks: every format, vectors and matrices, beside the weights in float64."""

from dataclasses import replace

import numpy as np
import pytest

import autotune as at
from autotune.bundles.session import Session
from autotune.contrib.quantised.family import BLOCKS
from autotune.contrib.quantised.ggml import FORMATS as GGML
from autotune.contrib.quantised.ggml import as_exact, as_one, repack
from autotune.worker.loading.reading import partition
from payload.blocks import BOTH_K, EXACT, FORMATS, as_nibbles, nibbles


@pytest.mark.parametrize("signed", [True, False])
def test_nibbles_are_what_was_stored(signed):
    whole = np.random.default_rng(0).integers(-8 if signed else 0, 8 if signed else 16, (3, 64))
    assert np.array_equal(nibbles(as_nibbles(whole), signed=signed), whole)


@pytest.mark.parametrize("rows", [1, 6, 64])
@pytest.mark.parametrize("form", FORMATS)
def test_a_product_is_that_of_the_restored_weight(form, rows, tmp_path):
    payload = at.payload(f"qmatmul,m={rows},n=24,k=256,format={form}")
    session = Session(tmp_path)
    product = session.load(payload)
    given = payload.make_inputs(0)
    (found,) = product(x=given["x"])
    (wanted,) = payload.reference(**given)
    assert np.abs(found - wanted).max() < 1e-5 * np.abs(wanted).max()
    assert np.abs(wanted).max() > 0.1


@pytest.mark.parametrize("rows", [1, 6])
def test_the_family_is_the_first_choice_and_its_default_is_valid(rows):
    (task,) = at.tasks(at.payload(f"qmatmul,m={rows},n=24,k=128"))
    assert task.family().name == BLOCKS.name
    assert task.family().space.broken_constraint(task.family().default()) is None


def test_sums_of_numbers_that_are_not_stored_in_bytes_are_left_to_others():
    (task,) = partition(at.payload("qmatmul,m=6,n=24,k=128")).tasks
    assert BLOCKS.covers(task)
    assert not BLOCKS.covers(replace(task, payload=at.payload("matmul,m=8,n=8,k=8")))


@pytest.mark.parametrize(
    ("config", "constraint"),
    [
        ({"columns": 8, "rows": 6}, "sums of a register tile fit the registers"),
        ({"columns": 8, "rows": 3, "unroll": 2}, "sums of a register tile fit the registers"),
    ],
)
def test_configs_that_cannot_be_break_a_constraint(config, constraint):
    (task,) = at.tasks(at.payload("qmatmul,m=6,n=96,k=128"))
    family = task.family()
    assert family.space.broken_constraint(family.default()) is None
    assert family.space.broken_constraint({**family.default(), **config}) == constraint


def test_any_format_can_be_restored_from_the_exact_one():
    arrays = {
        "w": np.arange(-64, 64, dtype=np.int8).reshape(2, 64),
        "w_scale": np.full((2, 4), 0.5, np.float32),
        "w_least": np.full((2, 4), 0.25, np.float32),
    }
    assert np.array_equal(EXACT.restore("w", arrays), arrays["w"] * 0.5 - 0.25)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("qmatmul,k=100", "k must be a multiple of 32 in q8_0, got 100; try k=128"),
        ("qmatmul,format=q3", "format must be one of q8_0, q4_0, q4_k, q6_k, got 'q3'"),
        ("qmatmul,n=0", "n must be at least 1"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(spec, message):
    with pytest.raises(at.AutotuneError, match=message):
        at.payload(spec)


def random_blocks(kind):
    """Rows of bytes as a file has them, with scales that are numbers."""
    rng = np.random.default_rng(1)
    size, offsets = {"Q8_0": (34, [0]), "Q4_0": (18, [0]), "Q4_K": (144, [0, 2]), "Q6_K": (210, [208])}[kind]
    raw = rng.integers(0, 256, (3, 2, size), dtype=np.uint8)
    for first in offsets:
        raw[..., first : first + 2] = rng.uniform(0.01, 0.1, (3, 2, 1)).astype(np.float16).view(np.uint8)
    return raw.reshape(3, -1)


@pytest.mark.parametrize("kind", GGML)
def test_blocks_of_a_file_are_repacked_without_a_change(kind):
    gguf = pytest.importorskip("gguf")
    raw = random_blocks(kind)
    wanted = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[kind])
    parts, form = repack(kind, raw), GGML[kind]
    found = form.restore("w", {f"w{end}": part for end, part in parts.items()})
    exact = EXACT.restore("w", {f"w{end}": part for end, part in as_exact(form, parts).items()})
    assert np.array_equal(found.astype(np.float32), wanted)
    assert np.array_equal(exact, found)


def test_formats_of_groups_are_written_as_one_of_groups():
    forms, layers = zip(*((GGML[kind], repack(kind, random_blocks(kind))) for kind in ("Q4_K", "Q6_K")), strict=True)
    form, alike = as_one(forms, layers)
    assert form == BOTH_K
    for before, parts, after in zip(forms, layers, alike, strict=True):
        assert np.array_equal(restored(form, after), restored(before, parts))
    assert as_one([*forms, GGML["Q8_0"]], [*layers, repack("Q8_0", random_blocks("Q8_0"))])[0] == EXACT


def restored(form, parts):
    """The weight in float64."""
    return form.restore("w", {f"w{end}": part for end, part in parts.items()})
