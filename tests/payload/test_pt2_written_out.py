"""Programs of torch.export with ops of PyTorch's that torch-mlir does not know, written out in others."""

import numpy as np
import pytest

import autotune as at
from autotune.worker.loading.importing import import_model
from payload.importers.pt2_encoder import encoder_layer
from payload.importers.pt2_fold import fold
from payload.importers.pt2_gelu import power
from payload.importers.pt2_resize import cubically, linearly

torch = pytest.importorskip("torch")
nn = torch.nn
aten = torch.ops.aten

pytestmark = pytest.mark.usefixtures("warm_program_converters")

RESIZES = {
    "linear": (aten._upsample_bilinear2d_aa.default, linearly),
    "cubic": (aten._upsample_bicubic2d_aa, cubically),
}
SIZES = [((9, 11), (5, 7)), ((5, 6), (9, 13)), ((7, 4), (1, 4)), ((3, 1), (2, 8)), ((16, 12), (4, 3))]
FOLDS = [  # size, kernel, dilation, padding, stride
    ((6, 7), (3, 3), (1, 1), (1, 1), (1, 1)),
    ((8, 12), (2, 3), (1, 1), (0, 0), (2, 3)),
    ((9, 10), (3, 2), (2, 1), (2, 0), (2, 3)),
    ((5, 5), (2, 2), (1, 1), (0, 0), (3, 3)),
    ((6, 6), (1, 4), (1, 1), (3, 1), (2, 1)),
]


def compiled(model, arguments, folder):
    """What a program gives that was exported for inference, where PyTorch calls its fast ops, and imported."""
    with torch.no_grad():
        torch.export.save(torch.export.export(model.eval(), arguments), folder / "model.pt2")
        expected = model(*arguments)
    import_model(str(folder / "model.pt2"), folder / "model")
    got = at.compile(at.payload(str(folder / "model")), scheduled=False)(*(each.numpy() for each in arguments))
    return got, expected.numpy()


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize(("old", "new"), SIZES)
@pytest.mark.parametrize("kind", RESIZES)
def test_resizes_that_average_are_those_of_pytorch(kind, old, new, aligned):
    theirs, ours = RESIZES[kind]
    x = torch.randn(2, 3, *old)
    for factors in ((None, None), tuple((after + 0.4) / before for before, after in zip(old, new, strict=True))):
        torch.testing.assert_close(ours(x, new, aligned, *factors), theirs(x, new, aligned, *factors))


def test_resizes_that_pytorch_rounds_or_takes_one_row_of_are_left():
    assert linearly(torch.zeros(1, 1, 4, 4, dtype=torch.uint8), (2, 2), False) is NotImplemented
    assert cubically(torch.zeros(1, 1, 4, 4), (2, 1), False) is NotImplemented


@pytest.mark.parametrize(("size", "kernel", "dilation", "padding", "stride"), FOLDS)
def test_windows_are_added_where_they_lie(size, kernel, dilation, padding, stride):
    unfolded = nn.functional.unfold(torch.randn(2, 3, *size), kernel, dilation, padding, stride)
    for x in (unfolded, unfolded[0]):
        expected = nn.functional.fold(x, size, kernel, dilation, padding, stride)
        got = fold(x, size, kernel, dilation, padding, stride)
        torch.testing.assert_close(got, expected)
        assert got.stride() == expected.stride()


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("kind", [None, 0, 1, 2])
def test_a_layer_of_an_encoder_is_that_of_pytorch(kind, before):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 12, activation="gelu" if before else "relu", batch_first=True)
    x, shape = torch.randn(2, 5, 8), {None: (), 0: (5, 5), 1: (2, 5), 2: (2, 2, 5, 5)}[kind]
    mask = None if kind is None else torch.rand(shape) > 0.6
    attention = layer.self_attn
    weights = (attention.in_proj_weight, attention.in_proj_bias, attention.out_proj.weight, attention.out_proj.bias)
    norms = (layer.norm1.weight, layer.norm1.bias, layer.norm2.weight, layer.norm2.bias)
    dense = (layer.linear1.weight, layer.linear1.bias, layer.linear2.weight, layer.linear2.bias)
    with torch.no_grad():
        for masking in (mask, None if mask is None else mask.float().masked_fill(mask, -torch.inf)):
            given = (x, 8, 2, *weights, before, before, 1e-5, *norms, *dense, masking, kind)
            expected = aten._transformer_encoder_layer_fwd(*given)
            torch.testing.assert_close(encoder_layer(*given), expected, equal_nan=True)


class Masked(nn.Module):
    """Layers of an encoder, some of whose tokens are padding."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(8, 2, 12, batch_first=True) for _ in range(2))

    def forward(self, x, hidden):
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=hidden)
        return x


def test_layers_of_an_encoder_are_imported(tmp_path):
    hidden = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    got, expected = compiled(Masked(), (torch.randn(2, 5, 8), hidden), tmp_path)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


class Images(nn.Module):
    """Images that are resized both ways, and windows that are added."""

    def forward(self, x, windows):
        smaller = nn.functional.interpolate(x, size=(3, 4), mode="bilinear", antialias=True)
        larger = nn.functional.interpolate(smaller, size=(6, 7), mode="bicubic", antialias=True)
        return larger + nn.functional.fold(windows, (6, 7), 3, padding=1)


def test_resizes_and_windows_are_imported(tmp_path):
    got, expected = compiled(Images(), (torch.randn(1, 2, 8, 9), torch.randn(1, 18, 42)), tmp_path)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


class Bytes(nn.Module):
    """Bytes and whole numbers, each by a number."""

    def forward(self, x):
        i, wide = x.to(torch.int8), x.to(torch.int64)
        u, short = x.abs().to(torch.uint8), x.to(torch.int16)
        parts = (i * 2, i - 2, i * 200, i // 3, torch.div(i, -3, rounding_mode="trunc"), i % 3, i | 1, i ^ 5)
        unsigned = (u * 3, u - 2, u // 3, u % 3, u | 1, u ^ 5, short | 1, short ^ 5)
        return torch.stack([*(part.to(torch.int64) for part in (*parts, *unsigned)), wide | 9, wide ^ 3])


class Distances(nn.Module):
    """Distances by several norms, beside blocks along a diagonal, which PyTorch joins with zeros of no columns."""

    def forward(self, x, y):
        apart = [torch.cdist(x, y, p) for p in (0.0, 1.0, 2.0, 3.0, float("inf"))]
        return torch.cat([*apart, torch.block_diag(x[0], y[0])[:3, :4].expand(2, 3, 4)], 1)


def test_distances_and_blocks_along_a_diagonal_are_imported(tmp_path):
    got, expected = compiled(Distances(), (torch.randn(2, 3, 5), torch.randn(2, 4, 5)), tmp_path)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_bytes_by_numbers_are_imported(tmp_path):
    got, expected = compiled(Bytes(), (torch.arange(-128.0, 128.0),), tmp_path)
    np.testing.assert_array_equal(got, expected)


class Pools(nn.Module):
    """Pools of tensors without a batch dimension."""

    def forward(self, plane, volume):
        planes = [nn.functional.max_pool2d(plane, 3, 1, 1), nn.functional.avg_pool2d(plane, 3, 1, 1)]
        wide = nn.functional.interpolate(nn.functional.adaptive_max_pool2d(plane, 4)[None], (8, 8))[0]
        volumes = [nn.functional.max_pool3d(volume, 2), nn.functional.avg_pool3d(volume, 2)]
        return torch.cat([each.reshape(-1) for each in (*planes, wide, *volumes)])


def test_pools_without_a_batch_are_imported(tmp_path):
    got, expected = compiled(Pools(), (torch.randn(2, 8, 8), torch.randn(2, 4, 6, 8)), tmp_path)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


class Shifts(nn.Module):
    """Shifts by counts of which some are below 0 or as large as there are bits, and truth values by one."""

    def forward(self, x, by):
        kinds = [x.to(kind) for kind in (torch.int8, torch.uint8, torch.int32, torch.int64)]
        counts = [part for value in kinds for part in (value << 9, value >> 9, value << 64, value >> 64, value >> 1)]
        given = [part for value in kinds for part in (value << by.to(value.dtype), value >> by.to(value.dtype))]
        mixed = (
            kinds[0] << by,
            kinds[2] >> by,
            torch.bitwise_left_shift(3, by),
            torch.bitwise_right_shift(kinds[3], -1),
        )
        truth = ((x > 0) ^ True, (x > 0) | False)
        return torch.stack([part.to(torch.int64) for part in (*counts, *given, *mixed, *truth)])


def test_shifts_by_any_count_are_those_of_pytorch(tmp_path):
    x, by = torch.arange(-300, 300) * 12345, torch.arange(600) % 75 - 5
    got, expected = compiled(Shifts(), (x, by), tmp_path)
    np.testing.assert_array_equal(got, expected)


class AdaptivePools(nn.Module):
    def forward(self, rows, planes, volumes):
        largest, places = nn.functional.adaptive_max_pool2d(planes, (3, 5), return_indices=True)
        others = nn.functional.adaptive_max_pool1d(rows, 3), nn.functional.adaptive_max_pool3d(volumes, (3, 2, 7))
        return torch.cat([each.flatten() for each in (largest, places.float(), *others)])


def test_adaptive_pools_of_sizes_that_do_not_divide_are_those_of_pytorch(tmp_path):
    got, expected = compiled(
        AdaptivePools(), (torch.randn(1, 5, 8), torch.randn(2, 3, 8, 7), torch.randn(1, 2, 8, 5, 3)), tmp_path
    )
    np.testing.assert_array_equal(got, expected)


class Powers(nn.Module):
    """Powers of bytes, whole numbers and truth values."""

    def forward(self, x):
        i, wide = x.to(torch.int8), x.to(torch.int64)
        parts = (i**2, i**3, i**0, i**1, i.square(), wide**2, wide**9, (x > 0) ** 3, wide**2.0)
        return torch.stack([part.to(torch.int64) for part in parts])


def test_whole_powers_of_whole_numbers_are_imported(tmp_path):
    got, expected = compiled(Powers(), (torch.arange(-128.0, 128.0),), tmp_path)
    np.testing.assert_array_equal(got, expected)


def test_powers_below_one_of_whole_numbers_are_left():
    assert power(torch.arange(3), -1) is NotImplemented


class Unsigned(nn.Module):
    """Bytes without a sign, half of which are negative as ones with a sign."""

    def forward(self, x):
        u = x.to(torch.uint8)
        other = u.flip(0).clamp(min=1)
        real = (u / 3, u * 1.5, u.float().mean())
        whole = (u > 200, u == 200, u > other, u.sum(), u.cumsum(0), u % other, u // other, u >> 1, u.abs(), ~u, -u)
        several = (torch.where(u > 200, u, 7), torch.sort(u[::16])[0].sum(), u.max(0)[0], u.argmax(), u.long(), u * u)
        return torch.stack([part.to(torch.float32).expand(256) for part in (*real, *whole, *several)])


def test_bytes_without_a_sign_are_computed_as_such(tmp_path):
    got, expected = compiled(Unsigned(), (torch.arange(256.0),), tmp_path)
    np.testing.assert_allclose(got, expected)


class Given(nn.Module):
    def forward(self, x):
        return x * 2, (x * 3).to(torch.uint8)


def test_results_that_are_bytes_without_a_sign_are_whole_numbers(tmp_path):
    x = torch.arange(85.0)
    torch.export.save(torch.export.export(Given(), (x,)), tmp_path / "model.pt2")
    _, found = at.compile(str(tmp_path / "model.pt2"), scheduled=False)(x.numpy()).values()
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, np.arange(0, 255, 3))


class Short(nn.Module):
    def forward(self, x):
        return x * 2, x.to(torch.int16)


@pytest.mark.parametrize(("kind", "what"), [(torch.float32, "result1"), (torch.int16, "input x")])
def test_whole_numbers_of_16_bits_are_refused_by_name(kind, what, tmp_path):
    torch.export.save(torch.export.export(Short(), (torch.zeros(4, dtype=kind),)), tmp_path / "model.pt2")
    with pytest.raises(at.AutotuneError, match=f"{what} must not be of int16, it is; cast it to int32 in the model"):
        import_model(str(tmp_path / "model.pt2"), tmp_path / "model")


class Pixels(nn.Module):
    """What models do first with a picture of bytes; a mask of bytes, too."""

    def forward(self, x):
        return x.float() / 255, x + 100, (x > 127).float(), x.max(), torch.where(x.bool(), x, 3)


def test_inputs_that_are_bytes_without_a_sign_are_whole_numbers(tmp_path):
    x = torch.arange(256).to(torch.uint8)
    torch.export.save(torch.export.export(Pixels(), (x,)), tmp_path / "model.pt2")
    found = at.compile(str(tmp_path / "model.pt2"), scheduled=False)(x.numpy().astype(np.int32)).values()
    for got, wanted in zip(found, Pixels()(x), strict=True):
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    ("filters", "settings"),
    [
        (6, {"kernel_size": 3, "padding": 1}),
        (12, {"kernel_size": (2, 3, 1), "stride": (2, 1, 2), "padding": (1, 0, 0), "dilation": (2, 1, 1)}),
        (6, {"kernel_size": (1, 5, 5), "stride": (1, 2, 2), "padding": (0, 2, 2), "bias": False}),
    ],
)
def test_depthwise_convolutions_over_volumes_are_those_of_pytorch(filters, settings, tmp_path):
    got, expected = compiled(nn.Conv3d(6, filters, groups=6, **settings), (torch.randn(2, 6, 5, 8, 9),), tmp_path)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
