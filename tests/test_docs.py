"""The documents: what they show is what there is, and what they tell somebody to run exists."""

import ast
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from payload_support import documented_payload, outputs_and_reference

import autotune
from autotune import plugins
from autotune.cli.verbs import app
from autotune.compiler.lowering.stages import compile_to
from autotune.compiler.passes.pipelines import TAIL
from autotune.compiler.tasks.partition import partition
from autotune.core.candidate import Candidate
from autotune.core.host.machine import this_machine
from autotune.core.plugs.program import WrittenScript
from autotune.core.scripts.assembly import Step, assemble
from autotune.reports.show import show, stages
from autotune.worker.loading.reading import open_payload

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CONTENT_PAGES = [ROOT / "docs" / "how-to" / name for name in ("payload.md", "dialect.md", "import.md", "schedule.md")]
CONTENT_PAGES.append(ROOT / "notebooks" / "06_import.ipynb")
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PACKAGES = ("autotune", "payload", "results", "schedules")
SOURCES = [path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py"))]
SECTION = re.compile(r"( *)(?:Args|Attributes|Raises|Returns|Yields):")
FRAGMENT = re.compile(
    r"(?:[*\w]+: )?(?:Of|As|In|It|Its|They|Their|By|Whose|Who|For|On|From|At|Where|That|When|Did|Is|Has|With|So|Now)\b"
)
VERBS = typer.main.get_command(app).commands


def test_reference_of_the_command_line_is_up_to_date():
    command = [sys.executable, ROOT / "docs" / "_commands.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def command_of(words):
    """The command that help shows for one or two words."""
    commands = VERBS
    for word in words.split():
        assert word in commands, words
        command = commands[word]
        assert not command.hidden, words
        commands = getattr(command, "commands", {})
    return command


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_in_documents_exist(path):
    text = path.read_text()
    shells = re.findall(r"^```(?:sh|console)\n(.*?)^```", text, re.M | re.S)
    plugged = re.findall(r'^\[project.entry-points."autotune.verbs"\]\n(\w+) =', text, re.M)  # by the page itself
    for verb, rest in re.findall(r"^(?:\$ )?autotune (lab \w+|\w+)(.*)$", "\n".join(shells), re.M):
        if verb in plugged:
            continue
        known = {option for p in command_of(verb).params for option in [*p.opts, *p.secondary_opts]}
        for option in re.findall(r"(?<!\S)(--?[a-z][a-z-]*)", rest.partition("#")[0]):
            assert option in known, f"autotune {verb} {option}"


def test_stages_in_the_documents_are_those_there_are():
    page = (ROOT / "docs" / "how-to" / "see.md").read_text()
    assert tuple(re.findall(r"^\| `([\w-]+)` \|", page, re.M)) == stages()


def test_from_one_laptop_to_two_machines_are_ten_commands():
    page = (ROOT / "docs" / "how-to" / "cluster.md").read_text()
    section = page.split("\n## From one laptop to two machines\n")[1].split("\n## ")[0]
    assert len(re.findall(r"^\$ ", section, re.M)) == 10
    assert "Ten commands." in section


def test_payload_in_the_documents_can_be_tuned(tmp_path):
    (text,) = re.findall(r"```mlir .*?\n(.*?)```", (ROOT / "docs" / "how-to" / "payload.md").read_text(), re.S)
    (tmp_path / "mine.mlir").write_text(text)
    (task,) = partition(open_payload(tmp_path / "mine.mlir")).tasks
    assert task.contraction.flops == 2 * 100 * 70 * 90


def test_payload_in_python_in_the_documents_computes_what_its_oracle_says():
    (out,), (expected,) = outputs_and_reference(documented_payload())
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


def test_own_schedule_in_the_documents_has_the_space_that_is_shown_there(tmp_path):
    page = (ROOT / "docs" / "how-to" / "own-schedule.md").read_text()
    (text,) = re.findall(r"```mlir .*?\n(.*?)```", page, re.S)
    (shown,) = re.findall(r"```text\n(.*?)\n```", page, re.S)
    (tmp_path / "mine.mlir").write_text(text)
    found = show("matmul,m=256,n=256,k=256", "space", schedule=tmp_path / "mine.mlir").text
    assert found.replace(f"{tmp_path}/", "") == shown


def test_family_in_the_documents_works(tmp_path):
    page = (ROOT / "docs" / "how-to" / "schedule.md").read_text()
    (text,) = re.findall(r'```python title="flat.py"\n(.*?)```', page, re.S)
    (line,) = re.findall(r'```mlir title="line.mlir"\n(.*?)```', page, re.S)
    names = {"__name__": "documented"}
    exec(compile(text, "schedule.md", "exec"), names)
    family, machine = names["FLAT"], this_machine()
    (tmp_path / "line.mlir").write_text(line)
    (task,) = partition(open_payload(tmp_path / "line.mlir")).tasks
    assert family.covers(task)
    script = assemble([Step(task.tag, 1, WrittenScript(family.build(task, family.default(task, machine), machine)))])
    assert "vector<" in compile_to("scheduled", task.payload, Candidate(script, TAIL)).text


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_saved_with_outputs_and_use_public_names(path):
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    source = "\n".join("".join(cell["source"]) for cell in cells)
    assert not re.search(r"import .*\b_\w|\._[a-z]", source)
    assert sum(bool(cell["outputs"]) for cell in cells) >= len(cells) / 2
    assert not any(output["output_type"] == "error" for cell in cells for output in cell["outputs"])
    assert not re.search(r"/(home|Users|root|work)/\w", path.read_text())


def imports_of(source):
    """Every module that a program imports, ``a.b`` for ``from a import b``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def code_of(path):
    """The Python of a page or notebook; magics of notebooks are left out."""
    if path.suffix == ".md":
        return "\n".join(re.findall(r"^```python.*?\n(.*?)^```", path.read_text(), re.M | re.S))
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    lines = "\n".join("".join(cell["source"]) for cell in cells).splitlines()
    return "\n".join(line for line in lines if not line.startswith("%"))


@pytest.mark.parametrize("path", [*PAGES, *NOTEBOOKS], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_documents_import_the_front_door_and_moves_and_for_content_what_content_rests_on(path):
    """A page on writing payloads or families may also import `autotune.core`, which they rest on, and `payload`."""
    allowed = {"autotune", "autotune.tensor", "schedules.moves", *(f"autotune.{name}" for name in autotune.__all__)}
    allowed |= {f"autotune.plugins.{name}" for name in plugins.__all__}
    imported = set(imports_of(code_of(path)))
    if path in CONTENT_PAGES:
        imported = {name for name in imported if not name.startswith(("autotune.core.", "payload."))}
    assert {name for name in imported if name.split(".")[0] in ("autotune", "schedules", "payload")} <= allowed


def test_stale_block_of_a_page_is_refused_and_can_be_written(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "results")
    blocks = importlib.import_module("blocks")
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- x -->\nold\n<!-- end of x -->\nafter\n")
    with pytest.raises(typer.Exit) as refused:
        blocks.replace_block(page, "x", "new\n", check=True)
    assert refused.value.exit_code == 1
    assert "make docs" in capsys.readouterr().err
    blocks.replace_block(page, "x", "new\n", check=False)
    assert page.read_text() == "before\n<!-- x -->\nnew\n<!-- end of x -->\nafter\n"
    blocks.replace_block(page, "x", "new\n", check=True)


def test_readme_is_short_and_its_links_lead_somewhere():
    readme = (ROOT / "README.md").read_bytes()
    assert len(readme) < 9700
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", readme.decode())
    assert links
    assert [link for link in links if ":" not in link and not (ROOT / link).exists()] == []


def test_notebooks_are_numbered_without_a_gap():
    assert [path.stem[:3] for path in NOTEBOOKS] == [f"{number:02}_" for number in range(1, len(NOTEBOOKS) + 1)]
    assert NOTEBOOKS[-1].stem == "08_tensors"


def fragments(source):
    """Line number and text of every entry of a docstring's sections that does not stand alone."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, documented) or ast.get_docstring(node) is None:
            continue
        literal, entries = node.body[0].value, None
        for number, line in enumerate(literal.value.split("\n"), literal.lineno):
            indent = len(line) - len(line.lstrip())
            if head := SECTION.fullmatch(line):
                entries = len(head[1]) + 4
            elif entries is not None and line and indent < entries:
                entries = None
            elif indent == entries and FRAGMENT.match(line.strip()):
                yield number, line.strip()


def test_lines_of_docstring_sections_stand_alone():
    found = [f"{path.relative_to(ROOT)}:{at}: {line}" for path in SOURCES for at, line in fragments(path.read_text())]
    assert not found, "begin with a noun that says what it is:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("entry", "wrong"),
    [("seed: Of the search.", True), ("seed: Seed of the search.", False), ("of: Items.", False), ("It took.", True)],
)
def test_entry_that_continues_its_head_is_a_fragment(entry, wrong):
    source = f'def f():\n    """Do it.\n\n    Args:\n        {entry}\n    """\n'
    assert list(fragments(source)) == ([(5, entry)] if wrong else [])


def test_files_that_pages_name_are_there():
    files = {
        path.relative_to(ROOT).as_posix()
        for name in (*PACKAGES, "tests", "docs")
        for path in (ROOT / name).rglob("*.py")
    }
    named = {(page, name) for page in PAGES for name in re.findall(r"`((?:\w+/)+\w+\.py)`", page.read_text())}
    gone = [
        f"{page.name}: {name}"
        for page, name in sorted(named)
        if not any(f"/{file}".endswith(f"/{name}") for file in files)
    ]
    assert named
    assert not gone, "say where it is now:\n" + "\n".join(gone)
