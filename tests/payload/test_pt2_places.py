"""Sorting and scattering of programs of torch.export: as PyTorch has them, also of NaN and of equal elements."""

import numpy as np
import pytest

import autotune as at

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("warm_program_converters")


class Placed(torch.nn.Module):
    """Ops that choose elements by their order, and ones that put them at indices."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        draw = lambda high, *shape: torch.randint(0, high, shape, generator=generator)  # noqa: E731
        for name, tensor in {
            "few": draw(7, 3, 4),
            "rows": draw(5, 9),
            "apart": torch.randperm(7, generator=generator)[:4].expand(3, 4).contiguous(),
        }.items():
            self.register_buffer(name, tensor)

    def forward(self, x, u):
        # x: (5, 7) with equal elements, u: (5, 9)
        values, places = torch.topk(x, 3, dim=1)
        least, where = torch.topk(x, 2, dim=0, largest=False)
        ordered, order = torch.sort(x, dim=1, descending=True, stable=True)
        part, columns = u[:3, :4], x.clone()
        columns[:, self.apart[0]] = u[:, :4]
        return (
            values,
            torch.gather(x, 1, places),  # of equal elements PyTorch takes any
            least,
            torch.gather(x, 0, where),
            ordered,
            order.float(),
            torch.sort(x, dim=0, stable=True)[0],
            x.scatter_add(1, self.few, part),
            x.scatter(1, self.apart, part),
            x.scatter(1, self.few, 2.5),
            x.scatter_reduce(1, self.few, part, "amax"),
            x.scatter_reduce(1, self.few, part, "amin"),
            x.index_add(0, self.rows, u.t()[:, :1].expand(9, 7), alpha=0.5),
            columns,
            torch.index_put(x, (self.rows,), u.t()[:, :1], accumulate=True),
            torch.hypot(x, u[:, :7]),
        )


@pytest.mark.parametrize("strange", [False, True])
def test_elements_are_found_and_put_as_pytorch_does(strange, tmp_path):
    generator = torch.Generator().manual_seed(1)
    x = torch.randint(-3, 3, (5, 7), generator=generator).float()
    u = torch.randn(5, 9, generator=generator)
    torch.export.save(torch.export.export(Placed().eval(), (x, u)), tmp_path / "model.pt2")
    function = at.compile(str(tmp_path / "model.pt2"))
    if strange:
        x[1, 2], x[1, 4], x[3, 0], u[0, 1] = float("nan"), float("inf"), -float("inf"), float("nan")
    with torch.no_grad():
        expected = Placed()(x, u)
    for number, (got, wanted) in enumerate(zip(function(x.numpy(), u.numpy()).values(), expected, strict=True)):
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-6, err_msg=str(number))


class PutWhere(torch.nn.Module):
    """Rows put where they are given."""

    def forward(self, x, places, rows):
        return (
            torch.index_put(x, (places,), rows),
            torch.index_put(x, (places,), rows, accumulate=True),
            torch.index_put(x, (places,), torch.tensor(5.0)),
            x.scatter(0, (places % 6).unsqueeze(1).expand(4, 3), rows),
            x.scatter(0, (places % 6).unsqueeze(1).expand(4, 3), 2.5),
        )


def test_places_may_count_from_the_end_and_be_the_same(tmp_path):
    x, places, rows = torch.randn(6, 3), torch.tensor([0, 2, 3, 5]), torch.randn(4, 3)
    torch.export.save(torch.export.export(PutWhere(), (x, places, rows)), tmp_path / "model.pt2")
    function = at.compile(str(tmp_path / "model.pt2"))
    for given in (places, torch.tensor([-1, 2, -6, 1]), torch.tensor([4, -2, 4, 0]), torch.tensor([3, 3, 3, 3])):
        found = function(x.numpy(), given.numpy(), rows.numpy()).values()
        for number, (got, wanted) in enumerate(zip(found, PutWhere()(x, given, rows), strict=True)):
            np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-6, atol=1e-6, err_msg=f"{number} {given}")


class Much(torch.nn.Module):
    def forward(self, x):
        return torch.sort(x)[0]


def test_what_is_much_is_refused(tmp_path):
    torch.export.save(torch.export.export(Much(), (torch.randn(1 << 14),)), tmp_path / "model.pt2")
    with pytest.raises(at.AutotuneError, match=r"node sort .* cannot be lowered"):
        at.compile(str(tmp_path / "model.pt2"))
