"""PyTorch as an oracle beside the decomposed program's: of the user's own program, as it was exported."""

import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from payload.importers.linalg import UnsupportedError  # noqa: E402
from payload.importers.pt2_eager import check_program, run_program  # noqa: E402

X = np.random.default_rng(0).uniform(-2, 2, (4, 6)).astype(np.float32)


class Scaled(torch.nn.Module):
    """A layer times a number among the arguments, and another result that is a tensor."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(6, 5)

    def forward(self, x, factor, *, offset):
        return {"y": self.layer(x) * factor + offset, "places": x.argmax(-1)}


class Drawn(torch.nn.Module):
    def forward(self, x):
        return x + torch.rand_like(x)


def exported(model, *given, **named):
    return torch.export.export(model.eval(), given, named)


def test_a_program_runs_with_settings_and_keywords_and_gives_all_tensors():
    torch.manual_seed(0)
    model, offset = Scaled(), np.float32([1, 2, 3, 4, 5])
    program = exported(model, torch.from_numpy(X), 3.0, offset=torch.from_numpy(offset))
    y, places = run_program(program, [X, offset])
    weight, bias = (each.detach().numpy() for each in (model.layer.weight, model.layer.bias))
    np.testing.assert_allclose(y, 3 * (X @ weight.T + bias) + offset, rtol=1e-5)
    np.testing.assert_array_equal(places, X.argmax(-1))


def test_what_the_oracle_computes_otherwise_than_the_program_is_refused():
    program = exported(torch.nn.ReLU(), torch.from_numpy(X))
    check_program(program, [X], [np.maximum(X, 0).astype(np.float64)], {})
    with pytest.raises(UnsupportedError, match=r"result0 must be what PyTorch computes .* by up to 0\.0\d+ "):
        check_program(program, [X], [np.maximum(X, 0) * 1.02], {})
    with pytest.raises(UnsupportedError, match=r"its shape must be \(4, 6\), it is \(6, 4\)"):
        check_program(program, [X], [np.maximum(X, 0).T], {})


def test_a_program_that_draws_numbers_has_no_second_oracle():
    assert run_program(exported(Drawn(), torch.from_numpy(X)), [X]) is None


def test_an_importer_that_reads_a_program_wrongly_is_refused(tmp_path):
    """Its first oracle agrees with it, as that computes what it made. torch-mlir needs a process of its own."""
    path = tmp_path / "model.pt2"
    torch.export.save(exported(torch.nn.GELU(approximate="tanh"), torch.from_numpy(X)), path)
    wrong = (
        "import sys, torch; from pathlib import Path; from payload.importers import pt2_convert as c; "
        "c.gelu = lambda x, approximate='none': torch.relu(x); c.convert(*map(Path, sys.argv[1:]), {})"
    )
    done = subprocess.run(
        [sys.executable, "-c", wrong, path, tmp_path / "wrong"], capture_output=True, text=True, check=False
    )
    assert "UnsupportedError: result0 must be what PyTorch computes of the program as it is" in done.stderr
    assert not (tmp_path / "wrong").exists()


class Centred(torch.nn.Module):
    """Numbers less their mean, which add up to nothing but rounding."""

    def forward(self, x):
        return (x - x.mean(-1, keepdim=True)).mean(-1)


def test_sums_that_cancel_may_differ_by_the_rounding_of_the_program_itself():
    program = exported(Centred(), torch.from_numpy(X))
    wide = X.astype(np.float64)
    check_program(program, [X], [(wide - wide.mean(-1, keepdims=True)).mean(-1)], {})
    with pytest.raises(UnsupportedError, match="it differs"):
        check_program(program, [X], [wide.mean(-1)], {})
