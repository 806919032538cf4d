"""Order statistics and bags of embeddings of PyTorch's programs, beside PyTorch's own."""

import numpy as np
import pytest

import autotune as at
from payload.importers import pt2_order
from payload.importers.pt2_bags import embedding_bag
from payload.importers.pt2_gelu import has_sign, inverse_of_erf, with_sign

torch = pytest.importorskip("torch")
F = torch.nn.functional

pytestmark = pytest.mark.usefixtures("warm_program_converters")

STRANGE = torch.tensor([[0.5, torch.nan, -1.0, 0.5, 2.0], [torch.inf, -torch.inf, torch.nan, 1.0, torch.nan]])
DISTINCT = torch.randperm(4 * 6 * 3).reshape(4, 6, 3)
KINDS = {"f32": DISTINCT.float(), "bf16": DISTINCT.bfloat16(), "i64": DISTINCT, "strange": STRANGE}


def assert_same(ours, theirs):
    for got, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(got, expected, equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_running_extremes_and_their_last_indices(kind, dim):
    for x in (KINDS[kind], (KINDS[kind] / 9).to(KINDS[kind].dtype)):  # whole numbers of which are the same
        assert_same(pt2_order.running_most(x, dim), torch.cummax(x, dim))
        assert_same(pt2_order.running_least(x, dim), torch.cummin(x, dim))


@pytest.mark.parametrize("keepdim", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_medians_and_smallest_elements(kind, dim, keepdim):
    x = KINDS[kind]
    for k in (1, x.shape[dim]):
        (ours, _), (theirs, _) = pt2_order.kth_least(x, k, dim, keepdim), torch.kthvalue(x, k, dim, keepdim)
        assert_same([ours], [theirs])
    for ours, theirs in (
        (pt2_order.median_along, torch.median),
        (pt2_order.median_of_numbers_along, torch.nanmedian),
    ):
        got, expected = ours(x, dim, keepdim), theirs(x, dim, keepdim)
        assert_same(got[:1] if kind == "strange" else got, expected[:1] if kind == "strange" else expected)
    assert_same([pt2_order.median(x), pt2_order.median_of_numbers(x)], [torch.median(x), torch.nanmedian(x)])


def test_of_equal_elements_the_first_is_the_median():
    values, indices = pt2_order.median_along(torch.tensor([[3, 1, 2, 2, 2], [0, 0, 0, 0, 0]]), 1)
    assert (values.tolist(), indices.tolist()) == ([2, 0], [2, 0])


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9])
def test_values_are_found_among_boundaries_in_any_order(count, right):
    boundaries, rows = torch.randn(count), torch.randn(4, count).sort()[0]
    values = torch.cat([torch.randn(4, 5), boundaries.expand(4, count), torch.full((4, 1), torch.nan)], 1)
    for row in (boundaries, boundaries.sort()[0], rows):
        expected = torch.searchsorted(row, values, right=right)
        assert_same([pt2_order.numbers_before(row, values, right=right)], [expected])
        assert_same([pt2_order.numbers_before(row, values, side="right" if right else "left")], [expected])
    assert_same(
        [pt2_order.bucket_numbers(0.3, boundaries, out_int32=True, right=right)],
        [torch.bucketize(0.3, boundaries, out_int32=True, right=right)],
    )


@pytest.mark.parametrize("padding", [-1, 2])
@pytest.mark.parametrize(("mode", "is_weighted"), [(0, False), (0, True), (1, False), (2, False)])
def test_bags_are_reduced(mode, is_weighted, padding):
    table, rows = torch.randn(5, 3), torch.tensor([2, 4, 2, 0, 1, 3, 2, 2])
    factors = torch.rand(8) if is_weighted else None
    for offsets, is_last in (([0, 3, 3, 6], False), ([0, 3, 3, 6, 8], True)):
        given = (table, rows, torch.tensor(offsets), False, mode, False, factors, is_last, padding)
        expected = torch.ops.aten._embedding_bag_forward_only(*given)
        torch.testing.assert_close(embedding_bag(*given)[0], expected[0])


def test_what_is_much_has_a_sorter_or_no_bags_is_left():
    much, few = torch.zeros(1 << 14), torch.randn(3)
    assert pt2_order.running_most(much, 0) is NotImplemented
    assert pt2_order.median(much) is NotImplemented
    assert pt2_order.median_of_numbers(much) is NotImplemented
    assert pt2_order.numbers_before(few, few, sorter=few.argsort()) is NotImplemented
    assert embedding_bag(torch.randn(5, 3), torch.tensor([1]), torch.tensor([], dtype=torch.int64)) is NotImplemented


def test_signs_and_the_inverse_of_erf():
    signs = torch.tensor([0.0, -0.0, 1.0, -1.0, 1e-45, -1e-45, torch.inf, -torch.inf])
    assert_same([has_sign(signs), has_sign(torch.tensor([-1, 0, 1]))], [signs.signbit(), torch.tensor([1, 0, 0]) > 0])
    for x in (signs.flip(0), torch.arange(8), torch.arange(8.0).bfloat16()):
        assert_same([with_sign(x, signs)], [torch.copysign(x, signs)])
    x = torch.cat([torch.linspace(-1, 1, 2001), torch.tensor([1 - 2**-24, 1e-20, 1.5, torch.nan])])
    torch.testing.assert_close(inverse_of_erf(x).double(), x.double().erfinv(), rtol=3e-7, atol=0, equal_nan=True)


class Ordered(torch.nn.Module):
    """Each of these ops, of tensors that have equal elements, too."""

    def forward(self, x, whole, rows, offsets):
        boundaries = x[0].cumsum(0)
        found = [torch.searchsorted(boundaries, x), torch.bucketize(x, boundaries, right=True)]
        for ordered in (torch.cummax(x, 1), torch.cummin(whole, 0)):
            found += list(ordered)
        for chosen in (x.median(1), x.nanmedian(0), x.kthvalue(2), whole.median(1), whole.kthvalue(2, 0)):
            found += [chosen[0], chosen[1]]
        found += [x.median(), x.nanmedian(), torch.erfinv(x.tanh()), torch.copysign(x, x.flip(0)), x.signbit().long()]
        found += [F.embedding_bag(rows, x, offsets, mode=mode) for mode in ("sum", "mean", "max")]
        return torch.cat([each.reshape(-1).float() for each in found])


def test_they_are_imported(tmp_path):
    torch.manual_seed(0)
    given = (torch.randn(5, 6), torch.randint(0, 3, (4, 6)), torch.tensor([0, 4, 4, 2]), torch.tensor([0, 1, 1]))
    with torch.no_grad():
        torch.export.save(torch.export.export(Ordered(), given), tmp_path / "model.pt2")
    function = at.compile(str(tmp_path / "model.pt2"), scheduled=False)
    expected = Ordered()(*(given[0], DISTINCT[:, :, 0], *given[2:]))  # of equal elements PyTorch gives any
    got = function(given[0].numpy(), DISTINCT[:, :, 0].numpy(), *(each.numpy() for each in given[2:]))
    np.testing.assert_allclose(got, expected.numpy(), rtol=1e-5, atol=1e-6)


class Refused(torch.nn.Module):
    def forward(self, x):
        return torch.nextafter(torch.special.bessel_j0(x).relu() + 1, x) + torch.special.i1(x)


def test_a_refusal_names_each_op_that_is_not_known(tmp_path):
    torch.export.save(torch.export.export(Refused(), (torch.randn(4),)), tmp_path / "model.pt2")
    nodes = [f"node {op} (aten.{op}.default)" for op in ("special_bessel_j0", "nextafter", "special_i1")]
    with pytest.raises(at.AutotuneError) as refusal:
        at.compile(str(tmp_path / "model.pt2"))
    assert all(node in str(refusal.value) for node in nodes)
    assert "add" not in str(refusal.value)
