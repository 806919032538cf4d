"""Quotients, comparisons and windows of imported programs give NaN and infinities where their framework does."""

import numpy as np
import pytest
from model_zoo import FLOAT, INT64, TensorProto, helper, save
from onnx.reference import ReferenceEvaluator

import autotune as at

torch = pytest.importorskip("torch")
SHAPE = (6, 40)


pytestmark = pytest.mark.usefixtures("warm_program_converters")


def strange(seed, shape=SHAPE):
    """Numbers with NaN, infinities and zeros of both signs among them, and quotients that rounding makes whole."""
    rng = np.random.default_rng(seed)
    found = rng.normal(size=shape).astype(np.float32)
    odd = np.float32([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 0.1, -0.3, 7.0, 1e30])
    places = rng.choice(found.size, found.size // 2, replace=False)
    found.flat[places] = rng.choice(odd, places.size)
    return found


class Wholes(torch.nn.Module):
    def forward(self, a, b):
        a, b = (torch.nan_to_num(x, 0, 9, -9).clamp(-99, 99).to(torch.int64) for x in (a * 7, b))
        return torch.fmod(a, -3), torch.fmod(a, 5), torch.fmod(a.to(torch.int32), 4), torch.fmod(a, 2.5), a % -3


class Quotients(torch.nn.Module):
    def forward(self, a, b):
        floors = (a // b, torch.div(a, b, rounding_mode="floor"), a // 0.1, torch.remainder(a, b))
        same = tuple(x.float() for x in (torch.eq(a, a), a == a.clone(), a == b, torch.ne(a, a)))
        return *floors, torch.fmod(a, b), torch.fmod(a, 0.3), torch.div(a, b, rounding_mode="trunc"), *same


class Constants(torch.nn.Module):
    def forward(self, a):
        tenth = torch.full_like(a, 0.1)
        holds = (tenth > 0, tenth < 0, tenth >= 1, tenth <= 0, tenth == 0, tenth != 0, tenth * a > 0)
        return tuple(torch.where(each, a, -a) for each in holds)


class Windows(torch.nn.Module):
    def forward(self, x):
        pooled, places = torch.nn.functional.max_pool2d(x, 3, 2, 1, return_indices=True)
        line, steps = torch.nn.functional.max_pool1d(x[0], 2, return_indices=True)
        return pooled, places, line, steps


@pytest.mark.parametrize(
    ("model", "shapes"),
    [(Quotients(), (SHAPE, SHAPE)), (Wholes(), (SHAPE, SHAPE)), (Constants(), (SHAPE,)), (Windows(), ((1, 4, 9, 10),))],
)
def test_programs_of_pytorch(model, shapes, tmp_path):
    torch.export.save(torch.export.export(model, tuple(map(torch.rand, shapes))), tmp_path / "model.pt2")
    function = at.compile(str(tmp_path / "model.pt2"))
    for seed in range(3):
        arrays = [strange(7 * seed + number, shape) for number, shape in enumerate(shapes)]
        expected = model(*map(torch.from_numpy, arrays))
        for number, (got, wanted) in enumerate(zip(function(*arrays).values(), expected, strict=True)):
            np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-5, atol=1e-6, err_msg=f"result {number}")


def test_models_of_onnx(tmp_path):
    nodes = [
        helper.make_node("Identity", ["a"], ["same"]),
        helper.make_node("Equal", ["a", "same"], ["equal"]),
        helper.make_node("Cast", ["equal"], ["y"], to=TensorProto.FLOAT),
        helper.make_node("Mod", ["a", "b"], ["rest"], fmod=1),
        helper.make_node("Equal", ["n", "n"], ["whole"]),
        helper.make_node("Cast", ["whole"], ["z"], to=TensorProto.FLOAT),
    ]
    given = [("a", FLOAT, SHAPE), ("b", FLOAT, SHAPE), ("n", INT64, SHAPE)]
    path = save(tmp_path / "model.onnx", nodes, given, [(name, FLOAT, SHAPE) for name in ("y", "rest", "z")])
    function, a, b = at.compile(str(path)), strange(1), strange(2)
    counts = np.arange(a.size, dtype=np.int64).reshape(SHAPE)
    with np.errstate(all="ignore"):
        expected = ReferenceEvaluator(str(path)).run(None, {"a": a, "b": b, "n": counts})
    for got, wanted in zip(function(a, b, counts).values(), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
