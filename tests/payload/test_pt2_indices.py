"""Sorting and scattering of programs of torch.export: as PyTorch has them, also of NaN and of equal elements."""

import numpy as np
import pytest

import autotune as at
from autotune.core.errors import PayloadError
from payload.importers import pt2_linalg
from payload.importers.linalg import UnsupportedError
from payload.importers.pt2_eager import first_stably
from payload.importers.pt2_indices import (
    histogram,
    index_put,
    index_reduce,
    scatter,
    scatter_add,
    scatter_reduce,
    sort,
    topk,
)

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
        values, indices = torch.topk(x, 3, dim=1)
        least, where = torch.topk(x, 2, dim=0, largest=False)
        ordered, order = torch.sort(x, dim=1, descending=True, stable=True)
        part, columns = u[:3, :4], x.clone()
        columns[:, self.apart[0]] = u[:, :4]
        return (
            values,
            torch.gather(x, 1, indices),  # of equal elements PyTorch takes any
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


def draw_for_placed():
    generator = torch.Generator().manual_seed(1)
    x = torch.randint(-3, 3, (5, 7), generator=generator).float()
    return x, torch.randn(5, 9, generator=generator)


@pytest.fixture(scope="module")
def placed(tmp_path_factory, warm_program_converters):
    """The program of `Placed`, compiled once."""
    path = tmp_path_factory.mktemp("placed") / "model.pt2"
    torch.export.save(torch.export.export(Placed().eval(), draw_for_placed()), path)
    return at.compile(str(path))


@pytest.mark.parametrize("strange", [False, True])
def test_elements_are_found_and_put_as_pytorch_does(strange, placed):
    x, u = draw_for_placed()
    if strange:
        x[1, 2], x[1, 4], x[3, 0], u[0, 1] = float("nan"), float("inf"), -float("inf"), float("nan")
    with torch.no_grad():
        expected = Placed()(x, u)
    for number, (got, wanted) in enumerate(zip(placed(x.numpy(), u.numpy()).values(), expected, strict=True)):
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-6, err_msg=str(number))


class PutWhere(torch.nn.Module):
    """Rows put at given indices."""

    def forward(self, x, indices, rows):
        return (
            torch.index_put(x, (indices,), rows),
            torch.index_put(x, (indices,), rows, accumulate=True),
            torch.index_put(x, (indices,), torch.tensor(5.0)),
            x.scatter(0, (indices % 6).unsqueeze(1).expand(4, 3), rows),
            x.scatter(0, (indices % 6).unsqueeze(1).expand(4, 3), 2.5),
        )


def test_indices_may_count_from_the_end_and_be_the_same(tmp_path):
    x, indices, rows = torch.randn(6, 3), torch.tensor([0, 2, 3, 5]), torch.randn(4, 3)
    torch.export.save(torch.export.export(PutWhere(), (x, indices, rows)), tmp_path / "model.pt2")
    function = at.compile(str(tmp_path / "model.pt2"))
    for given in (indices, torch.tensor([-1, 2, -6, 1]), torch.tensor([4, -2, 4, 0]), torch.tensor([3, 3, 3, 3])):
        found = function(x.numpy(), given.numpy(), rows.numpy()).values()
        for number, (got, wanted) in enumerate(zip(found, PutWhere()(x, given, rows), strict=True)):
            np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-6, atol=1e-6, err_msg=f"{number} {given}")


def masks_and_lists():
    """Indices of ``index_put`` into (4, 5, 6), and values."""
    rows, columns = torch.tensor([0, 3, -1]), torch.tensor([-2, 1, 4])
    whole, of_rows = torch.rand(4, 5, 6) > 0.5, torch.tensor([True, False, True, True])
    return [
        ((rows, columns), torch.randn(3, 6)),
        ((rows, columns), torch.tensor(2.0)),
        ((None, columns, rows), torch.randn(4, 3)),
        ((rows[:, None], columns), torch.randn(3, 3, 6)),
        ((None, torch.tensor([[0, 1], [-1, 2]])), torch.randn(4, 2, 2, 6)),
        ((torch.tensor(1),), torch.randn(5, 6)),
        ((rows, columns, columns), torch.randn(1)),
        ((whole,), torch.tensor(3.0)),
        ((of_rows,), torch.randn(5, 6)),
        ((of_rows,), torch.randn(1, 5, 1)),
        ((None, None, torch.rand(6) > 0.5), torch.randn(4, 5, 1)),
        ((None, torch.rand(5, 6) > 0.5), torch.randn(4, 1)),
        ((torch.rand(4, 5) > 0.5,), torch.randn(6)),
        ((torch.zeros(4, dtype=torch.bool),), torch.tensor(3.0)),
        ((rows, None, columns), torch.randn(3, 5)),
        ((rows[:, None], None, torch.tensor(1)), torch.randn(3, 1, 1)),
    ]


@pytest.mark.parametrize("accumulate", [True, False])
@pytest.mark.parametrize("number", range(16))
def test_elements_are_put_at_lists_of_indices_and_where_masks_are_true(number, accumulate):
    torch.manual_seed(0)
    x, (indices, values) = torch.randn(4, 5, 6), masks_and_lists()[number]
    torch.testing.assert_close(
        index_put(x, indices, values, accumulate), torch.ops.aten.index_put(x, indices, values, accumulate)
    )


def test_values_that_a_mask_counts_are_left():
    x, mask = torch.randn(4, 5, 6), torch.tensor([True, False, True, True])
    assert index_put(x, (mask,), torch.randn(3, 5, 6)) is NotImplemented


@pytest.mark.parametrize("kind", [torch.float32, torch.int64])
@pytest.mark.parametrize("included", [True, False])
@pytest.mark.parametrize("how", ["sum", "prod", "mean", "amax", "amin"])
def test_elements_are_reduced_with_and_without_what_is_there(how, included, kind):
    torch.manual_seed(0)
    x, u, indices = (torch.randn(4, 5) * 9).to(kind), (torch.randn(3, 4) * 9).to(kind), torch.randint(0, 4, (3, 4))
    for dim in (0, -1):
        expected = torch.scatter_reduce(x, dim, indices, u, how, include_self=included)
        torch.testing.assert_close(scatter_reduce(x, dim, indices, u, how, include_self=included), expected)


@pytest.mark.parametrize("included", [True, False])
@pytest.mark.parametrize("how", ["prod", "mean", "amax", "amin"])
def test_rows_are_reduced_at_indices(how, included):
    torch.manual_seed(0)
    x, rows = torch.randn(4, 5), torch.tensor([2, 0, 2])
    for dim, u in ((0, torch.randn(3, 5)), (-1, torch.randn(4, 3))):
        expected = torch.index_reduce(x, dim, rows, u, how, include_self=included)
        torch.testing.assert_close(index_reduce(x, dim, rows, u, how, include_self=included), expected)


@pytest.mark.parametrize(("bins", "low", "high"), [(5, -1, 1), (8, 0, 7), (10, -3.5, 2), (3, 0, 0.3)])
def test_histograms_count_what_lies_in_their_bounds(bins, low, high):
    x = torch.cat([torch.randn(99) * 3, torch.linspace(low, high, bins + 1), torch.tensor([torch.nan])])
    torch.testing.assert_close(histogram(x, bins, low, high), torch.histc(x, bins, low, high), rtol=0, atol=0)
    assert histogram(x, bins) is NotImplemented  # bounds that are elements


@pytest.mark.parametrize("x", [torch.randn(4, 6), torch.randn(6, 4).t(), torch.randn(2, 4, 6)[1]])
def test_results_lie_in_memory_as_those_of_pytorch(x):
    aten, indices, one = torch.ops.aten, torch.randint(0, 4, (4, 6)), torch.ones(())
    rows, mask, most = torch.tensor([2, 0]), x > 0, torch.randn(4, 6)
    ours = [*topk(x, 2, 0), *first_stably(x, 2, 0), *sort(x, 0), scatter(x, 0, indices, most)]
    ours += [scatter_add(x, 0, indices, most), scatter_reduce(x, 0, indices, most, "mean")]
    ours += [index_put(x, (None, rows), one), index_put(x, (mask,), one)]
    theirs = [*aten.topk(x, 2, 0), *aten.topk(x, 2, 0), *aten.sort(x, 0), aten.scatter(x, 0, indices, most)]
    theirs += [aten.scatter_add(x, 0, indices, most), aten.scatter_reduce(x, 0, indices, most, "mean")]
    theirs += [aten.index_put(x, (None, rows), one), aten.index_put(x, (mask,), one)]
    assert [each.stride() for each in ours] == [each.stride() for each in theirs]


class Masked(torch.nn.Module):
    """Elements that are set where something is true, and rows at two indices."""

    def forward(self, x, mask, rows):
        y, z = x * 2, x + 1
        y[x > 0] = 0.5
        y[:, mask] = -1.0
        z[rows, rows] = x[0]
        z[rows, :, rows] = 2.0
        mean = x[0].scatter_reduce(1, rows.expand(8, 8), x[1], "mean", include_self=False)
        z[0] = z[0] + torch.topk(x[0], 1, dim=0)[0].view(8) + torch.sort(x[1], dim=0)[0].view(64)[:8]
        product = x[0].scatter_reduce(1, rows.expand(8, 8), x[1], "prod")
        product = product.index_reduce(0, rows, x[2], "prod", include_self=False)
        return y, z, mean, product, torch.histc(x, 5, -1, 1), torch.argsort(rows), torch.topk(rows, 7)[1]


def test_masks_lists_and_orders_of_equal_elements_are_imported(tmp_path):
    mask, rows = torch.arange(8) % 3 == 0, torch.arange(8) % 4
    given = (torch.randn(8, 8, 8), mask, rows)
    torch.export.save(torch.export.export(Masked(), given), tmp_path / "model.pt2")
    function = at.compile(str(tmp_path / "model.pt2"), scheduled=False)
    x, mask = torch.randn(8, 8, 8), torch.arange(8) % 7 < 3
    *found, order, largest = function(x.numpy(), mask.numpy(), rows.numpy()).values()
    *expected, _, _ = Masked()(x, mask, rows)
    for got, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(order, torch.argsort(rows, stable=True).numpy())  # PyTorch says any
    np.testing.assert_array_equal(largest, torch.argsort(rows, stable=True, descending=True)[:7].numpy())


class Blamed(torch.nn.Module):
    def forward(self, x):
        return torch.full((4, 4), 2.0) + torch.linalg.eigvalsh(x)


@pytest.mark.parametrize("op", ["eigvalsh", "full"])
def test_an_op_is_refused_that_is_refused_alone_whatever_is_blamed(op, monkeypatch):
    graph = torch.export.export(Blamed(), (torch.randn(4, 4),)).graph

    def refuse(given, _):
        if any(op in node.name for node in given.nodes):
            number = next(n for n, node in enumerate(graph.nodes) if node.name == "full")
            raise UnsupportedError("", location=f"node {number}", why="no")

    monkeypatch.setattr(pt2_linalg, "text_of", refuse)
    with pytest.raises(UnsupportedError, match=rf"node \S*{op} .* cannot be lowered: no"):
        pt2_linalg.to_linalg(graph, {})


class Much(torch.nn.Module):
    def forward(self, x):
        return torch.sort(x)[0]


def test_what_is_much_is_refused(tmp_path):
    torch.export.save(torch.export.export(Much(), (torch.randn(1 << 14),)), tmp_path / "model.pt2")
    with pytest.raises(at.AutotuneError, match=r"node sort .* cannot be lowered"):
        at.compile(str(tmp_path / "model.pt2"))


class Counted(torch.nn.Module):
    def forward(self, x, mask):
        return x[mask].sum() + torch.nonzero(mask).sum()


def test_an_op_whose_result_is_as_large_as_elements_say_is_refused_by_name(tmp_path):
    given = (torch.randn(4, 5), torch.rand(4, 5) > 0.5)
    torch.export.save(torch.export.export(Counted(), given), tmp_path / "model.pt2")
    with pytest.raises(PayloadError, match=r"node index \(aten.index.Tensor\) cannot be lowered: the size of what it"):
        at.compile(str(tmp_path / "model.pt2"))
