"""Special functions, diagonals and rolls of PyTorch's programs, beside PyTorch's own in float64."""

import numpy as np
import pytest

import autotune as at
from autotune.worker.loading.importing import import_model
from payload.importers import pt2_special
from payload.importers.pt2_views import rolled, with_diagonal

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("warm_program_converters")

FUNCTIONS = {
    torch.erfc: pt2_special.complement_of_erf,
    torch.lgamma: pt2_special.log_of_gamma,
    torch.digamma: pt2_special.digamma,
    torch.i0: pt2_special.bessel_i0,
}
STRANGE = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0, -1.0, -2.0, -7.0, 1.0, 2.0, 3.0, -1e10, 1e10])
SPREAD = torch.cat([torch.linspace(-12, 12, 2401), torch.logspace(-37, 36, 300), -torch.logspace(-37, 6, 300)])
NEAR = torch.cat([centre + torch.linspace(-1e-3, 1e-3, 101) for centre in (1.0, 2.0, 0.5, 1.5, 2.5, 8.5, -0.5)])
NUMBERS = torch.cat([STRANGE, SPREAD, NEAR])


def assert_near(got, theirs, x, tolerance):
    """Check that results are those in float64 where PyTorch's in f32 are finite, and as strange as those elsewhere."""
    expected = theirs(x)
    exact = torch.where(torch.isfinite(expected), theirs(x.double()), expected.double())
    torch.testing.assert_close(got.double(), exact, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("theirs", FUNCTIONS)
def test_special_functions_are_those_in_float64(theirs):
    assert_near(FUNCTIONS[theirs](NUMBERS), theirs, NUMBERS, 1e-6)


def test_small_results_are_right_relative_to_themselves():
    far = torch.linspace(1, 9, 999)
    torch.testing.assert_close(pt2_special.complement_of_erf(far).double(), torch.erfc(far.double()), rtol=1e-6, atol=0)
    ones = torch.cat([centre + torch.linspace(-1e-4, 1e-4, 101) for centre in (1.0, 2.0)])
    torch.testing.assert_close(pt2_special.log_of_gamma(ones).double(), torch.lgamma(ones.double()), rtol=2e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int64])
@pytest.mark.parametrize("theirs", FUNCTIONS)
def test_special_functions_of_other_types_are_computed_in_f32(theirs, dtype):
    x = torch.arange(1, 9).to(dtype)
    expected = theirs(x.float()).to(dtype if x.is_floating_point() else torch.float32)
    torch.testing.assert_close(FUNCTIONS[theirs](x), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
@pytest.mark.parametrize("dims", [(0, 1), (1, 0), (-1, 0)])
@pytest.mark.parametrize("offset", [-2, -1, 0, 1, 3])
def test_diagonals_are_written_and_lie_as_those_of_pytorch(offset, dims, dtype):
    x = torch.randint(0, 2, (4, 6, 5)).to(dtype).transpose(0, 1)
    src = 1 - torch.diagonal(x, offset, *dims).to(torch.int64)
    expected = torch.diagonal_scatter(x, src.to(dtype), offset, *dims)
    got = with_diagonal(x, src.to(dtype), offset, *dims)
    assert torch.equal(got, expected)
    assert got.stride() == expected.stride()


def test_rolls_over_all_elements():
    x = torch.randn(3, 5)
    for shift in (-4, 0, 7, 15, 40):
        assert torch.equal(rolled(x, [shift]), x.roll(shift))
    assert rolled(x, [1], [0]) is NotImplemented


class Special(torch.nn.Module):
    """Special functions of numbers, and a matrix whose diagonals are written and whose elements are rolled."""

    def forward(self, x, matrix):
        doubled = matrix * 2
        doubled.diagonal(1).mul_(3)
        doubled.diagonal(-1).copy_(matrix[0, :3])
        return *(function(x) for function in FUNCTIONS), doubled.roll(5)


def test_special_functions_and_diagonals_are_imported(tmp_path):
    matrix = torch.randn(4, 6)
    program = torch.export.export(Special().eval(), (NUMBERS, matrix)).run_decompositions({})
    torch.export.save(program, tmp_path / "model.pt2")
    import_model(str(tmp_path / "model.pt2"), tmp_path / "model")
    results = at.compile(at.payload(str(tmp_path / "model")), scheduled=False)(NUMBERS.numpy(), matrix.numpy())
    *functions, written = (torch.from_numpy(each) for each in results.values())
    for theirs, got in zip(FUNCTIONS, functions, strict=True):
        assert_near(got, theirs, NUMBERS, 2e-6)
    np.testing.assert_array_equal(written, Special()(NUMBERS, matrix)[-1])
