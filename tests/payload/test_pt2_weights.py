"""Weights of exported programs are mapped where they lie in their archive."""

import subprocess
import sys
import zipfile

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from autotune.core.host.tensor_file import is_mapped, map_entries, read_header  # noqa: E402
from autotune.core.plugs.imported import DESCRIPTION, ORACLE, TEXT, WEIGHTS  # noqa: E402
from autotune.worker.loading.reading import open_payload  # noqa: E402
from payload.programs import ProgramFile  # noqa: E402

CONVERT = """import sys
from pathlib import Path
from payload.importers import folder
folder.MOST_COPIED = 0
from payload.importers.pt2_convert import convert
convert(Path(sys.argv[1]), Path(sys.argv[2]), {})
"""


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.linear = torch.nn.Conv2d(3, 4, 3), torch.nn.Linear(4, 5)
        self.narrow = torch.nn.Parameter(torch.randn(5).bfloat16())
        self.turned = torch.nn.Parameter(torch.randn(5, 2).t())
        self.register_buffer("scale", torch.rand(5))

    def forward(self, x):
        y = self.linear(self.conv(x).mean((2, 3))) * self.scale + self.narrow.float()
        return y @ self.turned.t()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model, and the file of its program."""
    torch.manual_seed(0)
    model, path = Layers().eval(), tmp_path_factory.mktemp("pt2") / "model.pt2"
    torch.export.save(torch.export.export(model, (torch.randn(1, 3, 6, 6),)), path)
    return model, path


def compressed(path, target):
    """The same archive, compressed."""
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in source.namelist():
            packed.writestr(name, source.read(name))
    return target


def test_tensors_of_an_archive_are_mapped(saved):
    model, path = saved
    file = ProgramFile(path)
    for name, tensor in file.load().state_dict.items():
        assert torch.equal(tensor, model.state_dict()[name])
        if name in ("conv.weight", "linear.weight", "linear.bias"):
            array = tensor.detach().numpy()
            np.testing.assert_array_equal(map_entries({name: file.entry_of(array)})[name], array)
    assert file.entry_of(np.ones(3)) is None


def test_a_compressed_archive_is_copied(saved, tmp_path):
    model, path = saved
    file = ProgramFile(compressed(path, tmp_path / "model.pt2"))
    for name, tensor in file.load().state_dict.items():
        assert torch.equal(tensor, model.state_dict()[name])
        assert tensor.dtype is torch.bfloat16 or file.entry_of(tensor.detach().numpy()) is None


def test_a_large_program_and_its_weights_stay_in_their_file(saved, tmp_path):
    model, path = saved
    subprocess.run([sys.executable, "-c", CONVERT, path, tmp_path / "large"], check=True)
    assert {each.name for each in (tmp_path / "large").iterdir()} == {TEXT, DESCRIPTION, WEIGHTS, ORACLE}
    assert len(read_header(tmp_path / "large" / WEIGHTS)) <= 2  # what is turned, and what the importer computed
    payload = open_payload(str(tmp_path / "large"))
    assert payload.model == str(path)
    held = payload.make_inputs(0)
    weights = [held[each.name] for each in payload.arguments if each.role == "weight"]
    assert sum(map(is_mapped, weights)) >= 4
    kept = {tuple(array.ravel()[:2].tolist()) for array in weights}
    assert tuple(model.linear.weight.detach().numpy().ravel()[:2].tolist()) in kept
