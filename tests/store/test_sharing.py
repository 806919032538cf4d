"""Real sweeps: tuners that share a store, meet duplicates; and a trial that is reproduced."""

import os
import random
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import islice

import pytest
from byte_support import QUANTIZED, convolution_of_bytes, function_of_bytes, softmax_of_bytes, sums_of_windows
from listener_support import Recorder
from tuning_support import contraction_payload, product_of_bytes, tensor, tensor_payload

from autotune.bundles.reproduce import reproduce
from autotune.compiler.tasks.partition import partition
from autotune.compiler.tasks.payload_file import read_payload
from autotune.contrib.selftest.figures import Direct, open_search, product_task
from autotune.core.errors import StoreError
from autotune.core.evaluator import OneSlot
from autotune.core.host.machine import this_machine
from autotune.core.payload import Argument
from autotune.core.plugs.family import Family
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.space import Knob, Space
from autotune.core.trial import RIGHT, Trial
from autotune.registry import families, load_payload
from autotune.store.store import Store
from autotune.tuning.stages.running import run_on_slots
from autotune.tuning.stages.summary import knobs_without_effect
from autotune.tuning.stages.task_search import SearchSetting, TaskSearch
from autotune.tuning.tune import TuneOptions
from autotune.worker.worker import Worker

TASK = product_task()
TINY = partition(contraction_payload(5, 7, 3)).tasks[0]
WHOLE = (  # groups and single ops
    "attention,heads=2,seq=64,d=32,causal=1",
    "softmax,rows=64,cols=96",
    "gelu,rows=32,cols=64",
    "nano",
    "nano,function=decode",
)


@pytest.fixture(scope="module")
def worker():
    with Worker(30.0) as shared:
        yield shared


def recorded(path):
    with Store.open(path) as store:
        return [trial for sweep in store.sweeps() for trial in sweep.recorded]


@pytest.mark.parametrize("kind", ["file", "server"])
def test_two_tuners_on_one_store_share_the_work(tmp_path, kind, request):
    path, children = tmp_path / "store.journal" if kind == "file" else request.getfixturevalue("postgres_url"), []
    for _ in range(2):
        if (child := os.fork()) == 0:
            try:
                with Store.open(path) as store:
                    search = open_search(store, TINY, this_machine(), 0)
                    while len(search.sweep.recorded) < 12 and search.step(Direct()) is not None:
                        pass
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    keys = [trial.key for trial in recorded(path)]
    assert 12 <= len(keys) <= 13
    assert len(set(keys)) == len(keys)


def test_two_tuners_of_one_store_have_one_budget_and_choose_from_all_trials(tmp_path):
    path, machine = tmp_path / "store.journal", this_machine()

    class Other(Recorder):
        """Another tuner works while this one has its third trial."""

        def trial(self, trial, counted, best):
            super().trial(trial, counted, best)
            self.counted = counted
            if len(self.trials) == 3:
                with Store.open(path) as theirs:
                    other = TaskSearch.open(
                        TINY,
                        search.family,
                        SearchSetting(machine, theirs, "selftest-0", "random", 7),
                    )
                    run_on_slots([other], TuneOptions(trials=4), OneSlot(Direct()))

    heard = Other()
    with Store.open(path) as store:
        search = open_search(store, TINY, machine, 0)
        run_on_slots([search], TuneOptions(trials=10), OneSlot(Direct()), heard)
    ran = {trial.key for trial in recorded(path) if trial.outcome != "duplicate"}
    assert len(ran) == heard.counted == 10
    assert {trial.key for trial in search.trials} == {trial.key for trial in recorded(path)}


def test_interrupted_search_goes_on_in_the_same_order(tmp_path):
    def configs(path, counts):
        seen = []
        for count in counts:
            with Store.open(path) as store:
                search = open_search(store, TINY, this_machine(), 3)
                seen = [search.step(Direct())[0].config for _ in range(count)]
        return seen

    assert configs(tmp_path / "whole", [6]) == configs(tmp_path / "pieces", [2, 4, 6])


class Twins(Family):
    """A family of which one knob is only a comment, one writes the same code otherwise, and one matters."""

    name, fallback = "twins", False

    def covers(self, task):
        return True

    def space(self, task, machine):
        return Space((Knob("comment", (1, 2)), Knob("unroll", (1, 64)), Knob("tile", (2, 3))))

    def default(self, task, machine):
        return {"comment": 1, "unroll": 1, "tile": 2}

    def build(self, task, config, machine):
        tiled = f"""// {config["comment"]}
%t, %l = transform.structured.tile_using_for %op tile_sizes [{config["tile"]}]
  : (!transform.any_op) -> (!transform.any_op, !transform.any_op)"""
        again = (
            '\ntransform.apply_cse to %l : !transform.any_op\n%m = transform.structured.match ops{["scf.for"]} in %l'
        )
        return tiled if config["unroll"] == 1 else f"{tiled}{again} : (!transform.any_op) -> !transform.any_op"

    def rewrites(self, task, config):
        return Rewrites()


def test_same_code_is_never_timed_twice_and_dead_knobs_are_named(tmp_path, worker):
    with Store.open(tmp_path / "s") as store:
        search = TaskSearch.open(TASK, Twins(), SearchSetting(this_machine(), store, "p", "grid", 0))
        trials = [trial for trial, _ in iter(lambda: search.step(worker), None)]
    firsts = {trial.key: trial for trial in trials if trial.outcome in RIGHT}
    assert Counter(trial.config["tile"] for trial in firsts.values()) == {2: 1, 3: 1}
    assert Counter(trial.outcome for trial in trials)["duplicate"] == 6
    for trial in trials:
        if trial.outcome == "duplicate":
            assert firsts[trial.twin].config["tile"] == trial.config["tile"]
            assert trial.samples is None
            assert "same IR" in trial.diagnostic
    assert knobs_without_effect(trials) == ["comment", "unroll"]


def test_knob_is_not_called_dead_on_little_evidence():
    trials = [Trial("t", i, {"a": i, "b": 0}, "duplicate" if i else "ok", f"k{i}", "f", twin="k0") for i in range(2)]
    assert knobs_without_effect(trials) == []


@pytest.mark.parametrize("family", families(), ids=lambda family: family.name)
def test_no_knob_of_our_families_is_dead(family):
    if family.lacking:
        pytest.skip(family.lacking)
    machine, dice = this_machine(), random.Random(0)
    covered = [task for task in tasks_of_all_kinds() if family.covers(task)]
    assert covered
    alive, declared = set(), set()
    for task in covered:
        space = family.space(task, machine)
        turned = {knob.name for knob in space.knobs if len(knob.values) > 1}
        declared |= turned
        drawn = ({knob.name: dice.choice(knob.values) for knob in space.knobs} for _ in range(2000))
        for config in islice((config for config in drawn if space.broken_constraint(config) is None), 20):
            if turned <= alive:
                break
            script = family.build(task, config, machine), family.rewrites(task, config)
            for knob in space.knobs:
                for value in knob.values:
                    other = {**config, knob.name: value}
                    if knob.name not in alive and space.broken_constraint(other) is None:
                        changed = family.build(task, other, machine), family.rewrites(task, other)
                        alive |= {knob.name} if changed != script else set()
    assert declared - alive == set()


@cache
def tasks_of_all_kinds():
    """Some tasks of every family."""
    tasks = [TASK, *partition(contraction_payload(96, 160, 128, role_b="weight")).tasks]
    in_blocks, many_rows = (load_payload(f"qmatmul,m={rows},n=64,k=256") for rows in (1, 16))
    whole_numbers = product_of_bytes(160, 256, 128)
    for payload in (window_payload(), turned_payload(), strided_payload(), in_blocks, many_rows, whole_numbers):
        tasks += partition(payload).tasks
    for spec in WHOLE:
        tasks += partition(load_payload(spec)).tasks
    weights = [[1 + (place + channel) % 7 for channel in range(64)] for place in range(9)]
    windows = sums_of_windows((6, 40), (3, 3), weights), convolution_of_bytes(40, 64, 96)
    quantized = function_of_bytes((64, 80), QUANTIZED, given="f32")
    for text in (function_of_bytes((64, 80)), quantized, softmax_of_bytes(64, 80, 3), *windows):
        tasks += partition(read_payload("bytes.mlir", text)).tasks
    return tasks


def window_payload():
    """A convolution with channels last, whose kernel is a weight."""
    shapes = (2, 8, 9, 5), (3, 3, 5, 64), (2, 6, 7, 64)
    x, kernel, y = map(tensor, shapes)
    roles = zip("xky", ("input", "weight", "output"), shapes, strict=True)
    body = f"""%zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : {y}
    %zeros = linalg.fill ins(%zero : f32) outs(%empty : {y}) -> {y}
    %result = linalg.conv_2d_nhwc_hwcf ins(%x, %k : {x}, {kernel}) outs(%zeros : {y}) -> {y}"""
    return tensor_payload("windows", [Argument(name, role, shape) for name, role, shape in roles], body)


def turned_payload():
    """A transpose."""
    body = f"""%empty = tensor.empty() : {tensor((40, 24))}
    %result = linalg.transpose ins(%x : {tensor((24, 40))}) outs(%empty : {tensor((40, 24))}) permutation = [1, 0]"""
    return tensor_payload("turned", [Argument("x", "input", (24, 40)), Argument("y", "output", (40, 24))], body)


def strided_payload():
    """Every second element of planes and the one behind it, added."""
    shape, out = (4, 30, 128), (4, 30, 64)
    first, second, own = (f"affine_map<(c, h, w) -> (c, h, {place})>" for place in ("w * 2", "w * 2 + 1", "w"))
    body = f"""%empty = tensor.empty() : {tensor(out)}
    %result = linalg.generic {{indexing_maps = [{first}, {second}, {own}],
        iterator_types = ["parallel", "parallel", "parallel"]}}
      ins(%x, %x : {tensor(shape)}, {tensor(shape)}) outs(%empty : {tensor(out)}) {{
    ^bb0(%a: f32, %b: f32, %o: f32):
      %sum = arith.addf %a, %b : f32
      linalg.yield %sum : f32
    }} -> {tensor(out)}"""
    return tensor_payload("strided", [Argument("x", "input", shape), Argument("y", "output", out)], body)


def test_trial_is_reproduced_from_its_key_as_files_and_as_an_outcome(tmp_path, worker):
    spec = "matmul,m=9,n=7,k=5"
    path, folder = tmp_path / "s", tmp_path / "again"
    (task,) = partition(load_payload(spec)).tasks
    family = next(family for family in families() if family.covers(task))
    with Store.open(path) as store:
        search = TaskSearch.open(task, family, SearchSetting(this_machine(), store, spec, "tpe", 0))
        trial, _ = search.step(worker)
    found = reproduce(path, trial.key[:8], folder, 30.0)
    assert (found.is_same, found.changed) == (True, "")
    assert {file.name for file in folder.iterdir()} == {"payload.mlir", "schedule.mlir", "trial.json", "README"}
    assert trial.key[:8] in (folder / "README").read_text()
    with pytest.raises(StoreError, match="beginning of one key"):
        reproduce(path, "nothing", folder, 30.0)


def test_reproduction_tells_what_changed(tmp_path, worker):
    spec = "matmul,m=9,n=7,k=5"
    with Store.open(tmp_path / "s") as store:
        task = partition(load_payload(spec)).tasks[0]
        family = next(family for family in families() if family.covers(task))
        search = TaskSearch.open(task, family, SearchSetting(this_machine(), store, spec, "tpe", 0))
        trial, _ = search.step(worker)
        search.sweep.add(replace(trial, key="f" * 64, outcome="crashed", samples=None), search.space)
    found = reproduce(tmp_path / "s", "ffff", tmp_path / "again", 30.0)
    assert "not those of the record" in found.changed
    assert not found.is_same
