"""The mesh as a cost function: files of grids, programs, memory, and the verb."""

import json
from dataclasses import replace

import numpy as np
import pytest
import typer
from mesh_support import GRID, linear, mesh_cost
from typer.testing import CliRunner

from autotune.cli import verbs
from autotune.contrib.costs.cost_function import open_cost
from autotune.contrib.costs.mesh.grid import SHIPPED, find_grid, read_argument, read_grid, shipped_grids
from autotune.contrib.costs.mesh.program import STATE, WEIGHT, read_mesh_program
from autotune.contrib.costs.mesh.traffic import traffic_of
from autotune.contrib.costs.program_facts import read_program
from autotune.contrib.costs.tune import CostTrials, descend, tune_by_cost
from autotune.core.errors import MachineError
from autotune.core.listener import SILENT
from autotune.core.space import Knob, Space
from autotune.tuning.options import TuneOptions
from autotune.worker.loading.reading import open_payload

GOOD = (SHIPPED / "wse2.toml").read_text()
LAWS = {
    "rows = 750 -> rows = 0": "rows must be a whole number from 1",
    "rows = 750 -> rows = 1e9": "rows must be a whole number from 1",
    "memory = 49152 -> memory = 0": "memory must be a whole number from 1024",
    "memory = 49152 -> memory = true": "memory must be a whole number from 1024",
    "link_bytes = 4 -> link_bytes = -4": "link_bytes must be a whole number from 1",
    "element_bytes = 2 -> element_bytes = 9": "element_bytes must be a whole number from 0 to 8",
    "element_bytes = 2 -> program = 49152": "program must be less than memory",
    "hertz = 1_100_000_000 -> herz = 3": "got herz",
    "hertz = 1_100_000_000 -> ": "it must say hertz",
    "format_version = 1 -> format_version = 2": "format_version must be 1",
    'name = "wse2" -> name = "\\u001b"': "name must be one line of text",
    "format_version = 1 -> = = 1": "must describe a grid",
}
WRONG = {
    "nosuch": "a grid must be one of plain, wse2, a size such as 64x64, or a file",
    "": "a grid must be one of",
    "0x4": "a grid must be one of",
    "4x4,memory=many": "memory must be a whole number, such as 48K; got 'many'",
    "4x4,memory=0": "memory must be a whole number from 1024",
    "4x4,batch=0": "batch must be a whole number from 1",
    "4x4,colour=3": "figures of a grid are rows, columns",
    "4x4,": "figures of a grid are rows, columns",
    "nosuch.toml": "a grid's file must be readable TOML",
}
MODEL = "gpt,d_model=16,heads=2,d_ff=32,vocab=17,seq=5,layers=3"


@pytest.mark.parametrize("name", shipped_grids())
def test_a_shipped_grid_is_named_as_its_file_and_says_where_its_figures_are_from(name):
    grid = shipped_grids()[name]
    assert (SHIPPED / f"{name}.toml").exists()
    assert len(grid.source) > 20


@pytest.mark.parametrize(("change", "law"), LAWS.items())
def test_a_file_that_breaks_a_law_is_refused_with_the_law_and_the_file(change, law):
    before, _, after = change.partition(" -> ")
    assert before in GOOD
    with pytest.raises(MachineError) as refused:
        read_grid(GOOD.replace(before, after, 1), "mine.toml")
    assert law in str(refused.value)
    assert "mine.toml" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("argument", "law"), WRONG.items())
def test_an_argument_that_names_no_grid_is_refused_in_a_line(argument, law):
    with pytest.raises(MachineError, match=law.replace("(", r"\(")):
        read_argument(argument)


def test_figures_behind_a_name_are_other_figures():
    grid, batch = read_argument("8x16,memory=48K,batch=5")
    assert (grid.rows, grid.columns, grid.memory, batch) == (8, 16, 48 << 10, 5)
    assert find_grid("wse2") == read_argument("wse2")[0]


def test_costs_are_plug_ins_and_the_measured_machine_is_one():
    assert open_cost("mesh:4x4").name == "mesh:4x4"
    with pytest.raises(MachineError, match="cost must be one of mesh; got 'gpu'"):
        open_cost("gpu")
    with pytest.raises(MachineError, match="a grid must be"):
        open_cost("mesh:4by4")


@pytest.mark.parametrize("function", ["forward", "decode"])
def test_a_model_keeps_all_of_its_weights_and_caches_and_needs_all_of_its_operations(function):
    payload = open_payload(f"{MODEL},function={function}")
    program = read_mesh_program(read_program(payload))
    for role in (WEIGHT, STATE):
        unread = sum(each.bytes for each in payload.arguments if each.role == role and each.name == "wpe")
        declared = sum(each.bytes for each in payload.arguments if each.role == role) - unread
        assert declared <= program.stored_bytes(role) <= declared + unread
    if function == "forward":  # that of a decode is of calls at several positions
        assert program.flops >= payload.flops
    assert len({unit.ops for unit in program.units}) < len(program.units) >= 3


def test_what_a_layer_reads_of_the_one_before_is_known_through_the_loop():
    program = read_mesh_program(read_program(open_payload(MODEL)))
    layer = program.units[1]
    assert layer.ops == program.units[2].ops
    outside = {access.source for op in layer.ops for access in program.ops[op].values} - set(layer.ops[:-1])
    assert outside == {layer.ops[-1]}
    assert any(access.moves for op in layer.ops for access in program.ops[op].stored)


def test_floats_take_no_more_bytes_than_a_core_has_for_them():
    facts = read_program(open_payload(MODEL))
    assert read_mesh_program(facts, 2).stored_bytes(WEIGHT) * 2 == read_mesh_program(facts).stored_bytes(WEIGHT)


@pytest.mark.parametrize("batch", [1, 4])
def test_memory_of_a_core_is_never_exceeded_and_what_is_kept_is_held_by_somebody(batch):
    layers = [linear(n, 4, 32, 32, source=n - 1 if n else None) for n in range(6)]
    grid = replace(GRID, memory=4 << 10)
    found = mesh_cost(*layers, grid=grid, batch=batch)
    assert found.starts
    for config in found.starts:
        simulation = found.simulation(config)
        assert max(simulation.memory) <= grid.memory
        area = simulation.regions[0].height * simulation.regions[0].width
        assert sum(simulation.memory) * area >= found.program.stored_bytes(WEIGHT)


def test_a_mapping_without_the_memory_costs_nothing_that_could_win():
    found = mesh_cost(linear(0, 4, 32, 32), grid=replace(GRID, memory=1500))
    whole = {**found.default, "matmul_4x32x32@0": "none,none"}
    assert found.seconds(whole) is None
    assert found.seconds(found.default) is not None


def test_a_model_that_fits_no_grid_says_what_it_needs_and_what_is_held():
    with pytest.raises(MachineError) as refused:
        _ = mesh_cost(linear(0, 1, 256, 256), grid=replace(GRID, memory=1024)).default
    assert "it needs weights of 262 KB, 16 cores of plain hold 16.4 KB" in str(refused.value)
    with pytest.raises(MachineError, match="the fullest core would need"):
        _ = mesh_cost(linear(0, 64, 8, 8), grid=replace(GRID, rows=1, columns=2, memory=1024)).default


def test_more_calls_in_a_pipeline_take_less_each_and_a_call_alone_no_less():
    layers = [linear(n, 4, 32, 32, source=n - 1 if n else None) for n in range(4)]
    one, many = mesh_cost(*layers), mesh_cost(*layers, batch=100)
    config = {**one.default, "regions": "2x2"}
    alone = one.seconds(config)
    assert many.seconds(config) < 100 * alone
    assert many.simulation(config).latency == alone


def test_a_wafer_of_three_quarters_of_a_million_cores_has_traffic_on_every_link_it_uses():
    grid = find_grid("wse2")
    found = mesh_cost(linear(0, 1, 4096, 4096), linear(1, 1, 4096, 4096, source=0), grid=grid)
    traffic = traffic_of(found.simulation(found.default))
    assert traffic.by_core.shape == (750, 994)
    assert np.count_nonzero(traffic.along) > 100_000
    assert traffic.busiest > 0


class Bowl:
    """A program cost with one best config."""

    space = Space((Knob("x", tuple(range(9))), Knob("y", tuple(range(9)))))
    default: dict = {"x": 0, "y": 0}  # noqa: RUF012 - as a protocol has it

    def seconds(self, config):
        return None if config["x"] == 8 else 1.0 + (config["x"] - 5) ** 2 + (config["y"] - 3) ** 2


def test_descent_ends_where_no_knob_helps_or_the_trials_are_spent():
    tried = CostTrials(Bowl(), SILENT)
    tried.ask(Bowl.default)
    descend(Bowl(), tried, 1000)
    assert tried.best == {"x": 5, "y": 3}
    assert None in tried.seconds
    short = CostTrials(Bowl(), SILENT)
    short.ask(Bowl.default)
    descend(Bowl(), short, 4)
    assert len(short.seconds) == 4


def test_a_search_is_the_same_for_the_same_seed_and_says_that_nothing_was_measured():
    payload, cost = open_payload(MODEL), open_cost("mesh:4x4,batch=3")
    found = [tune_by_cost(payload, cost, TuneOptions(trials=40, seed=1)) for _ in range(2)]
    assert found[0].tried == found[1].tried
    told = found[0].to_json()
    assert told["measured"] is False
    assert found[0].seconds == min(each for each in found[0].tried if each is not None)
    assert found[0].program.seconds(found[0].best) == found[0].seconds


def run(*words):
    return CliRunner().invoke(verbs.app, ["tune", *words])


def test_the_verb_writes_the_choice_and_its_pictures(tmp_path):
    done = run(MODEL, "--cost", "mesh:4x6", "--trials", "20", "--bundle", str(tmp_path / "out"), "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["cost"] == "mesh:4x6"
    assert told["best"]["memory"] <= told["best"]["grid"]["memory"]
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"chosen.json", "placement.png", "traffic.png", "timeline.png"}


@pytest.mark.parametrize(
    ("words", "law"),
    [
        (["--cost", "mesh:1x1,memory=1K"], "must fit the cores' memory: it needs weights of"),
        (["--cost", "mesh:9x"], "a grid must be one of"),
        (["--cost", "gpu"], "cost must be one of mesh"),
        (["--cost", "mesh:4x4", "--threads", "2"], "measures nothing"),
        (["--cost", "mesh:4x4", "--store", "s.journal"], "measures nothing"),
        (["--cost", "mesh:4x4", "--for", "neoverse-n1"], "--for runs something else"),
    ],
)
def test_what_cannot_be_is_refused(words, law, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["autotune", "tune", MODEL, *words])
    with pytest.raises((MachineError, typer.BadParameter)) as refused:
        CliRunner().invoke(verbs.app, ["tune", MODEL, *words], catch_exceptions=False, standalone_mode=False)
    assert law in str(refused.value)
    assert not list(tmp_path.iterdir())
