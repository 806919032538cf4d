"""Functional graphs that are kept: PyTorch makes a graph functional once, and not in each process."""

import math
import warnings

import pytest

torch = pytest.importorskip("torch")

from torch.fx import Graph, GraphModule  # noqa: E402

from autotune.contrib.torch_backend import backend  # noqa: E402
from autotune.contrib.torch_backend.dynamo_graphs import UnkeyedError, key_of_graph, name_of, text_of  # noqa: E402
from autotune.contrib.torch_backend.functional_graphs import (  # noqa: E402
    FunctionalGraph,
    NotSerializableError,
    graph_as_json,
    read_functional,
    same,
    write_functional,
)

X = torch.linspace(-1, 1, 12).reshape(3, 4)


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"


def call(function, store, *inputs):
    """What a function gives as another process would compute it."""
    torch._dynamo.reset()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.compile(function, backend="autotune", options={"store": str(store)})(*inputs)


def kept_in(store):
    return sorted(store.glob("*.functional"))


@pytest.fixture
def made(monkeypatch):
    """Counts how often PyTorch makes a graph functional."""
    counts, before = [], backend.aot_autograd

    def counted(**named):
        counts.append(1)
        return before(**named)

    monkeypatch.setattr(backend, "aot_autograd", counted)
    return counts


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.dense, self.norm = torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)
        self.register_buffer("rows", torch.tensor([2, 0, 1]))

    def forward(self, x):
        y = torch.nn.functional.gelu(self.norm(self.dense(x)))
        return y[self.rows], y.sum(dim=-1, dtype=torch.float32), y.clamp(max=math.inf) + torch.tensor([1.0, 2, 3, 4])


def test_a_graph_is_made_functional_once(store, made):
    model = Layers().eval()
    with torch.no_grad():
        wanted = model(X)
    for _ in range(2):
        for got, want in zip(call(model, store, X), wanted, strict=True):
            torch.testing.assert_close(got, want)
            assert got.stride() == want.stride()
    assert (len(made), len(kept_in(store))) == (1, 1)
    with torch.no_grad():
        model.dense.weight.mul_(2)
        wanted = model(X)
    for got, want in zip(call(model, store, X), wanted, strict=True):  # weights are given, and not in the graph
        torch.testing.assert_close(got, want)
    assert len(made) == 1


def written_in_place(x):
    x.add_(1)
    return x * 2


def viewed(x):
    return x.view(-1), x + 1


def views_of_one(x):
    y = x * 2
    return y, y.view(-1)


def in_16_bits(x):
    with torch.autocast("cpu", torch.bfloat16):
        return x @ x.T


@pytest.mark.parametrize("function", [written_in_place, viewed])
def test_what_writes_inputs_or_gives_views_is_left_to_pytorch(function, store, made):
    for _ in range(2):
        mine, theirs = X.clone(), X.clone()
        torch.testing.assert_close(call(function, store, mine), function(theirs))
        torch.testing.assert_close(mine, theirs)
    assert (len(made), kept_in(store)) == (2, [])


def test_results_that_are_views_of_each_other_stay_so(store, made):
    for _ in range(2):
        plain, view = call(views_of_one, store, X)
        torch.testing.assert_close(view, (X * 2).view(-1))
        plain.zero_()
        assert not view.any()
    assert len(made) == 1


def test_a_graph_that_casts_itself_is_kept_and_one_under_a_cast_is_not(store, made):
    for _ in range(2):
        torch.testing.assert_close(call(in_16_bits, store, X), in_16_bits(X))
    assert len(made) == 1
    with torch.autocast("cpu", torch.bfloat16):
        for _ in range(2):
            got = call(lambda x: x @ x.T, store, X)
            torch.testing.assert_close(got, X @ X.T)
            assert got.dtype is torch.bfloat16
    assert len(made) == 3


def test_states_of_pytorch_are_told_apart(store, made):
    def ones(x):
        return x + torch.ones(4)

    assert call(ones, store, X).dtype is torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert call(ones, store, X).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert call(ones, store, X).dtype is torch.float32
    assert len(made) == 2
    assert torch.equal(call(ones, store, X.T.contiguous().T), X + 1)  # other strides
    assert len(made) == 3


def test_training_is_refused_where_inference_is_kept(store):
    model = Layers().eval()
    call(model, store, X)
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="compiles inference alone"):
        torch.compile(model, backend="autotune", options={"store": str(store)})(X)


@pytest.mark.parametrize("damage", ["", "{}", "\n", "null"])
def test_what_is_damaged_is_made_again(damage, store, made):
    call(Layers().eval(), store, X)
    (path,) = kept_in(store)
    text = path.read_text()
    path.write_text(damage)
    call(Layers().eval(), store, X)
    assert (len(made), path.read_text()) == (2, text)


def test_no_change_of_a_file_is_taken_for_a_graph(store, tmp_path):
    call(Layers().eval(), store, X)
    (path,) = kept_in(store)
    whole, changed = path.read_bytes(), tmp_path / "changed"
    assert read_functional(path) is not None
    for place in range(0, len(whole), 41):
        for data in (whole[:place], whole[:place] + b"0" + whole[place + 1 :], whole[:place] + b"\xff" + whole[place:]):
            changed.write_bytes(data)
            assert data == whole or read_functional(changed) is None


def graph_of(op, *arguments, **named):
    graph = Graph()
    x = graph.placeholder("x")
    x.meta["val"] = X
    node = graph.call_function(op, (x, *arguments), named)
    node.meta["val"] = X
    graph.output((node,))
    return FunctionalGraph(GraphModule(torch.nn.Module(), graph), ("",), (0,))


@pytest.mark.parametrize(
    "arguments", [([1, -2],), ((1, 2),), (1.0,), (1,), (True,), (-0.0,), (math.inf,), (1e-45,), (None,), ("tanh",)]
)
def test_arguments_are_read_as_they_were_written(arguments, tmp_path):
    named = {"dtype": torch.bfloat16, "device": torch.device("cpu"), "memory_format": torch.channels_last}
    found = graph_of(torch.ops.aten.add.Tensor, *arguments, **named)
    write_functional(tmp_path / "graph", found)
    read = read_functional(tmp_path / "graph")
    assert same(read, found)
    (node,) = [each for each in read.module.graph.nodes if each.op == "call_function"]
    assert repr((node.args[1:], node.kwargs)) == repr((arguments, named)) or isinstance(arguments[0], tuple | list)


@pytest.mark.parametrize("op", [torch.ops.higher_order.cond, torch.relu, math.floor])
def test_graphs_of_other_ops_are_not_written(op):
    with pytest.raises(NotSerializableError):
        graph_as_json(graph_of(op))


def mine(x):
    return x


@pytest.mark.parametrize("function", [mine, lambda x: x, torch.ops.higher_order.cond, print, torch.nn.Linear(1, 1)])
def test_functions_that_others_may_change_have_no_name(function):
    with pytest.raises(UnkeyedError):
        name_of(function)


def test_a_key_is_of_values_and_not_of_objects():
    made = [text_of((1, [None, 2.0], slice(None, 3), {"a": True})) for _ in range(2)]
    assert made[0] == made[1]
    assert len({text_of(each) for each in (1, 1.0, True, "1", (1,), [1], None, -0.0, 0.0)}) == 9
    with pytest.raises(UnkeyedError):
        text_of(object())


def test_a_graph_with_tensors_of_its_own_or_modes_has_no_key():
    module = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(4, 4)))
    assert key_of_graph(module, [X]) is None  # it calls a module
    plain = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    assert key_of_graph(plain, [X]) == key_of_graph(torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1), [X.clone()])
    assert key_of_graph(plain, [X]) != key_of_graph(plain, [X.double()])
    assert key_of_graph(plain, [X.conj().to(torch.complex64).conj()]) is None
    assert key_of_graph(plain, [3]) is None
    with torch.device("cpu"):  # a mode, which says where tensors are made
        assert key_of_graph(plain, [X]) is None
