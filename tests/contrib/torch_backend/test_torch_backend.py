"""Modules under `torch.compile(.., backend="autotune")` give what PyTorch gives in float64, and change what it does."""

import copy
import json
import shutil
import subprocess
import sys
import threading
import time
import warnings

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import autotune as at  # noqa: E402
from autotune.bundles import call  # noqa: E402
from autotune.contrib.torch_backend import backend  # noqa: E402
from autotune.contrib.torch_backend.calls import DerivedValues  # noqa: E402
from autotune.contrib.torch_backend.programs import program_of  # noqa: E402
from autotune.contrib.torch_backend.regions import WARNED, BackendWarning, allowed_error  # noqa: E402
from autotune.core.errors import CompileError, PayloadError, RefusedModelError  # noqa: E402

pytestmark = pytest.mark.usefixtures("warm_program_converters")


@pytest.fixture(autouse=True)
def inference():
    torch._dynamo.reset()
    WARNED.clear()
    torch.manual_seed(0)
    with torch.no_grad(), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", BackendWarning)
        yield said
    hidden = ("other results", "fault of autotune")  # which PyTorch would hide
    assert not [each for each in sentences(said) if any(word in each for word in hidden)]


def sentences(said):
    return [str(each.message) for each in said if each.category is BackendWarning]


def compiled(function):
    return torch.compile(function, backend="autotune")


def assert_close(ours, theirs, tolerance=2e-5):
    assert ours.shape == theirs.shape
    apart = (ours.double() - theirs.double()).abs().max().item()
    assert apart <= tolerance * max(1.0, theirs.double().abs().max().item())


def assert_right(function, *inputs):
    """A function of tensors is right against itself in float64, with weights of that type."""
    exact = copy.deepcopy(function).double() if isinstance(function, nn.Module) else function
    ours = compiled(function)(*inputs)
    assert_close(ours, exact(*(each.double() if each.is_floating_point() else each for each in inputs)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("kernel", "pads"), [(4, (1, 0)), (3, (1, 1))])
def test_a_transposed_convolution_is_right_in_the_first_process_and_from_what_it_kept(kernel, pads, dtype, tmp_path):
    module = nn.ConvTranspose2d(16, 24, kernel, 2, pads[0], pads[1]).to(dtype).eval()
    x = torch.randn(2, 16, 9, 11, dtype=dtype)
    exact = copy.deepcopy(module).double()(x.double())
    for _ in range(2):
        torch._dynamo.reset()
        ours = torch.compile(module, backend="autotune", options={"store": str(tmp_path)})(x)
        assert_close(ours, exact, 2e-5 if dtype is torch.float32 else 2.0**-7)
    assert len(list(tmp_path.glob("*/program.json"))) == 1


def test_a_task_whose_default_does_not_compile_leaves_nothing_to_pytorch(monkeypatch, inference, tmp_path):
    """Of a region of a thousand ops one schedule may not apply: that op alone is slow."""
    compiled_before, refused = call.compile_candidate, []

    def refusing(payload, candidate):
        if candidate.script is not None and "matmul_5x6x7" in candidate.script:
            refused.append(payload.name)
            raise CompileError("transform", "two ops where one is wanted")
        return compiled_before(payload, candidate)

    monkeypatch.setattr(call, "compile_candidate", refusing)
    net = nn.Sequential(nn.Linear(7, 6), nn.GELU(), nn.Linear(6, 8)).eval()
    x = torch.randn(5, 7)
    ours = torch.compile(net, backend="autotune", options={"store": str(tmp_path)})(x)
    assert_close(ours, net.double()(x.double()))
    (said,) = sentences(inference)
    assert refused
    assert "does not compile (two ops where one is wanted); plain lowering instead" in said


def test_a_fault_of_the_compiler_ends_no_call(monkeypatch, inference, tmp_path):
    def broken(*_):
        raise KeyError("attempt to access a non-existent attribute")

    monkeypatch.setattr("autotune.contrib.torch_backend.graphs.program_of", broken)
    x = torch.randn(3, 4)
    torch.testing.assert_close(
        torch.compile(torch.sin, backend="autotune", options={"store": str(tmp_path)})(x), x.sin()
    )
    (said,) = sentences(inference)
    assert "runs as PyTorch runs it: KeyError: " in said
    assert said.endswith("that is a fault of autotune, please report it")
    inference.clear()


def upsampling():
    return nn.Sequential(nn.ConvTranspose2d(4, 6, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(6, 4, 3, 2)).eval()


@pytest.mark.parametrize("narrowed", [False, True])
def test_transposed_convolutions_are_of_the_weights_that_there_are(narrowed):
    """The importer makes other kernels of theirs, which are in no program of another model, or of before a write."""

    def convolve(net, x):
        with torch.autocast("cpu", torch.bfloat16, enabled=narrowed):
            return net(x)

    x, tolerance = torch.randn(1, 4, 5, 7), 2.0**-6 if narrowed else 2e-5
    for net in (upsampling(), upsampling()):
        torch._dynamo.reset()
        ours = compiled(lambda x, net=net: convolve(net, x))
        assert_close(ours(x), convolve(net, x), tolerance)
        net[0].weight.mul_(2)
        net[2].bias.add_(1)
        assert_close(ours(x), convolve(net, x), tolerance)
    net.load_state_dict(upsampling().state_dict())
    assert_close(ours(x), convolve(net, x), tolerance)


class Masked(nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, x):
        return F.softmax(x @ x.transpose(-2, -1) + self.mask, -1) @ x


def test_a_mask_is_the_one_that_there_is():
    """A causal mask of one model is in no program of another one, or of before a write."""
    x, future = torch.randn(2, 24, 8), torch.full((24, 24), -torch.inf).triu(1)
    for mask in (future, future.T.contiguous()):
        torch._dynamo.reset()
        module = Masked(mask)
        ours = compiled(module)
        assert_close(ours(x), module(x), 2e-5)
        module.mask.zero_()
        assert_close(ours(x), module(x), 2e-5)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.all, self.out = nn.LayerNorm(32), nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = (each.unflatten(-1, (4, 8)).transpose(1, 2) for each in self.all(self.norm(x)).chunk(3, -1))
        return x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("turned", [False, True])
def test_attention_lies_as_in_eager_and_is_viewed_so(turned):
    def attend(x):
        x = x.transpose(1, 2) if turned else x
        mixed = F.scaled_dot_product_attention(x, x, x)
        return mixed, (mixed.transpose(1, 2) if turned else mixed).view(-1) * 2

    x = torch.randn(2, 5, 4, 8)
    for ours, theirs in zip(compiled(attend)(x), attend(x), strict=True):
        assert_close(ours, theirs)
        assert ours.stride() == theirs.stride()


class Sums(nn.Module):
    """Buffers that calls change, a mask, and a weight that is computed of another."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.ones(4, 4).tril() == 0)
        self.register_buffer("total", torch.zeros(1))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, x):
        self.total.add_(x.sum())
        self.calls += 1
        return (x @ F.normalize(self.weight)).masked_fill(self.mask, -1) + self.total * self.calls


def convolutions():
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 1)).eval()
    net[1].running_mean.normal_()
    net[1].running_var.uniform_(1, 2)
    return net


class Derived(nn.Module):
    """Results that weights alone decide, and views of such."""

    def __init__(self):
        super().__init__()
        self.weight, self.scale = nn.Parameter(torch.randn(6, 6)), nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        scale, product = self.scale.exp(), torch.mm(self.weight, self.weight)
        return x @ self.weight * scale, scale, product.view(4, 9), (self.weight * 2).diagonal(), (product + 1).t()


def test_results_that_weights_alone_decide_may_be_written():
    net, x = Derived(), torch.randn(3, 6)
    ours, expected = compiled(net), net(x)
    for _ in range(2):
        results = ours(x)
        for one, other in zip(results, expected, strict=True):
            assert_close(one, other)
            assert one.stride() == other.stride()
            one.zero_()


def test_layers_whose_weights_change():
    net, x = nn.Sequential(nn.Linear(20, 32), nn.GELU(), nn.Linear(32, 8)).eval(), torch.randn(6, 20)
    ours = compiled(net)
    assert_close(ours(x), copy.deepcopy(net).double()(x.double()))
    other = nn.Sequential(nn.Linear(20, 32), nn.GELU(), nn.Linear(32, 8))
    net.load_state_dict(other.state_dict())
    assert_close(ours(x), other(x))
    net[0].weight.data = torch.ones(32, 20)
    assert_close(ours(x), net(x))


def test_weights_that_a_fused_optimizer_writes():
    net, x = nn.Linear(16, 16), torch.randn(4, 16)
    ours, steps = compiled(net), torch.optim.SGD(net.parameters(), lr=0.5, fused=True)
    assert_close(ours(x), net(x))
    with torch.enable_grad():
        net(x).square().sum().backward()
    steps.step()
    assert_close(ours(x), net(x))


def test_convolutions_whose_statistics_change():
    net, x = convolutions(), torch.randn(2, 3, 8, 8)
    ours = compiled(net)
    assert_close(ours(x), copy.deepcopy(net).double()(x.double()))
    net[1].running_mean.add_(1)
    assert_close(ours(x), net(x))
    turned = x.to(memory_format=torch.channels_last)
    assert_close(ours(turned), net(turned))
    assert ours(turned).stride() == net(turned).stride()


def test_attention_on_other_sizes(inference):
    block = Attention().eval()
    ours, exact = compiled(block), copy.deepcopy(block).double()
    for tokens in (5, 6, 7):
        x = torch.randn(2, tokens, 32)
        assert_close(ours(x), exact(x.double()))
    assert "compiled for each" in " ".join(sentences(inference))


def test_after_the_first_sizes_others_are_compiled_on_the_second_call(monkeypatch):
    sizes, functional = [], backend.functional

    def counted(module, inputs, *options):
        sizes.append(next(len(each) for each in inputs if each.shape[1:] == (4,) and len(each) != 3))
        return functional(module, inputs, *options)

    monkeypatch.setattr(backend, "functional", counted)
    layer = nn.Linear(4, 3)
    ours = torch.compile(layer, backend="autotune", dynamic=True)
    for size in (2, 4, 5, 6, 7, 8, 7, 9, 7, 2):
        x = torch.randn(size, 4)
        assert_close(ours(x), layer(x))
    assert sizes == [2, 4, 5, 6, 7]


def test_ops_that_the_importer_does_not_cover(inference):
    def function(x):
        return torch.linalg.cholesky(torch.relu(x @ x.T) + 10 * torch.eye(4)).sum(0) * 2 + 1

    assert_right(function, torch.randn(4, 4))
    (line,) = [each for each in sentences(inference) if "cholesky" in each]
    assert "runs as PyTorch runs it" in line
    assert "\n" not in line


def test_what_is_as_large_as_elements_say_is_left(inference):
    def function(x, count):
        rows = count.item()
        torch._check(rows >= 0)
        padded = torch.nn.functional.pad(x * 2 + 1, (rows, 3))  # its size is no 0: who asks for it ends the call
        return torch.cat([(x * 3 + 1).tanh() * 2, padded * 2])

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        assert_right(function, torch.randn(9), torch.tensor(2))
    assert any("tensors of data-dependent sizes" in each for each in sentences(inference))
    assert not any("Error" in each for each in sentences(inference))


def test_memory_that_nothing_wrote_and_equal_elements_are_the_same_wherever_they_are_computed(inference):
    def function(x, scores):
        chosen = scores.argmax(-1)
        order = torch.argsort(chosen)
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order))
        largest = torch.topk((scores > 0).float().T, 3)[1]
        return (x[order] * 2 + 1)[back] - x, x.new_empty(3, 4).zero_() + torch.empty(4).fill_(2.0), largest

    x, scores = torch.randn(40, 8), torch.randn(40, 4)
    *found, largest = compiled(function)(x, scores)
    for ours, theirs in zip(found, function(x, scores)[:2], strict=True):
        assert_close(ours, theirs)
    assert_close(largest, torch.argsort((scores > 0).T, stable=True, descending=True)[:, :3])  # PyTorch says any
    assert not sentences(inference)


def test_a_graph_in_two():
    def function(x):
        y = torch.relu(x @ x) + 1
        torch._dynamo.graph_break()
        return (y @ x).softmax(-1) * 2

    assert_right(function, torch.randn(8, 8))


def test_control_flow_is_run_by_pytorch_between_programs(inference):
    def function(x):
        y = (x @ x).tanh() + 1
        y = torch.cond(y.sum() > 16, lambda y: y.softmax(-1) @ x, lambda y: y - x.mean(), (y,))
        return (y @ x).relu() * 2

    x = torch.randn(4, 4)
    ours = compiled(function)
    for given in (x, -x, 3 * x):
        assert_close(ours(given), function(given))
    assert any("cond runs as PyTorch runs it" in each for each in sentences(inference))


def test_results_whose_elements_lie_at_one_place():
    def function(x):
        y = nn.functional.rms_norm(x, x.shape[-1:])
        return y.expand(3, 1, 8), (2 * y).t().expand(8, 5), (y + 1).unfold(1, 3, 1)

    x = torch.randn(1, 8)
    ours, theirs = compiled(function)(x), function(x)
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other)
    assert [one.stride() for one in ours[:2]] == [other.stride() for other in theirs[:2]]


def test_results_have_the_strides_of_eager_along_dimensions_of_one_element(inference):
    def function(x):
        return (x * 2)[:, 1:], (x + 1).transpose(0, 1), (x - 1)[:, :, :1]

    x = torch.randn(1, 5, 6)
    for one, other in zip(compiled(function)(x), function(x), strict=True):
        assert_close(one, other)
        assert one.stride() == other.stride()
    assert not sentences(inference)


def test_tensors_without_elements_are_joined(inference):
    def function(x):
        nothing, turned, last = torch.tensor([]), (x * 2).transpose(1, 2), x.to(memory_format=torch.channels_last) + 1
        one, two = torch.cat([nothing, turned], -2), torch.cat([x[:, :0], x * 3, x], 1)
        return one, two, torch.cat([last[:, :0], last], 1), torch.cat([nothing, last], 1), torch.cat([nothing, x], 1)

    x = torch.randn(2, 3, 4, 5)
    ours = compiled(function)(x)
    for one, other in zip(ours, function(x), strict=True):
        torch.testing.assert_close(one, other)
        assert one.stride() == other.stride()
    assert not sentences(inference)
    before = x.clone()
    ours[-1].zero_()
    assert torch.equal(x, before)


def test_splits_may_have_parts_without_elements(inference):
    def function(x):
        _, gate, states = torch.split(x * 2, [0, 3, 5], -1)
        return torch.sigmoid(gate) * states[:, :3], states + 1

    x = torch.randn(4, 8)
    for one, other in zip(compiled(function)(x), function(x), strict=True):
        torch.testing.assert_close(one, other)
    assert not sentences(inference)


def test_the_largest_of_several_rows_may_be_viewed(inference):
    def function(x):
        weights, places = torch.topk(x.softmax(-1), 2)
        return weights.view(-1) * 2, places.view(-1) + 1

    x = torch.randn(3, 8)
    for one, other in zip(compiled(function)(x), function(x), strict=True):
        torch.testing.assert_close(one, other)
    assert not sentences(inference)


class NormOfTurned(nn.Module):
    """A norm gives a transposed tensor's strides, which PyTorch traces in rows: the product behind it views them."""

    def __init__(self):
        super().__init__()
        self.norm, self.linear = nn.BatchNorm1d(6), nn.Linear(6, 5)

    def forward(self, x):
        return torch.relu(self.linear(self.norm(x.transpose(1, 2)).transpose(1, 2)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_a_norm_of_a_turned_tensor_gives_may_be_viewed(dtype, inference):
    """PyTorch computes it, too: in the first call, and where there are no programs."""
    assert_right(NormOfTurned().eval().to(dtype), torch.randn(2, 4, 6, dtype=dtype))
    assert dtype is torch.float64 or not sentences(inference)


def test_inputs_that_are_changed_and_views_that_are_returned():
    def function(x, y):
        x.add_(1)
        z = x @ y
        y.mul_(z.sum())
        return z, x[1:], y, z.t()

    x, y = torch.randn(4, 4), torch.randn(4, 4)
    a, b = x.clone(), y.clone()
    ours, theirs = compiled(function)(x, y), function(a, b)
    for one, other in zip((*ours, x, y), (*theirs, a, b), strict=True):
        assert_close(one, other)
        assert one.stride() == other.stride()
    assert ours[2] is y
    ours[1].zero_()
    assert not x[1:].any()
    ours[3].zero_()
    assert not ours[0].any()


def test_buffers_that_calls_change():
    ours, theirs = Sums(), Sums()
    theirs.load_state_dict(ours.state_dict())
    called, x = compiled(ours), torch.randn(4, 4)
    for _ in range(3):
        assert_close(called(x), theirs(x))
    assert ours.calls == theirs.calls == 3
    ours.mask.zero_()
    theirs.mask.zero_()
    assert_close(called(x), theirs(x))


@pytest.mark.parametrize("number", [8, -9, 10**6])
def test_indices_out_of_bounds_are_errors_where_they_are_computed_too(number):
    def function(x, given, added, chosen):
        put = (x * 2).scatter(0, given[:, None].expand(-1, 8), 1.0)
        return put, (x * 2).index_add(0, added - 1, x[:4]), F.embedding(chosen.long() * 1, x) * 2

    x, right = torch.randn(8, 8), torch.tensor([1, 2, 3, 4])
    ours = compiled(function)
    for one, other in zip(ours(x, right, right, right.float()), function(x, right, right, right.float()), strict=True):
        assert_close(one, other)
    for place in range(3):
        wrong = torch.tensor([1, 2, number + (place == 1), 4])
        given = [wrong if each == place else right for each in range(3)]
        with pytest.raises((IndexError, RuntimeError), match=r"out of (bounds|range)"):
            ours(x, *given[:2], given[2].float())


@pytest.mark.parametrize("ways", ["apart whole apart part", "whole part apart"])
def test_inputs_that_overlap_and_are_changed(ways):
    def function(x, y):
        x.add_(1)
        return y * 2

    ours, places = torch.compile(function, backend="autotune", dynamic=True), {"apart": 9, "whole": 0, "part": 2}
    for way in ways.split():
        all_of, begin = torch.randn(16, dtype=torch.float64), places[way]
        other = all_of.clone()
        assert torch.equal(ours(all_of[:4], all_of[begin : begin + 4]), function(other[:4], other[begin : begin + 4]))
        assert torch.equal(all_of, other)


def test_checks_of_what_is_given_are_done():
    def function(x, classes):
        return F.one_hot(classes + 1, 4) * x + 1

    x, ours = torch.randn(3, 4), compiled(function)
    assert_close(ours(x, torch.tensor([0, 2, 1])), function(x, torch.tensor([0, 2, 1])))
    with pytest.raises(RuntimeError, match="smaller than num_classes"):
        ours(x, torch.tensor([0, 3, 1]))


def test_numbers_beside_tensors():
    def function(x, whole, real, flag):
        y = (x * real + whole).tanh()
        return (y + 1 if flag else y), whole + 1

    ours, x = compiled(function), torch.randn(5, 7)
    for numbers in ((1, 2.5, True), (1, 3.5, True), (3, 1.5, False)):
        result, whole = ours(x, *numbers)
        exact, expected = function(x.double(), *numbers)
        assert_close(result, exact)
        assert whole == expected


def test_numbers_that_an_op_takes_as_numbers_alone(caplog):
    def function(x, number):
        return x * number, torch.full((3,), number), x.new_full((2,), 2 * number)

    ours, x = compiled(function), torch.randn(3, 4)
    for number in (0.5, 1.5, 2.5):
        for one, other in zip(ours(x, number), function(x, number), strict=True):
            assert_close(one, other)
    assert "Backend compiler" not in caplog.text


def test_numbers_that_an_op_of_a_library_takes_as_numbers_alone():
    @torch.library.custom_op("tests_of_numbers::scale", mutates_args=())
    def scale(x: torch.Tensor, by: float) -> torch.Tensor:
        return x * by

    scale.register_fake(lambda x, by: torch.empty_like(x))
    ours, x = compiled(lambda x, number: scale(x.tanh(), number) + number), torch.randn(3, 4)
    for number in (0.5, 1.5, 2.5):
        assert_close(ours(x, number), x.double().tanh() * number + number)


@pytest.mark.parametrize("dynamic", [None, True])
def test_an_element_at_a_place_that_a_tensor_of_rank_0_gives(dynamic, caplog):
    def function(x, place):
        return x[place] * 2 + 1, (x @ x.T)[place], x * place

    ours = torch.compile(function, backend="autotune", dynamic=dynamic)
    for rows, place in ((4, 2), (6, -1), (4, 3)):
        x, at_place = torch.randn(rows, 5), torch.tensor(place)
        for one, other in zip(ours(x, at_place), function(x, at_place), strict=True):
            assert_close(one, other)
    assert "Backend compiler" not in caplog.text  # Dynamo would run the graph itself


def test_numbers_that_an_op_takes_as_numbers_alone_where_sizes_change():
    def function(x, number):
        return x * number, torch.full((3,), number)

    ours = torch.compile(function, backend="autotune", dynamic=True)
    for rows, number in ((3, 0.5), (3, 1.5), (5, 1.5), (3, 0.5)):
        x = torch.randn(rows, 4)
        for one, other in zip(ours(x, number), function(x, number), strict=True):
            assert_close(one, other)


def test_fused_layers_where_sizes_change():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    ours = torch.compile(layer, backend="autotune", dynamic=True)
    for shape in ((2, 3, 8), (1, 5, 8), (2, 3, 8)):
        x = torch.randn(shape)
        assert_close(ours(x), layer(x))


def test_whole_numbers_and_truth_values():
    table = nn.Embedding(10, 8)

    def function(places, mask):
        return table(places) * mask[..., None], places.sum(), places.to(torch.int32) * 2, places > 3

    ours = compiled(function)
    places, mask = torch.randint(0, 10, (2, 5)), torch.rand(2, 5) > 0.5
    for one, other in zip(ours(places, mask), function(places, mask), strict=True):
        assert one.dtype == other.dtype
        assert_close(one, other)
    with pytest.raises(IndexError):
        ours(places + 5, mask)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_element_types(dtype):
    layer, x = nn.Sequential(nn.Linear(16, 16), nn.SiLU()).to(dtype), torch.randn(6, 16).to(dtype)
    ours = compiled(layer)(x)
    assert ours.dtype == dtype
    assert_close(ours, layer(x), 1e-14 if dtype == torch.float64 else 2e-2)


def test_a_model_in_bf16_is_multiplied_by_tiles_unless_no_error_is_allowed(monkeypatch, tmp_path):
    monkeypatch.setenv("AUTOTUNE_TILES", "emulate")
    net = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 40)).to(torch.bfloat16)
    x, found = torch.randn(24, 64).to(torch.bfloat16), {}
    for name, options in {"typed": {}, "plain": {"error": 0.0}}.items():
        torch._dynamo.reset()
        store = tmp_path / name
        ours = torch.compile(net, backend="autotune", options={"store": store, **options})(x)
        assert_close(ours, copy.deepcopy(net).double()(x.double()), 2.0**-7)
        (kept,) = store.glob("*/program.json")
        found[name] = json.loads(kept.read_text())
    assert [found[name]["error"] for name in ("typed", "plain")] == [2.0**-7, 0.0]
    assert all(weight["precision"] == "tile_bf16" for weight in found["typed"]["panels"])
    assert not any(weight["precision"] for weight in found["plain"]["panels"])


def test_divisors_and_places_are_tried_as_the_first_call_gives_them(inference):
    def function(x, by, cache, places, rows):
        return x // by, cache.index_put((places,), rows) * 2

    given = torch.arange(24).view(4, 6), torch.tensor([3, 2, 1, 5, 7, 4]), torch.randn(40, 3)
    given = (*given, torch.tensor([7, 3, 39, 12, 1, 0, 20, 11]), torch.randn(8, 3))
    for ours, theirs in zip(compiled(function)(*given), function(*given), strict=True):
        assert_close(ours, theirs)
    assert not sentences(inference)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_numbers_that_are_narrowed_and_widened_again_are_rounded(kind):
    def function(x):
        return x.to(kind).float() + 1, (x * 2).to(kind).to(torch.float32) @ x.T

    x = torch.randn(5, 24)
    for ours, theirs in zip(compiled(function)(x), function(x), strict=True):
        assert_close(ours, theirs, 1e-6)


def test_what_outputs_may_be_off_is_a_step_of_their_own_where_nobody_says():
    half, brain, whole = (torch.zeros(1, dtype=kind) for kind in (torch.float16, torch.bfloat16, torch.int64))
    assert allowed_error(None, [half, whole]) == 2.0**-10
    assert allowed_error(None, [half, brain]) == 2.0**-10
    assert allowed_error(None, [half, torch.zeros(1)]) == 0.0
    assert allowed_error(None, []) == 0.0
    assert allowed_error(0.5, [half]) == 0.5


def test_arrays_that_lie_otherwise():
    def function(x):
        return (x + 1).t(), x * 2

    ours = compiled(function)
    for x in (torch.randn(6, 5), torch.randn(5, 6).t(), torch.randn(12, 5)[::2]):
        for one, other in zip(ours(x), function(x), strict=True):
            assert_close(one, other)
            assert one.stride() == other.stride()


def test_results_that_are_computed_of_nothing_or_given():
    def function(x, y):
        return x, y * 2, y * 2, x.view(-1), None, 3, torch.arange(3), y + torch.tensor([1.0, 2.0])

    x, y = torch.randn(3, 4), torch.randn(2)
    ours = compiled(function)(x, y)
    assert ours[0] is x
    assert ours[3].data_ptr() == x.data_ptr()
    assert ours[4:6] == (None, 3)
    for number in (1, 2, 6, 7):
        assert_close(ours[number], function(x, y)[number])


def test_what_draws_and_what_is_empty_is_left_to_pytorch(inference):
    ours, x = compiled(lambda x: F.dropout(x, 0.5, True) @ x), torch.ones(8, 8)
    assert not torch.equal(ours(x), ours(x))
    assert "it draws random numbers" in " ".join(sentences(inference))
    assert compiled(lambda x: x.relu() + 1)(torch.ones(0, 4)).shape == (0, 4)


@pytest.mark.parametrize(
    ("x", "kind"),
    [
        (torch.ones(2, dtype=torch.float64), "tensors of float64"),
        (torch.ones(2, dtype=torch.complex64), "tensors of complex64"),
        (torch.ones(0, 4), "tensors without elements"),
    ],
)
def test_what_programs_have_no_tensors_of_is_named(x, kind, inference):
    compiled(lambda x: x + 1)(x)
    assert sentences(inference) == [
        f"backend autotune: aten.add.Tensor runs as PyTorch runs it: programs have no {kind}"
    ]


def test_threads_that_call_at_once_and_modules_that_share_a_graph():
    nets = [nn.Sequential(nn.Linear(24, 24), nn.BatchNorm1d(24), nn.ReLU()).eval() for _ in range(2)]
    for net in nets:
        net[1].running_mean.normal_()
    ours = [compiled(net) for net in nets]
    inputs = [torch.randn(16, 24) for _ in nets]
    expected = [copy.deepcopy(net).double()(x.double()) for net, x in zip(nets, inputs, strict=True)]
    wrong = []

    def call(number):
        with torch.no_grad():
            for _ in range(50):
                if (ours[number](inputs[number]) - expected[number]).abs().max() > 1e-4:
                    wrong.append(number)

    call(0)
    call(1)
    threads = [threading.Thread(target=call, args=(number,)) for number in (0, 1, 0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_threads_whose_first_calls_are_of_different_sizes(monkeypatch, tmp_path):
    net = nn.Sequential(nn.Linear(8, 8), nn.GELU()).eval()
    ours = torch.compile(net, backend="autotune", dynamic=True, options={"store": str(tmp_path)})
    save, saving, most, right = torch.export.save, [], [], []

    def save_slowly(*given):
        saving.append(given)
        most.append(len(saving))
        time.sleep(0.2)
        save(*given)
        saving.pop()

    def call(rows):
        x = torch.randn(rows, 8)
        with torch.no_grad():
            right.append(torch.allclose(ours(x), net(x), atol=1e-5))

    monkeypatch.setattr(torch.export, "save", save_slowly)
    threads = [threading.Thread(target=call, args=(rows,)) for rows in (3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True, True]
    assert most == [1, 1]


def test_weights_that_nobody_counts_changes_of():
    with torch.inference_mode():
        net, x = nn.Linear(20, 32).eval(), torch.randn(6, 20)
        ours = compiled(net)
        ours(x)
        net.weight.mul_(2)
        assert_close(ours(x), net(x))


def test_graphs_for_training_are_refused():
    with torch.enable_grad(), pytest.raises(Exception, match=r"gradients are enabled here; call the model under"):
        compiled(nn.Linear(4, 4))(torch.randn(2, 4))


def test_exported_programs_and_programs_that_are_kept(monkeypatch):
    net, x = nn.Sequential(nn.Linear(12, 20), nn.Tanh()).eval(), torch.randn(3, 12)
    exported = torch.export.export(net, (x,))
    assert_close(at.torch.compile(exported)(x), net(x))
    torch._dynamo.reset()
    monkeypatch.setattr("autotune.contrib.torch_backend.region_compiler.import_model", None)  # it is not imported again
    assert program_of.__module__ == "autotune.contrib.torch_backend.programs"
    assert_close(at.torch.compile(exported)(x), net(x))


@pytest.fixture(scope="module")
def exported_linear():
    """A program of two fixed axes, and one of an open axis."""
    net, x = nn.Linear(6, 4).eval(), torch.randn(8, 6)
    opened = torch.export.export(net, (x,), dynamic_shapes=({0: torch.export.Dim("rows", min=2, max=9)},))
    return torch.export.export(net, (x,)), opened


MISFITS = {
    "input must be of shape [8, 6], got [7, 6]": lambda x: (x[:7],),
    "input must be of shape [8, 6], got [48]": lambda x: (x.flatten(),),
    "input must be float32, got float64": lambda x: (x.double(),),
    "input must be a tensor, got ndarray": lambda x: (x.numpy(),),
    "a program must be called as it was exported, with 1 values by order and name; got 0": lambda x: (),
}


@pytest.mark.parametrize("words", MISFITS)
def test_exported_programs_refuse_what_they_were_not_exported_for_in_one_line(exported_linear, words):
    call = at.torch.compile(exported_linear[0])
    with pytest.raises(PayloadError) as error:
        call(*MISFITS[words](torch.randn(8, 6)))
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_exported_programs_refuse_sizes_outside_of_their_range(exported_linear):
    call = at.torch.compile(exported_linear[1])
    with pytest.raises(PayloadError, match=r"input must be of shape \[2..9, 6\], got \[10, 6\]"):
        call(torch.randn(10, 6))


@pytest.mark.parametrize("offset", [1, 4])
def test_tensors_that_lie_at_any_byte_are_served(offset):
    net, held = nn.Linear(16, 8).eval(), bytearray(8 * 16 * 4 + offset)
    x = torch.frombuffer(held, dtype=torch.float32, offset=offset, count=8 * 16).view(8, 16)
    x.copy_(torch.randn(8, 16))
    assert x.data_ptr() % 64
    assert_right(net, x)


@pytest.mark.parametrize("trials", [0, 2])
def test_a_store_that_cannot_be_written_is_refused_in_one_line(tmp_path, trials):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        Exception, match=r"store of backend autotune must be a folder that can be written, .*file is not"
    ):
        torch.compile(nn.Linear(4, 4), backend="autotune", options={"store": tmp_path / "file", "trials": trials})(
            torch.randn(2, 4)
        )


@pytest.mark.parametrize("trials", [0, 2])
def test_a_folder_without_room_is_told_in_one_line(trials, tmp_path, inference, monkeypatch):
    """PyTorch ends the process where it cannot write a program."""
    full = shutil.disk_usage(tmp_path)._replace(free=1 << 10)
    monkeypatch.setattr("autotune.contrib.torch_backend.region_compiler.shutil.disk_usage", lambda folder: full)
    net, x = nn.Linear(4, 5), torch.randn(2, 4)
    ours = torch.compile(net, backend="autotune", options={"store": str(tmp_path), "trials": trials})
    assert_close(ours(x), net(x))
    (line,) = sentences(inference)
    assert "must have room for" in line
    assert "\n" not in line
    assert not list(tmp_path.glob("*.refused"))


def test_a_process_that_starts_from_kept_programs_imports_no_importer_and_no_search(tmp_path):
    program = (
        "import sys, torch; torch.manual_seed(0); "
        "net, x = torch.nn.Sequential(torch.nn.Linear(12, 20), torch.nn.ReLU()).eval(), torch.randn(3, 12); "
        f"ours = torch.compile(net, backend='autotune', options={{'store': {str(tmp_path)!r}}}); "
        "torch.set_grad_enabled(False); assert torch.allclose(ours(x), net(x), atol=1e-5); "
        "heavy = {'torch_mlir', 'optuna', 'pandas', 'autotune.store.bundle', "
        "'autotune.contrib.torch_backend.region_compiler'}; "
        "print(sorted(heavy & {*sys.modules}))"
    )
    runs = [subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True) for _ in "12"]
    assert "'autotune.contrib.torch_backend.region_compiler'" in runs[0].stdout
    assert runs[1].stdout == "[]\n"


def test_a_region_that_is_refused_is_not_tried_again(inference, tmp_path, monkeypatch):
    def refuse(spec, folder):
        raise RefusedModelError(f"{spec} cannot be imported: it is refused")

    def ours():
        torch._dynamo.reset()
        return torch.compile(lambda x: x * 2 + 1, backend="autotune", options={"store": tmp_path})

    x, said = torch.randn(4, 3), "runs as PyTorch runs it: it cannot be imported: it is refused"  # in every process
    monkeypatch.setattr("autotune.contrib.torch_backend.region_compiler.import_model", refuse)
    assert_close(ours()(x), x * 2 + 1)
    (refused,) = tmp_path.glob("*.refused")
    assert "it cannot be imported: it is refused" in refused.read_text()
    monkeypatch.setattr("autotune.contrib.torch_backend.region_compiler.make_program", None)
    WARNED.clear()
    assert_close(ours()(x), x * 2 + 1)
    first, second = sentences(inference)
    assert first.endswith(said)
    assert second == first


def test_a_search_is_kept(tmp_path):
    net, x = nn.Sequential(nn.Linear(12, 20), nn.ReLU()).eval(), torch.randn(3, 12)
    ours = torch.compile(net, backend="autotune", options={"trials": 2, "store": tmp_path})
    assert_close(ours(x), copy.deepcopy(net).double()(x.double()))
    assert (tmp_path / "trials.journal").is_file()
    (searched,) = tmp_path.glob("*-search")
    assert (tmp_path / searched.name.removesuffix("-search") / "program.json").is_file()


def test_values_are_made_again_of_tensors_that_changed():
    made = []
    values = DerivedValues(lambda tensors: made.append(1) or tensors[0].sum().item())
    tensor = torch.ones(3)
    assert [values.get([tensor]), values.get([tensor])] == [3, 3]
    tensor.add_(1)
    assert values.get([tensor]) == 6
    tensor.data = torch.zeros(3)
    assert values.get([tensor]) == 0
    assert len(made) == 3


def test_a_row_that_is_replaced_leaves_the_rest():
    def replaced(x, y):
        x[:1] = y[:1] * 2
        return x * 1, torch.slice_scatter(y, x[:1] + 1, 0, 0, 1)

    x, y = torch.randn(4, 8), torch.randn(4, 8)
    for ours, theirs in zip(compiled(replaced)(x.clone(), y), replaced(x.clone(), y), strict=True):
        assert_close(ours, theirs)
