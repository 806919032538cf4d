"""Which family schedules a task: the more specific, the one that is named, one of a file; and what its mistakes are."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from bundle_support import make_bundle

import autotune as at
from autotune import registry
from autotune.bundles.reproduce import reproduce
from autotune.contrib.explain.ablation import leave_one_out
from autotune.core.errors import OptionError, ScheduleError
from autotune.core.plugs.guarded_family import GuardedFamily
from autotune.registry import ambiguities, families, families_for, family_for, load_family
from autotune.reports.show import show
from autotune.store.bundle import read_bundle

SPEC = "matmul,m=16,n=32,k=8"
FILE = """
from dataclasses import dataclass

import autotune as at


@dataclass(frozen=True)
class Rows:
    name: str = "rows"
    fallback: bool = False

    def covers(self, task):
        return task.contraction is not None

    def space(self, task, machine):
        return at.Space((at.Knob("rows", (4, 8)),))

    def default(self, task, machine):
        return {"rows": 8}

    def build(self, task, config, machine):
        if config["rows"] == 4:
            raise ValueError("no four")
        handle = "!transform.any_op"
        return f"%t, %l = transform.structured.tile_using_for %op tile_sizes [8] : ({handle}) -> ({handle}, {handle})"

    def rewrites(self, task, config):
        return at.Rewrites()


ROWS = Rows()
"""


@dataclass(frozen=True)
class Mine:
    """A family of somebody else's, which covers all contractions."""

    name: str = "zebra"
    fallback: bool = False
    specific: int = 0

    def covers(self, task):
        return task.contraction is not None


@dataclass(frozen=True)
class Other:
    """Another distribution."""

    name: str = "mine"


class Point(SimpleNamespace):
    """An entry point of another distribution."""

    def load(self):
        return self.value


@pytest.fixture
def installed(monkeypatch):
    """Install a family for a test; gives the function that does."""

    def install(family):
        points = dict(registry.registered(registry.SCHEDULES))
        points[family.name] = Point(name=family.name, value=family, dist=Other())
        monkeypatch.setattr(registry, "registered", lambda group: points)
        families.cache_clear()

    yield install
    families.cache_clear()


@pytest.fixture
def task():
    (found,) = at.tasks(SPEC)
    return found.task


def test_a_plug_in_comes_before_ours_whatever_its_name_and_that_is_said(installed, task):
    installed(Mine())
    assert [family.name for family in families_for(task)] == ["zebra", "matmul", "vectorize"]
    (said,) = ambiguities([task], None)
    assert said == f"{task.tag}: matmul would cover it as well as zebra, which is searched; see --family"


def test_the_more_specific_comes_first_and_no_tie_is_said(installed, task):
    installed(Mine(specific=1))
    assert family_for(task).name == "zebra"
    assert ambiguities([task], None) == ()


def test_nothing_is_said_of_our_own_families():
    for spec in ("nano", "gpt2", SPEC):
        assert ambiguities([each.task for each in at.tasks(spec)], None) == ()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


def test_a_family_of_a_file_is_tuned_explained_and_its_trials_reproduced(file, refused, tmp_path):
    named = f"{file}:ROWS"
    bundle = read_bundle(make_bundle(tmp_path, SPEC, family=named))
    (task,) = bundle.manifest.tasks.values()
    assert task.schedule == "rows"
    first, *_, last = leave_one_out(bundle, at.this_machine(), named)
    assert "tile_sizes [8]" in first.candidate.script
    assert (first.name, last.name) == ("the winner", "search")
    refused("explain", tmp_path / "bundle", words="or in a file as mine.py:FAMILY; got 'rows'")
    store = tmp_path / "store.journal"
    (key,) = at.trials(store)["key"]
    found = reproduce(store, key[:12], tmp_path / "trial", 60.0, named)
    assert found.is_same
    assert found.changed == ""
    refused("replay", key[:12], "--store", store, "--family", "matmul",
            words="--family must be the trial's, 'rows'; got 'matmul'")  # fmt: skip


def test_what_a_family_raises_is_one_line_with_its_place(file, refused):
    refused("show", SPEC, "--family", f"{file}:ROWS", "--config", "rows=4",
            words="mine.py:23: build of family 'rows' must not fail, it raised ValueError: no four")  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ROWS = 3", "ROWS must be a family of schedules, it lacks name, fallback, covers"),
        ("", "ROWS must be a family of schedules, it holds none"),
        ("1 / 0", "must run, it raised ZeroDivisionError"),
    ],
)
def test_a_file_without_a_family_is_refused(text, words, tmp_path):
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(ScheduleError, match=words):
        load_family(f"{tmp_path}/mine.py:ROWS")


def test_a_file_that_is_not_there_is_refused():
    with pytest.raises(ScheduleError, match=r"a family's file must be readable Python, none\.py is not"):
        load_family("none.py:ROWS")


def test_a_family_by_name(refused):
    assert "by vectorize" in show(SPEC, "space", family="vectorize").text
    refused("tune", SPEC, "--family", "nonsense", words="schedule must be one of")
    refused("tune", SPEC, "--family", "vectorize", "--schedule", "x.mlir", words="two ways to schedule")


@pytest.mark.parametrize("other", [{"family": "vectorize"}, {"error": 0.1}, {"agreement": 0.5}])
def test_a_schedule_beside_what_only_families_do_is_refused_in_python_too(tmp_path, other):
    (tmp_path / "x.mlir").write_text("")
    with pytest.raises(OptionError, match="give one"):
        at.tune(SPEC, schedule=tmp_path / "x.mlir", store=tmp_path / "s", bundle=tmp_path / "b", **other)


def test_a_family_that_covers_nothing_is_refused(tmp_path):
    with pytest.raises(ScheduleError, match=r"--family must cover a task of softmax.*'growing' covers none"):
        make_bundle(tmp_path, "softmax,rows=4,cols=8", family="growing")


def test_stage_tasks_names_the_others_that_cover_a_task():
    first, *knobs = show(SPEC, "tasks").text.splitlines()
    assert first.endswith("(also vectorize)")
    assert knobs
    assert all(line.startswith("    ") and len(line) <= 80 for line in knobs)


def test_sentences_of_ours_pass_a_guard_as_they_are(task):
    class Refusing(Mine):
        def space(self, task, machine):
            raise ScheduleError("a sentence")

    with pytest.raises(ScheduleError, match=r"^a sentence$"):
        GuardedFamily(Refusing()).space(task, None)
