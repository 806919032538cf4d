"""The page of a model of any size: its picture is of the times that calls are planned by."""

import re

import numpy as np
import pytest

from autotune.contrib.sizes.folder import CompiledSize, SizedModel, write_sized
from autotune.contrib.sizes.page import draw_expected, others_of, widest
from autotune.contrib.sizes.plan import CALL_SECONDS, plan_request
from autotune.contrib.sizes.proof import Dim

BATCH = Dim("batch", 1, 8, pad=True, split=True, results=(0,))
TOKENS = Dim("tokens", 1, 512, pad=True, results=(1,))
SIZES = (
    CompiledSize({"batch": 1, "tokens": 64}, 1e-3),
    CompiledSize({"batch": 1, "tokens": 512}, 9e-3, 128),
    CompiledSize({"batch": 4, "tokens": 64}, 3e-3),
)
MODEL = SizedModel("bert <b>.onnx", "0" * 64, (BATCH, TOKENS), {"x": {"batch": 0, "tokens": 1}}, SIZES, 1e-6, 24)


def test_the_picture_has_the_time_of_each_request_by_its_plan():
    (axes,) = draw_expected(MODEL).figure.axes
    curves = {line.get_label(): line.get_xydata() for line in axes.lines if line.get_linestyle() != "None"}
    assert list(curves) == ["batch=1", "batch=2", "batch=4", "batch=8"]
    served = MODEL.served
    sizes, seconds = [each.sizes for each in served], [each.seconds for each in served]
    for batch in (1, 8):
        points = curves[f"batch={batch}"]
        assert (points[0, 0], points[-1, 0]) == (1, 512)
        for tokens, took in points[::17]:
            parts = plan_request(MODEL.dims, sizes, seconds, {"batch": batch, "tokens": int(tokens)})
            assert took == pytest.approx(sum(seconds[part.size] + CALL_SECONDS for part in parts))
    steps = np.diff(curves["batch=1"][:, 1])
    assert 0 < (steps > 0).sum() < 10  # a staircase, one step a size that is served
    assert (axes.get_xlabel(), axes.get_xscale(), axes.get_yscale()) == ("tokens", "log", "log")


def test_marks_are_the_compiled_sizes():
    (axes,) = draw_expected(MODEL).figure.axes
    marks = {line.get_label(): tuple(line.get_xydata()[0]) for line in axes.lines if line.get_linestyle() == "None"}
    assert marks == {each.name: (each.sizes["tokens"], each.seconds) for each in SIZES}


def test_one_dimension_has_one_curve_without_a_legend_of_others():
    model = SizedModel("relu", "0" * 64, (Dim("n", 4, 4, results=(0,)),), {}, (CompiledSize({"n": 4}, 1e-6),))
    assert others_of(model.dims, widest(model.dims)) == [{}]
    (axes,) = draw_expected(model).figure.axes
    assert len(axes.lines) == 2


def test_the_page_of_a_folder_has_the_picture_and_its_tables_and_escapes_names(tmp_path, autotune):
    write_sized(tmp_path, MODEL)
    code, _, said = autotune("report", tmp_path, "-o", tmp_path / "page.html")
    assert code == 0, said
    page = (tmp_path / "page.html").read_text()
    assert "bert &lt;b&gt;.onnx" in page
    assert "<b>" not in page
    caption = r"Expected time of a call over tokens: from 1[.0-9]* ms to 72[.0-9]* ms"
    assert re.search(f"<svg role=.img. aria-label=.{caption}", page)
    for words in ("batch=4,tokens=64", "multiples of 128 below", "off by 1e-06 at most", "autotune emit"):
        assert words in page


def test_what_the_page_of_a_folder_cannot_have_is_refused(tmp_path, refused):
    write_sized(tmp_path, MODEL)
    refused("report", tmp_path, "--analysis", words="drop --analysis")
    refused("report", tmp_path, "--store", tmp_path / "s.journal", words="drop --store")
