"""Our own rewrites are values: named after their files, part of every identity, raised in version when they change."""

import ast
import inspect
import json
import re
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from autotune.compiler.lowering.pipeline import compilation
from autotune.compiler.lowering.rewrites import SCRIPT
from autotune.compiler.lowering.stages import COMPILED, compile_to
from autotune.compiler.lowering.steps import ARENA, REGIONS, REQUESTED, SCHEDULING, STEPS, UNREQUESTED
from autotune.core.errors import CompileError
from autotune.core.host.machine import this_machine
from autotune.core.scripts.assembly import assemble, write_step
from autotune.registry import family_for, load_payload
from autotune.tuning.candidates import candidate_alone
from autotune.tuning.stages.requests import shared

ROOT = Path(__file__).parents[2]
PASSES = ROOT / "autotune" / "compiler" / "passes"
RECORDED = Path(__file__).with_name("rewrites.json")
WAY_OUT = (
    "raise its version in compiler/lowering/rewrites.py if it writes other programs; "
    "then run tests/compiler/test_rewrites.py"
)


def imports_of(path):
    """The files of passes that a file imports."""
    names = re.findall(r"^from autotune\.compiler\.passes\.(\w+) import", path.read_text(), re.M)
    return [PASSES / f"{name}.py" for name in names]


def files_of(path):
    """A file, and all files of passes that it needs."""
    found, waiting = [], [path]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.append(path)
            waiting += imports_of(path)
    return sorted(found)


def code_of(path):
    """A file's code without its docstrings, comments and layout."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if (
            isinstance(body, list)
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
        ):
            body[0].value.value = ""
    return ast.dump(tree)


def digests():
    """Version and digest of the code of every rewrite, by name."""
    found = {}
    for rewrite in (*UNREQUESTED, *REQUESTED):
        code = "".join(map(code_of, files_behind(rewrite)))
        found[rewrite.name] = [rewrite.version, sha256(code.encode()).hexdigest()[:16]]
    return found


def files_behind(rewrite):
    """The files that a rewrite's code is in: one of passes with what it needs, or all of a feature."""
    path = PASSES / f"{rewrite.name.replace('-', '_')}.py"
    return files_of(path) if path.exists() else sorted(Path(inspect.getfile(rewrite.apply)).parent.glob("*.py"))


def test_rewrites_that_only_some_trials_need_are_named_by_what_asks_for_them():
    names = [str(each) for each in REQUESTED]
    assert not set(names) & set(compilation(2).splitlines())
    assert all((each.before or each.behind) in STEPS for each in REQUESTED)


def test_each_rewrite_is_named_after_its_file():
    assert len({rewrite.name for rewrite in UNREQUESTED}) == len(UNREQUESTED)
    assert all((PASSES / f"{rewrite.name.replace('-', '_')}.py").exists() for rewrite in UNREQUESTED)


def test_a_rewrite_that_changed_has_another_version_or_says_that_it_writes_the_same_programs():
    recorded, now = json.loads(RECORDED.read_text()), digests()
    changed = [name for name in now if recorded.get(name) != now[name]]
    assert not changed, f"{', '.join(changed)} changed; {WAY_OUT}"
    assert recorded.keys() == now.keys()


@pytest.mark.parametrize("rewrite", UNREQUESTED, ids=str)
def test_name_and_version_of_a_rewrite_are_part_of_what_identifies_a_trial(rewrite):
    for threads in (1, 2):
        assert (str(rewrite) in compilation(threads).splitlines()) == (threads >= rewrite.least_threads)
        assert compilation(threads) in shared(threads)


def test_stages_name_every_step_around_the_script():
    assert [*STEPS] == [*SCHEDULING, ARENA, REGIONS]
    assert {*SCHEDULING, ARENA} <= {*COMPILED}


def test_a_step_shows_what_the_one_before_left_and_what_it_changed():
    (task, candidate) = softmax()
    texts = {step: compile_to(step, task, candidate).text for step in (SCRIPT, "prefetch-rows", "vector-math")}
    assert "math.exp" in texts[SCRIPT]
    assert texts["prefetch-rows"].count("memref.prefetch") > 0
    assert "memref.prefetch" not in texts[SCRIPT]
    assert "math.exp" not in texts["vector-math"]


def test_without_an_entry_a_script_is_refused_at_its_step():
    task, candidate = softmax()
    with pytest.raises(CompileError, match="__transform_main"):
        compile_to(SCRIPT, task, type(candidate)("module {}", candidate.pipeline))


def softmax():
    """The payload of a softmax alone, and a candidate that fetches rows ahead."""
    from autotune.compiler.tasks.partition import partition

    (task,) = partition(load_payload("softmax,rows=64,cols=96")).tasks
    family, machine = family_for(task), this_machine()
    config = {**family.default(task, machine), "prefetch_rows": True}
    step = write_step(task, family, config, machine, alone=True)
    assert assemble([step])
    return task.payload, candidate_alone(step)


if __name__ == "__main__":
    RECORDED.write_text(json.dumps(digests(), indent=1) + "\n")
    sys.stdout.write(f"{RECORDED.name} written\n")
