"""Indices that are not surely inside of what they index are left to PyTorch, others are not."""

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from autotune.contrib.torch_backend.indices import EXCLUDED, bounds_in, exclude_unsafe  # noqa: E402

TABLE, INDICES = torch.randn(8, 4), torch.tensor([0, 2, 1])


def left(function, *given, constants=()):
    """Names of ops that are left to PyTorch, and bounds of what is given."""
    tensors = (*given, *constants)
    module = make_fx(function, tracing_mode="fake")(*tensors)
    graph = module.graph
    kinds = ["" for _ in given] + ["constant" for _ in constants]
    exclude_unsafe(graph, kinds, tensors)
    names = {str(node.target) for node in graph.nodes if EXCLUDED in node.meta}
    assert not {n.name for n in graph.nodes if n.op == "placeholder" and EXCLUDED in n.meta}
    held = [node for node in graph.nodes if node.op == "placeholder"][len(given) :]
    return names, bounds_in(graph, dict(zip(held, constants, strict=True)))


@pytest.mark.parametrize(
    ("function", "bounds"),
    [
        (lambda x, i: x[i], (-8, 8)),
        (lambda x, i: F.embedding(i.unsqueeze(0), x), (0, 8)),
        (lambda x, i: x.gather(1, i[:, None].expand(3, 4)), (0, 4)),
        (lambda x, i: x.scatter(0, i[:, None].expand(3, 4), 1.0), (0, 8)),
        (lambda x, i: x.index_add(0, i, x[:3]), (0, 8)),
        (lambda x, i: torch.ops.aten.index_put(x, [None, i], x[:, :3]), (-4, 4)),
        (lambda x, i: x.take(i), (-32, 32)),
        (lambda x, i: x.index_select(1, i.int().long().split(2)[0]), None),
        (lambda x, i: x[:, i] + x.index_select(1, i), (0, 4)),
        (lambda x, i: F.nll_loss(x[:3], i), (0, 4)),
        (lambda x, i: F.embedding_bag(i, x, torch.arange(2)), (0, 8)),
        (lambda x, i: F.embedding_bag(torch.arange(5), x, i), (0, 6)),
        (lambda x, i: torch.ops.aten.max_unpool2d(x[:1, :3, None, None], i[None, :, None, None], [3, 2]), (0, 6)),
    ],
)
def test_indices_that_are_given_have_bounds(function, bounds):
    names, found = left(function, TABLE, INDICES)
    if bounds is None:  # numbers of 64 bits in 32 may be others
        assert names == {"aten._to_copy.default"}
    else:
        assert (names, found) == (set(), {1: bounds})


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda x, i: x[i + 1], "aten.add.Tensor"),
        (lambda x, i: F.embedding(torch.where(i > 3, i * 2, i), x), "aten.where.self"),
        (lambda x, i: x[(x[0, :3] * i).long()], "aten._to_copy.default"),
        (lambda x, i: x.index_copy(0, i - 1, x[:3]), "aten.sub.Tensor"),
        (lambda x, i: x.scatter_add(0, (i * 2)[:, None].expand(3, 4), x), "aten.mul.Tensor"),
        (lambda x, i: x.take(i.clamp(0, 32)), "aten.clamp.default"),
        (lambda x, i: x[i.remainder(9)], "aten.remainder.Scalar"),
        (lambda x, i: x[:, x.argmax(0)], "aten.argmax.default"),
        (lambda x, i: x[:, x.topk(2, 0)[1]], "aten.topk.default"),
        (lambda x, i: x[(i * 2).sort()[0]], "aten.mul.Tensor"),
        (lambda x, i: x.masked_scatter(x > 0, x), "aten.masked_scatter.default"),
        (lambda x, i: F.embedding(torch.arange(9), x[:8]), "aten.arange.default"),
        (lambda x, i: x[(i != 1).cumsum(0) + 5], "aten.add.Tensor"),
        (lambda x, i: x[(x > 0).sum(0)], "aten.sum.dim_IntList"),
        (lambda x, i: x[(x > 0).sum().reshape(1)], "aten.sum.default"),
        (lambda x, i: x[torch.zeros_like(i).index_put((i.argsort(),), i.abs())], "aten.index_put.default"),
        (lambda x, i: x[i.sign().index_put((i.argsort(),), torch.arange(3), True)], "aten.index_put.default"),
    ],
)
def test_indices_that_may_be_outside_are_left(function, name):
    assert left(function, TABLE, INDICES)[0] == {name}


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i: x[x.argmax(0)],
        lambda x, i: x[x.topk(2, 0)[1]],
        lambda x, i: F.max_unpool2d(*F.max_pool2d(x[None], 2, return_indices=True), 2),
        lambda x, i: x[x[:, 0].sort().indices],
        lambda x, i: x[x.topk(2, 0)[1].reshape(-1).sort()[0]],
        lambda x, i: x[torch.cat([x.argmax(0), i * 0]).max(0, keepdim=True)[0] + 0 * x.argmin(0).amin(0)],
        lambda x, i: x[(i + 1).clamp(0, 7)],
        lambda x, i: x[i.remainder(8)],
        lambda x, i: x[x.reshape(-1).argmax().reshape(1) // 4],
        lambda x, i: F.embedding((x[:, 0] > 0).long() * 2 + 1, x),
        lambda x, i: F.embedding(torch.arange(3) + 5, x),
        lambda x, i: F.embedding((torch.arange(8.0) * 0.5).log2().clamp(min=0).long(), x),
        lambda x, i: x[torch.where(i > 0, torch.arange(3), torch.full((3,), 7))],
        lambda x, i: x.index_put((x > 0,), torch.tensor(0.0)),
        lambda x, i: F.embedding((i != 1).int().cumsum(0) * (i != 1) + 4, x),
        lambda x, i: x[torch.stack([(x > 0).sum(1) + 3, (i > 0).sum().expand(8)])],
        lambda x, i: x[torch.zeros_like(i).index_put((i.argsort(),), torch.arange(3))],
        lambda x, i: x[x.cummax(0)[1][:, 0] + x.nanmedian(1, keepdim=True)[1] // 4],
        lambda x, i: x[torch.searchsorted(x[:7, 0], x[0]) + torch.bucketize(x[0], x[0, :0])],
    ],
)
def test_indices_that_are_inside_are_not(function):
    assert left(function, TABLE, INDICES) == (set(), {})


def test_indices_of_constants_are_as_they_are():
    def function(x, i):
        return x[i * 2 + 1]

    assert left(function, TABLE, constants=(torch.tensor([0, 3]),)) == (set(), {})
    assert left(function, TABLE, constants=(torch.tensor([0, 4]),))[0] == {"aten.add.Tensor"}
    assert left(lambda x, i: x[i], TABLE, constants=(torch.tensor([0, 8]),)) == (set(), {1: (-8, 8)})
