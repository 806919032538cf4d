"""Programs of torch.export: settings among their arguments, weights of rank 0, partial products; refusals by node."""

import numpy as np
import pytest

import autotune as at
from autotune.core.errors import PayloadError
from autotune.worker.loading.importing import import_model
from payload.programs import call_arguments, load_program

torch = pytest.importorskip("torch")


pytestmark = pytest.mark.usefixtures("warm_program_converters")


class Scaled(torch.nn.Module):
    """Partial products of a layer, scaled by a weight of rank 0 and by a setting."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 6)
        self.scale = torch.nn.Parameter(torch.tensor(2.0))

    def forward(self, x, factor, offset=None):
        return torch.cumprod(self.layer(x) * factor * self.scale, 1)


class Endless(torch.nn.Module):
    """A model of which an op has no size of its own."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(Eigenvalues())

    def forward(self, x):
        return self.inner(x + 1)


class Eigenvalues(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.eigvalsh(x)


def save(model, arguments, path):
    torch.export.save(torch.export.export(model.eval(), arguments), path)
    return path


def test_settings_are_constants_and_numbers_are_weights(tmp_path):
    model, x = Scaled(), torch.randn(3, 4)
    function = at.compile(save(model, (x, 3.14), tmp_path / "model.pt2"))
    for given in (x, torch.zeros(3, 4), -x):
        with torch.no_grad():
            np.testing.assert_allclose(function(given.numpy()), model(given, 3.14).numpy(), rtol=1e-4, atol=1e-5)


class Strided(torch.nn.Module):
    """A group norm, which PyTorch names a view by its strides in, and a view that is no other shape."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.GroupNorm(3, 12)

    def forward(self, x):
        y = self.norm(x)
        return y, torch.as_strided(y, (2, 12, 4), (240, 20, 5))


def test_views_by_strides_are_other_shapes_where_elements_stay_in_order(tmp_path):
    torch.manual_seed(0)
    model, x = Strided(), torch.randn(2, 12, 4, 5)
    torch.nn.init.normal_(model.norm.weight)
    torch.nn.init.normal_(model.norm.bias)
    path = save(model, (x,), tmp_path / "model.pt2")
    import_model(str(path), tmp_path / "model")
    payload = at.payload(str(tmp_path / "model"))
    assert payload.text.count("tensor.extract ") == 1, "the last one"
    with torch.no_grad():
        for got, expected in zip(at.compile(payload)(x.numpy()).values(), model(x), strict=True):
            np.testing.assert_allclose(got, expected.numpy(), rtol=1e-4, atol=1e-5)


def test_a_program_is_called_with_its_settings(tmp_path):
    x = torch.randn(3, 4)
    program = load_program(save(Scaled(), (x, 3.14), tmp_path / "model.pt2"))
    assert call_arguments(program, [x])[1:] in ((3.14,), (3.14, None))
    program.module()(*call_arguments(program, [x]))


def test_a_program_of_bytes_is_called_with_bytes_whoever_calls_it(tmp_path):
    x = torch.tensor([0, 127, 128, 255])
    program = load_program(save(torch.nn.ReLU(), (x.byte(),), tmp_path / "model.pt2"))
    (given,) = call_arguments(program, [x.int()])
    assert torch.equal(given, x.byte())
    assert torch.equal(program.module()(given), x.byte())


def test_a_refusal_names_node_op_and_module(tmp_path):
    path = save(Endless(), (torch.randn(4, 4),), tmp_path / "model.pt2")
    words = r"node linalg_eigvalsh \(aten.linalg_eigvalsh.default\) in inner.0 cannot be lowered"
    with pytest.raises(PayloadError, match=words):
        import_model(str(path), tmp_path / "model")


class Written(torch.nn.Module):
    def forward(self, x):
        return torch.as_strided_scatter(x[:3] * 2, x[3], (3,), (4,)) + 1


def test_a_refusal_names_the_node_where_torch_mlir_says_no_place(tmp_path):
    path = save(Written(), (torch.randn(4, 3),), tmp_path / "model.pt2")
    words = r"node as_strided_scatter \(aten.as_strided_scatter.default\) cannot be lowered: torch-mlir says: failed to"
    with pytest.raises(PayloadError, match=words):
        import_model(str(path), tmp_path / "model")


@pytest.mark.parametrize("bias", [True, False])
def test_an_lstm_is_written_out_in_both_directions(bias, tmp_path):
    torch.manual_seed(0)
    model, x = torch.nn.LSTM(4, 3, bidirectional=True, batch_first=True, bias=bias).eval(), torch.randn(2, 3, 4)
    with torch.no_grad():  # where PyTorch has the layer as one op
        path = save(model, (x,), tmp_path / "model.pt2")
        hidden, states = model(x)
    import_model(str(path), tmp_path / "model")
    got = at.compile(at.payload(str(tmp_path / "model")), scheduled=False)(x.numpy())
    for ours, theirs in zip(got.values(), [hidden, *states], strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-4, atol=1e-5)


class Counted(torch.nn.Module):
    """Sums and products in whole numbers of fewer bits than PyTorch takes by itself."""

    def forward(self, x, i):
        kinds = (torch.int32, torch.int8, torch.int64)
        sums = [each.cumsum(0, dtype=kind) for each in (x, i, i > 1) for kind in kinds]
        products = [i.cumprod(-1, dtype=kind) for kind in kinds]
        return *sums, *products, i.int().cumsum(1), i.sum(0, dtype=torch.int32)


def test_sums_have_the_type_that_is_asked_for(tmp_path):
    model, x, i = Counted(), torch.randn(4, 5) * 9, torch.randint(-5, 6, (4, 5))
    import_model(str(save(model, (x, i), tmp_path / "model.pt2")), tmp_path / "model")
    got = at.compile(at.payload(str(tmp_path / "model")), scheduled=False)(x.numpy(), i.numpy())
    for number, (ours, theirs) in enumerate(zip(got.values(), model(x, i), strict=True)):
        np.testing.assert_array_equal(ours, theirs.numpy(), err_msg=str(number))
        assert ours.dtype == theirs.numpy().dtype
