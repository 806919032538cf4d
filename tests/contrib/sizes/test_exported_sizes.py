"""Programs of torch.export whose sizes are open: named by input and axis, within the ranges of their export."""

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from autotune.contrib.sizes.bounds import Bounds, parse_bounds  # noqa: E402
from autotune.contrib.sizes.open_model import open_model  # noqa: E402
from autotune.contrib.sizes.proof import Prover  # noqa: E402
from autotune.core.errors import PayloadError  # noqa: E402
from payload.importers.linalg import UnsupportedError  # noqa: E402
from payload.importers.pt2_sizes import at_sizes, open_sizes, tensors_of  # noqa: E402
from payload.programs import load_program  # noqa: E402

BOUNDS = (Bounds("x.0", 1, 4), Bounds("x.1", 1, 12))


class Shares(nn.Module):
    """Softmax over tokens that a mask leaves, of sums of each."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 5)

    def forward(self, x, mask):
        scores = self.layer(x).sum(-1)
        return torch.softmax(scores.masked_fill(mask == 0, -1e30), -1)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    batch, tokens = torch.export.Dim("batch", min=1, max=4), torch.export.Dim("tokens", min=1, max=12)
    given = torch.zeros(2, 5, 3), torch.ones(2, 5, dtype=torch.int64)
    both = {0: batch, 1: tokens}
    program = torch.export.export(Shares().eval(), given, dynamic_shapes={"x": both, "mask": both})
    target = tmp_path_factory.mktemp("program") / "shares.pt2"
    torch.export.save(program, target)
    return target


@pytest.fixture(scope="module")
def program(path):
    return load_program(path)


def test_open_sizes_are_named_by_input_and_axis(program):
    assert [(each.name, each.low, each.high) for each in open_sizes(program).values()] == [
        ("x.0", 1, 4),
        ("x.1", 1, 12),
    ]


def test_a_program_at_fixed_sizes_leaves_none_open(program):
    fixed = at_sizes(program, {"x.0": 1, "x.1": 7})
    assert {name: tuple(each.shape) for name, each in tensors_of(fixed).items()} == {"x": (1, 7, 3), "mask": (1, 7)}
    assert open_sizes(fixed) == {}
    assert at_sizes(fixed, {}) is fixed


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"x.0": 1}, "input x must have fixed sizes, dimension 1 is open; export it so, or give x.1=1"),
        ({"x.0": 1, "x.1": 13}, "x.1 must be from 1 to 12, as it was exported, got 13"),
        ({"tokens": 13}, "it must leave tokens open, it leaves x.0, x.1; leave that out"),
    ],
)
def test_sizes_that_it_was_not_exported_for_are_refused(program, sizes, words):
    with pytest.raises(UnsupportedError) as error:
        at_sizes(program, sizes)
    assert words in str(error.value)


def test_what_may_be_padded_and_split_is_proved_by_pytorch(path):
    prover = Prover(open_model(path, BOUNDS), BOUNDS, {})
    batch, tokens = map(prover.prove, BOUNDS)
    assert (batch.pad, batch.split, batch.results) == (True, True, (0,))
    assert (tokens.pad, tokens.split, tokens.masks) == (True, False, ("mask",))


@pytest.mark.parametrize(
    ("dims", "words"),
    [
        (["x.0=1..4"], "every open dimension of shares.pt2 must have bounds, x.1 has none; give --dim x.1="),
        (["x.0=1..8", "x.1=1..2"], "x.0 must lie in 1..4, as shares.pt2 was exported, got 1..8; give --dim x.0=1..4"),
        (["batch=1..4"], "--dim must name a dimension that shares.pt2 leaves open, x.0, x.1; got batch"),
    ],
)
def test_bounds_that_it_was_not_exported_for_are_refused(path, dims, words):
    with pytest.raises(PayloadError) as error:
        open_model(path, parse_bounds(dims))
    assert words in str(error.value)
