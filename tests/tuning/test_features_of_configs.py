"""What samplers that model are told: features of configs."""

import math

import pytest
from tuning_support import MACHINES, random_configs

from autotune.core.plugs.guarded_family import GuardedFamily
from autotune.registry import family_for
from autotune.tuning.samplers.features import features_of, knob_features
from autotune.worker.loading.reading import open_payload, partition
from schedules.matmul import MATMUL


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("spec", ["nano", "matmul,m=253,n=67,k=129", "attention,heads=2,seq=64,d=16,causal=1"])
def test_features_are_finite_and_the_same_for_every_config_of_a_task(spec, machine):
    for task in partition(open_payload(spec)).tasks:
        family = family_for(task)
        describe = features_of(task, family, machine)
        known = {name for name in describe(family.default(task, machine)) if "=" not in name}
        for config in random_configs(family, task, machine, 8, 0):
            found = describe(config)
            assert {name for name in found if "=" not in name} == known
            assert all(math.isfinite(value) for value in found.values())


def test_footprints_grow_by_one_where_a_tile_doubles():
    (task,) = partition(open_payload("matmul,m=512,n=512,k=512")).tasks
    machine = MACHINES["avx2"]
    config = {**MATMUL.default(task, machine), "tile_k": 128}
    small, large = (MATMUL.features(task, {**config, "tile_k": k}, machine) for k in (128, 256))
    for name in ("strip_in_l1", "panel_in_l1", "block_in_l2", "rows_in_l2"):
        assert large[name] - small[name] == pytest.approx(1)
    assert large["passes_c"] - small["passes_c"] == pytest.approx(-1)


def test_a_guarded_family_without_features_has_its_knobs():
    (task,) = partition(open_payload("gelu,rows=8,cols=64")).tasks
    family, machine = GuardedFamily(family_for(task)), MACHINES["sse"]
    config = family.default(task, machine)
    assert features_of(task, family, machine)(config) == knob_features(config)
    (task,) = partition(open_payload("matmul,m=64,n=64,k=64")).tasks
    assert "fmas_a_load" in features_of(task, GuardedFamily(MATMUL), machine)(MATMUL.default(task, machine))
