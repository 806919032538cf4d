"""Show: every stage of a payload, a bundle and a task can be looked at, and what is shown is what is compiled."""

import re
import shutil

import pytest
from bundle_support import edit_manifest, shared_bundle

from autotune.compiler.ir.module import context, parse
from autotune.compiler.passes.pipelines import ARENA_PASS, TAIL
from autotune.compiler.tasks.partition import partition
from autotune.core.errors import BundleError, PayloadError, SpaceError
from autotune.core.host.machine import this_machine
from autotune.registry import family_for, load_payload
from autotune.reports.show import UNPLANNED, show, stages

SPEC = "softmax,rows=5,cols=37"
MATMUL = "matmul,m=9,n=24,k=8"
BUFFERS = re.compile(r"buffers: (\d+), peak [\d.e-]+ MiB, separately [\d.e-]+ MiB")


def without_notes(text):
    """A script without its comments."""
    return re.sub(r"^ *//.*\n", "", text, flags=re.M)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A bundle of the default config."""
    return shared_bundle(tmp_path_factory.mktemp("recorded"), MATMUL)


@pytest.fixture
def bundle(recorded, tmp_path):
    """A copy that may be edited."""
    return shutil.copytree(recorded, tmp_path / "bundle")


def without_times(text):
    """What does not change from run to run."""
    return re.sub(r"^(# measured.*| *//.*)\n", "", text, flags=re.M)


@pytest.mark.parametrize("stage", stages()[1:])
def test_every_stage_of_a_payload_is_shown_and_of_a_bundle_the_same_with_its_configs(bundle, stage):
    shown, of_bundle = show(MATMUL, stage), show(str(bundle), stage)
    assert shown.text.strip()
    assert bool(BUFFERS.fullmatch(shown.note)) == (stage in ("bufferized", "arena", "lowered", "llvm", "code"))
    assert without_times(of_bundle.text) == without_times(shown.text)
    assert of_bundle.note == shown.note


@pytest.mark.parametrize("stage", ["payload", "schedule", "bufferized", "lowered"])
def test_stages_in_mlir_parse(stage):
    with context():
        assert parse(show(SPEC, stage).text, stage).operation.verify()


def test_buffers_are_as_many_before_and_after_they_get_places():
    bufferized, lowered = show(SPEC, "bufferized"), show(SPEC, "lowered")
    assert bufferized.note == lowered.note
    assert bufferized.text.count("memref.alloc()") == int(BUFFERS.fullmatch(lowered.note)[1]) > 0
    assert "malloc" not in lowered.text


def test_assembly_is_of_the_entry_function():
    assert re.search(r"^[0-9a-f]+ <softmax>:$", show(SPEC, "code").text, re.M)


def test_tasks_are_one_line_each_and_their_configs_are_indented_below():
    text = show(SPEC, "tasks").text
    tags = [task.tag for task in partition(load_payload(SPEC)).tasks]
    assert [line.split()[0] for line in text.splitlines() if not line.startswith("    ")] == tags
    assert all("=" in line for line in text.splitlines() if line.startswith("    "))


def test_a_task_alone_is_shown_with_a_config():
    tag = partition(load_payload(SPEC)).tasks[-1].tag
    first = show(SPEC, "tasks", tag).text
    knob, value = re.search(r"(\w+)=(\w+)$", first).groups()
    family = next(family_for(task) for task in partition(load_payload(SPEC)).tasks if task.tag == tag)
    task = next(task for task in partition(load_payload(SPEC)).tasks if task.tag == tag)
    values = next(k.values for k in family.space(task, this_machine()).knobs if k.name == knob)
    other = next(v for v in values if str(v) != value)
    assert f"{knob}={other}" in show(SPEC, "tasks", tag, f"{knob}={other}").text
    assert f"{knob} = {other}" in show(SPEC, "schedule", tag, f"{knob}={other}").text
    assert f"@{tag}" in show(SPEC, "payload", tag).text


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((SPEC, "machine"), PayloadError, "stage must be one of dialect, payload, rewritten, tasks"),
        ((SPEC, "schedul"), PayloadError, "did you mean 'schedule'?"),
        ((SPEC, "schedule", "nothing"), PayloadError, "--task must be one of"),
        (("nano", "schedule", None, "rows=1"), PayloadError, "a config is of one task"),
        ((MATMUL, "schedule", None, "colour=3"), SpaceError, "colour"),
        ((MATMUL, "schedule", None, "tile_m=7777"), SpaceError, "tile_m must be one of"),
        ((MATMUL, "schedule", None, "tile_m"), SpaceError, "name=value"),
        (("nowhere", "schedule"), PayloadError, "payload must be one of"),
    ],
)
def test_what_there_is_not_is_refused(arguments, error, words):
    with pytest.raises(error, match=re.escape(words)):
        show(*arguments)


def test_a_bundle_from_before_the_arena_says_so(bundle):
    edit_manifest(bundle, lambda m: m.update(pipeline=TAIL.replace(f"{ARENA_PASS},", "")))
    assert show(str(bundle), "bufferized").note == show(str(bundle), "lowered").note == UNPLANNED


def test_a_bundle_whose_tasks_were_formed_otherwise_is_refused_with_the_way_out(bundle):
    tag = partition(load_payload(MATMUL)).tasks[0].tag

    def rename(manifest):
        manifest["tasks"] = {"other": manifest["tasks"][tag]}
        for folder in ("tasks", "schedules"):
            (bundle / folder / f"{tag}.mlir").rename(bundle / folder / "other.mlir")
            manifest["sha256"][f"{folder}/other.mlir"] = manifest["sha256"].pop(f"{folder}/{tag}.mlir")

    edit_manifest(bundle, rename)
    assert show(str(bundle), "schedule").text
    with pytest.raises(BundleError, match="tune again"):
        show(str(bundle), "schedule", tag)


def test_the_command_prints_the_stage_and_says_what_buffers_take(autotune):
    code, out, said = autotune("show", SPEC, "--stage", "bufferized")
    assert code == 0
    assert out == show(SPEC, "bufferized").text.rstrip() + "\n"
    assert BUFFERS.fullmatch(said.strip())
