import pytest

torch = pytest.importorskip("torch")

from payload.importers.pt2_decompose import OpByOp, WholeProgramError, decompose  # noqa: E402 - torch is an extra

aten = torch.ops.aten


class Of(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.forward = function


def exported(function, *shapes):
    return torch.export.export(Of(function), tuple(torch.randn(*shape) for shape in shapes))


def norms(x, w):
    y, _, _ = aten.native_layer_norm.default(x, [4], w, None, 1e-5)
    z, _, _ = aten.native_layer_norm.default(aten.gelu.default(y), [4], w, None, 1e-5)
    values, places = aten.topk.default(z, 2)
    return values, places, aten.t.default(z)


def targets(graph):
    return [node.target for node in graph.nodes if node.op == "call_function"]


def test_ops_are_those_of_pytorchs_decomposition():
    program = exported(norms, (3, 4), (4,))
    table = torch.export.default_decompositions()
    table = {op: table[op] for op in (aten.native_layer_norm.default, aten.gelu.default) if op in table}
    table.setdefault(aten.gelu.default, lambda x: x * torch.sigmoid(1.7 * x))
    ours = OpByOp(program, table).run()
    ours.graph.eliminate_dead_code()
    whole = program.run_decompositions(dict(table)).graph
    assert targets(ours.graph) == targets(whole)
    kinds = [[each.meta["val"].stride() for each in graph.output_node().args[0]] for graph in (ours.graph, whole)]
    assert kinds[0] == kinds[1]


def test_equal_calls_are_traced_once():
    traced = []

    def doubled(x, value, alpha=1):
        traced.append(value)
        return x * 2.0 + value

    program = exported(lambda x: tuple(aten.add.Scalar(x, value) for value in (1.0, 1.0, 0.0, -0.0, 1)), (3,))
    graph = OpByOp(program, {aten.add.Scalar: doubled}).run().graph
    assert list(map(str, traced)) == ["1.0", "0.0", "-0.0", "1"]
    assert targets(graph).count(aten.mul.Tensor) == 5


def test_results_of_equal_calls_are_told_apart():
    program = exported(lambda x, y: aten.sub.Tensor(aten.relu.default(x), aten.relu.default(y)) + 0, (3,), (3,))
    table = {aten.relu.default: lambda x: x * 2.0, aten.sub.Tensor: lambda x, y, alpha=1: x + y * -1.0}
    ours = OpByOp(program, table).run()
    assert torch.equal(ours(torch.full((3,), 5.0), torch.ones(3))[0], torch.full((3,), 8.0))


@pytest.mark.parametrize(
    "decomposition", [lambda x: x.clone().mul_(2), lambda x: x * torch.tensor(2.0)], ids=["mutation", "tensor"]
)
def test_graphs_have_no_mutations_and_no_tensors(decomposition):
    program = exported(lambda x: aten.relu.default(x) + 1, (3,))
    with pytest.raises(WholeProgramError):
        OpByOp(program, {aten.relu.default: decomposition}).run()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: aten.linear.default(x, x),
        lambda x: aten.mul_.Tensor(aten.clone.default(x), 2.0) + 1,
    ],
    ids=["composite op", "mutation"],
)
def test_other_programs_are_decomposed_as_a_whole(function):
    program = exported(function, (3, 3))
    whole, graph = decompose(program, {})
    assert whole is not program
    assert graph is whole.graph_module
