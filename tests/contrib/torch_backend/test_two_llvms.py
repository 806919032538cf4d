"""A process that has compiled something here may compile by PyTorch, whichever of the two was imported first."""

import subprocess
import sys

import pytest

pytest.importorskip("torch")
BOTH = """
import {first}
import autotune as at
import numpy as np
import torch

product = at.compile("matmul,m=8,n=8,k=8")
product(np.ones((8, 8), "f4"), np.ones((8, 8), "f4"))
print(torch.compile(lambda x: x * 2 + 1, backend="{backend}")(torch.ones(2)).tolist())
"""


@pytest.mark.parametrize("first", ["torch", "numpy"])
@pytest.mark.parametrize("backend", ["eager", "autotune"])
def test_torch_compiles_after_mlir_was_loaded(first, backend, tmp_path):
    text = BOTH.format(first=first, backend=backend)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "[3.0, 3.0]"
