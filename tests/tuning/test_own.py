"""A user's own script, tuned: end to end, by every sampler, again, edited; its bundle and what reads it."""

import json
import time

import pytest
from bundle_support import no_care
from listener_support import Recorder
from own_support import HANDLE, MATCH, SIZE, THREE_WAYS, knob, own_module, read, space_of, tiled
from tuning_support import tensor, tensor_payload

import autotune as at
from autotune.bundles.regress import regress
from autotune.bundles.regress_options import RegressOptions
from autotune.bundles.replay import replay
from autotune.bundles.reproduce import reproduce
from autotune.contrib.explain.ablation import leave_one_out
from autotune.core.errors import ScheduleError
from autotune.core.evaluator import OneSlot
from autotune.core.listener import SILENT, NoteKeeper
from autotune.core.payload import Argument
from autotune.reports.show import show
from autotune.store.bundle import read_bundle
from autotune.store.store import Store
from autotune.store.store import trials as frame_of
from autotune.tuning.options import TuneOptions
from autotune.tuning.samplers.search import Search, samplers
from autotune.tuning.stages.opening import Entrants, Start, open_searches, setting_of
from autotune.tuning.stages.running import run_on_slots
from autotune.tuning.stages.user_script import open_own, parts_of
from autotune.tuning.tune import tune
from autotune.worker.loading.reading import ScriptFile, read_script, script_apart
from autotune.worker.worker import Worker

PAYLOAD = at.payload("matmul,m=32,n=48,k=16")
SCRIPT = own_module(THREE_WAYS)


def tuned(folder, text=SCRIPT, *, payload=PAYLOAD, trials=3, tasks="*", sampler="random"):
    keeper = NoteKeeper()
    options, start = (
        TuneOptions(trials=trials, sampler=sampler, task=tasks),
        Start(script=ScriptFile("mine.mlir", text)),
    )
    with no_care(), Store.open(folder / "store.journal") as store:
        return tune(payload, store, folder / "bundle", options, keeper, start=start), keeper.notes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    tuned(folder)
    return folder


@pytest.mark.parametrize("sampler", samplers())
def test_every_sampler_tries_each_config_that_differs_and_obeys_once(sampler):
    script = read(SCRIPT)
    search = Search(space_of(SCRIPT), script.default(at.this_machine()), sampler=sampler)
    asked = []
    while (config := search.ask()) is not None:
        search.tell(config, 1.0 + len(asked))
        asked.append(tuple(config.items()))
    assert len(asked) == len(set(asked))
    assert set(asked) == {tuple(config.items()) for config in space_of(SCRIPT).configs()}


def test_the_bundle_holds_the_script_as_it_was_and_as_it_was_chosen(folder):
    bundle = read_bundle(folder / "bundle")
    assert bundle.texts["open.mlir"] == SCRIPT
    assert "transform.tune" not in bundle.script
    assert bundle.script == bundle.texts["schedules/whole.mlir"].replace(
        "\n// 1 op(s), run 1 time(s) a call", "", 1
    ) or ("run 1 time(s) a call" in bundle.script)
    assert bundle.tagged == PAYLOAD.text
    assert bundle.manifest.script.source == "mine.mlir"
    assert bundle.manifest.tasks["whole"].schedule == "script"
    command = bundle.manifest.command
    assert command[command.index("--schedule") + 1] == "mine.mlir"


def test_the_bundle_replays_and_regresses(folder):
    with no_care():
        assert replay(folder / "bundle").is_right
        (finding,) = regress([folder / "bundle"], RegressOptions(quick=True, factor=100.0))
    assert finding.verdict in ("ok", "faster", "inconclusive")


def test_the_same_command_again_runs_no_trial(folder):
    result, _ = tuned(folder)
    assert result.evaluated == 0


def test_an_edited_script_is_another_sweep_and_that_is_said(tmp_path):
    tuned(tmp_path, trials=1)
    result, _ = tuned(tmp_path, SCRIPT.replace("ub = 48", "ub = 32"), trials=1)
    assert result.evaluated == 1
    assert any("1 trials in the store are of another" in note and "script" in note for note in result.notes)


def test_a_trial_of_the_store_is_reproduced(folder):
    key = frame_of(folder / "store.journal")["key"].iloc[-1]
    found = reproduce(folder / "store.journal", key[:12], folder / "trial", 60.0)
    assert found.is_same
    assert found.changed == ""
    assert "transform.tune" not in (folder / "trial" / "schedule.mlir").read_text()


def test_explain_takes_back_one_choice_at_a_time(folder):
    bundle = read_bundle(folder / "bundle")
    config, default = bundle.manifest.tasks["whole"].config, read(SCRIPT).default(at.this_machine())
    variants = leave_one_out(bundle, at.this_machine())
    assert variants[0].name == "the winner"
    assert variants[-1].name == "search"
    changed = {f"{name}={value}" for name, value in config.items() if default[name] != value}
    assert {variant.name for variant in variants[1:-1]} <= changed


@pytest.mark.parametrize("stage", ["space", "tasks", "schedule", "scheduled", "lowered"])
def test_show_knows_a_bundle_of_a_script(stage, folder):
    assert show(str(folder / "bundle"), stage).text


def test_show_says_what_may_be_chosen(tmp_path):
    (tmp_path / "mine.mlir").write_text(SCRIPT)
    lines = show("matmul,m=32,n=48,k=16", "space", schedule=tmp_path / "mine.mlir").text.splitlines()
    assert lines[0].endswith("mine.mlir: 5 knobs, 1 constraint; 72 combinations, 25 distinct and valid")
    assert lines[1].split() == ["knob", "default", "values", "counts", "where", "line"]
    assert lines[2].split() == ["tile_m", "8", "4", "8", "everywhere", "5"]
    assert lines[6].split() == ["unroll", "2", "2", "4", "vectors=1", "23"]
    assert lines[7] == "constraint: tile_m * tile_n <= 256 (line 8)"


def test_what_finds_nothing_is_said_and_is_no_failure(tmp_path):
    nothing = MATCH.replace("linalg.matmul", "linalg.batch_matmul").replace("%op", "%none")
    result, notes = tuned(
        tmp_path, own_module(f'{nothing}\ntransform.annotate %none "x" : {HANDLE}\n{tiled(8, 0)}'), trials=1
    )
    assert "mine.mlir:3:13: transform.structured.match finds nothing in matmul,m=32,n=48,k=16" in notes
    assert result.trials == {"ok": 1}


def test_a_script_that_does_nothing_is_said(tmp_path):
    _, notes = tuned(tmp_path, own_module(MATCH), trials=1)
    assert "mine.mlir changes nothing in matmul,m=32,n=48,k=16" in notes


def test_a_script_that_consumes_its_payload_and_leaves_tensors_is_said(tmp_path):
    body = f"""%funcs = transform.structured.match ops{{["func.func"]}} in %module : ({HANDLE}) -> {HANDLE}
    %same = transform.apply_registered_pass "canonicalize" to %module : ({HANDLE}) -> {HANDLE}"""
    with pytest.raises(ScheduleError):
        tuned(tmp_path, own_module("transform.nonsense"), trials=1)
    _, notes = tuned(tmp_path, own_module(body, mode="consumed"), trials=1)
    assert any("so that it must bufferize all of it; linalg.fill, linalg.matmul is left on tensors" in n for n in notes)


def test_a_config_that_fails_is_told_with_its_place(tmp_path):
    body = f"""{knob("rows", "[6, 8]")}{tiled("%rows", 0)}
    transform.structured.vectorize %tile : {HANDLE}"""
    tuned(tmp_path, own_module(body), trials=2, sampler="grid")
    frame = frame_of(tmp_path / "store.journal")
    (failed,) = frame[frame["outcome"] == "transform-failed"]["diagnostic"]
    assert failed.startswith("mine.mlir:7:5: transform.structured.vectorize: Attempted to vectorize")


ONE = own_module(
    f"""{knob("rows", "[4, 8]")}
    %tile, %loop = transform.structured.tile_using_for %op tile_sizes [%rows]
      : ({HANDLE}, {SIZE}) -> ({HANDLE}, {HANDLE})""",
    name="tile",
    argument="%op",
    mode="consumed",
)


def product(name, a, b, sizes):
    """A product into zeros."""
    m, n, k = sizes
    left, right, out = tensor((m, k)), tensor((k, n)), tensor((m, n))
    return f"""%{name}_e = tensor.empty() : {out}
    %{name}_z = linalg.fill ins(%zero : f32) outs(%{name}_e : {out}) -> {out}
    %{name} = linalg.matmul ins(%{a}, %{b} : {left}, {right}) outs(%{name}_z : {out}) -> {out}"""


def test_a_script_of_one_op_serves_the_tasks_it_is_for_beside_families(tmp_path):
    shapes = {"a": (8, 16), "b": (16, 24), "c": (24, 16), "out": (8, 16)}
    arguments = [Argument(name, "output" if name == "out" else "input", shape) for name, shape in shapes.items()]
    both = product("x", "a", "b", (8, 24, 16)), product("result", "x", "c", (8, 16, 24))
    path = tmp_path / "two.mlir"
    path.write_text(tensor_payload("two", arguments, "\n    ".join(["%zero = arith.constant 0.0 : f32", *both])).text)
    payload = at.payload(str(path))
    tags = [task.tag for task in at.tasks(payload)]
    assert len(tags) == 2
    chosen = tags[:1]
    result, _ = tuned(tmp_path, ONE, payload=payload, trials=len(tags), tasks=chosen[0])
    bundle = read_bundle(tmp_path / "bundle")
    used = {tag: task.schedule for tag, task in bundle.manifest.tasks.items()}
    assert [tag for tag, family in used.items() if family == "script"] == chosen[:1]
    assert result.max_error < 1e-3
    with no_care():
        assert replay(tmp_path / "bundle").is_right


def matching(size, name="wide"):
    """A sequence that takes products with at least so many columns."""
    return f"""transform.named_sequence @{name}(%op: {HANDLE} {{transform.readonly}}) -> {HANDLE} {{
    transform.match.operation_name %op ["linalg.matmul"] : {HANDLE}
    %columns = transform.match.structured %op : ({HANDLE}) -> {SIZE} {{
    ^bb0(%it: {HANDLE}):
      %n = transform.match.structured.dim %it[1] : ({HANDLE}) -> {SIZE}
      transform.match.structured.yield %n : {SIZE}
    }}
    %least = transform.param.constant {size} : i64 -> {SIZE}
    transform.match.param.cmpi ge %columns, %least : {SIZE}
    transform.yield %op : {HANDLE}
  }}
  """


def with_matchers(*matchers):
    return ONE.replace("transform.named_sequence @tile", "".join(matchers) + "transform.named_sequence @tile")


def test_a_script_that_matches_by_itself_serves_the_tasks_that_it_takes():
    own = open_own(ScriptFile("mine.mlir", with_matchers(matching(256))))
    assert own.script.notes == ()
    tags = [task.tag for task in at.tasks("nano") if own.covers(task.task)]
    assert tags == ["matmul_32x256x64_f32_tb_w"]
    assert not open_own(ScriptFile("mine.mlir", with_matchers(matching(256))), "matmul_32x64*").covers(
        next(task.task for task in at.tasks("nano") if task.tag == tags[0])
    )


def test_a_script_that_matches_nothing_or_by_two_sequences_is_refused(tmp_path):
    with pytest.raises(ScheduleError, match=r"got '\*'; @wide of mine\.mlir takes none"):
        tuned(tmp_path, with_matchers(matching(64)))
    with pytest.raises(
        ScheduleError, match=r"mine\.mlir:\d+:3: a script must match by one sequence, @wide and @two give"
    ):
        tuned(tmp_path, with_matchers(matching(64), matching(32, "two")))


def test_a_task_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(
        ScheduleError, match="--task must match a task of matmul,m=32,n=48,k=16: matmul_32x48x16_f32; got 'conv'"
    ):
        tuned(tmp_path, ONE, tasks="conv*".rstrip("*"))


def test_a_script_of_the_whole_payload_takes_no_task(tmp_path):
    with pytest.raises(ScheduleError, match=r"--task must go with a script of one op, mine\.mlir takes the whole"):
        tuned(tmp_path, tasks="matmul*")


def test_a_task_without_a_script_is_refused(tmp_path):
    options = TuneOptions(trials=1, task="matmul*")
    refusal = pytest.raises(ScheduleError, match="--task must go with a schedule of your own, there is none")
    with no_care(), Store.open(tmp_path / "s") as store, refusal:
        tune(PAYLOAD, store, tmp_path / "bundle", options)


def test_ops_by_hand_with_knobs_are_a_script_of_one_op(tmp_path):
    body = f"""{knob("rows", "[4, 8]")}
    %tile, %loop = transform.structured.tile_using_for %op tile_sizes [%rows]
      : ({HANDLE}, {SIZE}) -> ({HANDLE}, {HANDLE})"""
    with no_care():
        at.tune(PAYLOAD, schedule=at.script(body), trials=2, store=tmp_path / "s", bundle=tmp_path / "bundle")
    assert set(at.trials(tmp_path / "s")["knob_rows"]) == {4, 8}


def test_a_script_without_end_is_stopped(monkeypatch):
    monkeypatch.setattr("autotune.worker.loading.reading.SCRIPT_SECONDS", 1.0)
    with pytest.raises(ScheduleError, match=r"mine\.mlir must be a script that MLIR takes and ends, it timed-out"):
        script_apart(time.sleep, 60, "mine.mlir")


def test_tune_and_show_take_a_schedule_on_the_command_line(autotune, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.mlir").write_text(SCRIPT)
    with no_care():
        code, out, _ = autotune(
            "tune", "matmul,m=32,n=48,k=16", "--schedule", "mine.mlir", "--trials", 2, "--store", "s", "--json"
        )
    assert code == 0
    assert json.loads(out)["bundle"].endswith("matmul,m=32,n=48,k=16_by_mine")
    code, out, _ = autotune("show", "matmul,m=32,n=48,k=16", "--schedule", "mine.mlir", "--config", "tile_m=4")
    assert "autotune.knobs = {tile_k = 1 : i64, tile_m = 4 : i64" in out
    refused(
        "tune", "nano", "--schedule", "none.mlir", words="a schedule must be a readable MLIR file, none.mlir is not"
    )
    refused(
        "show", "matmul,m=32,n=48,k=16", "--schedule", "mine.mlir", "--config", "unroll=4", words="counts only where"
    )


def test_reading_is_done_in_a_process_of_its_own():
    with pytest.raises(ScheduleError, match=r"mine\.mlir must hold a transform.named_sequence"):
        read_script(ScriptFile("mine.mlir", "module {}"))


# Sums that begin from zero again in every block of k; a tile of negative size, which ends MLIR with SIGABRT.
FOUR_WAYS = own_module(f"""{tiled(8, 0)}
    %blocks, %outer = transform.structured.tile_using_for %tile tile_sizes [0, 0, 8]
      : ({HANDLE}) -> ({HANDLE}, {HANDLE})
    %step, %k = transform.structured.tile_using_for %blocks tile_sizes [0, 0, 1] : ({HANDLE}) -> ({HANDLE}, {HANDLE})
    transform.tune.alternatives<"what"> {{
      transform.annotate %k "autotune.sums" : {HANDLE}
      transform.structured.vectorize %step : {HANDLE}
      transform.yield
    }}, {{
      %more, %loop = transform.structured.tile_using_for %step tile_sizes [-8] : ({HANDLE}) -> ({HANDLE}, {HANDLE})
      transform.yield
    }}, {{
      %fill = transform.structured.match ops{{["linalg.fill"]}} in %module : ({HANDLE}) -> {HANDLE}
      %one = transform.param.constant 1 : i64 -> {SIZE}
      transform.annotate %fill "autotune.zeros" = %one : {HANDLE}, {SIZE}
      transform.annotate %k "autotune.from_zero" : {HANDLE}
      transform.annotate %k "autotune.sums" : {HANDLE}
      transform.structured.vectorize %step : {HANDLE}
      transform.yield
    }}, {{
      transform.structured.vectorize %step : {HANDLE}
      transform.yield
    }}""")


def test_what_ends_mlir_is_wrong_or_is_interrupted_costs_its_trial_alone_and_nothing_runs_twice(tmp_path):
    own, options = open_own(ScriptFile("mine.mlir", FOUR_WAYS)), TuneOptions(trials=4, sampler="grid")
    tasks, machine = parts_of(PAYLOAD, own).tasks, at.this_machine()

    def search(listener=SILENT):
        with Store.open(tmp_path / "s") as store:
            searches = open_searches(tasks, setting_of(PAYLOAD, machine, store, options), entrants=Entrants(wanted=own))
            return run_on_slots(searches, options, OneSlot(worker), listener).evaluated

    with no_care(), Worker(60.0) as worker:
        with pytest.raises(KeyboardInterrupt):
            search(Recorder(interrupt_after=2))
        assert search() == 2
    assert search() == 0  # the worker is gone, and nobody asks it
    frame = frame_of(tmp_path / "s")
    outcomes = dict(zip(frame["knob_what"], frame["outcome"], strict=True))
    assert outcomes == {0: "ok", 1: "crashed", 2: "wrong-result", 3: "ok"}
