"""Transposes in squares, and in blocks beyond L2: every config, of sizes that squares and blocks do not divide."""

from dataclasses import replace

import numpy as np
import pytest
from tuning_support import loaded, run_steps, write_step

from autotune.compiler.tasks.partition import partition
from autotune.core.host.machine import this_machine
from autotune.registry import load_family

SMALL = replace(this_machine(), l2_bytes=1 << 16)


def transpose_text(shape, order):
    result = [shape[d] for d in order]
    source, target = ("x".join(map(str, sizes)) for sizes in (shape, result))
    return f"""func.func @f(%x: tensor<{source}xf32>) -> tensor<{target}xf32> {{
  %e = tensor.empty() : tensor<{target}xf32>
  %r = linalg.transpose ins(%x : tensor<{source}xf32>) outs(%e : tensor<{target}xf32>) permutation = {list(order)}
  return %r : tensor<{target}xf32>
}}"""


CASES = [((333, 37), (1, 0)), ((3, 301, 21), (2, 0, 1)), ((290, 2, 19), (2, 1, 0))]


@pytest.mark.parametrize(("shape", "order"), CASES)
def test_every_config_moves_each_element_once(shape, order, tmp_path):
    payload, family = loaded(tmp_path, transpose_text(shape, order)), load_family("transpose")
    (task,) = (parts := partition(payload)).tasks
    inputs = payload.make_inputs(0)
    (x,) = inputs.values()
    space = family.space(task, SMALL)
    assert "block" in [knob.name for knob in space.knobs]
    for config in space.configs():
        (y,) = run_steps(payload, parts, inputs, [write_step(task, family, config, SMALL)], level=0)
        np.testing.assert_array_equal(y, np.transpose(x, order), err_msg=str(config))


def test_blocks_are_the_default_where_they_stay_in_l2_and_the_whole_does_not(tmp_path):
    defaults = {}
    for name, shape in {"small": (64, 64), "narrow": (600, 20), "wide": (400, 300)}.items():
        folder = tmp_path / name
        folder.mkdir()
        (task,) = partition(loaded(folder, transpose_text(shape, (1, 0)))).tasks
        defaults[name] = load_family("transpose").default(task, SMALL).get("block")
    assert defaults == {"small": None, "narrow": 256, "wide": 0}
