"""Features: the engine works without each of them, and without all."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from hashlib import sha256
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FEATURES = sorted(path.parent.name for path in (ROOT / "autotune" / "contrib").glob("*/__init__.py"))
POINTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]


def write_points(about, name, points):
    """What an installer writes of a distribution: its name and its entry points."""
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0\n")
    lines = [line for group, members in points.items() for line in (f"[{group}]", *(f"{a} = {b}" for a, b in members))]
    (about / "entry_points.txt").write_text("\n".join(lines))


def features_that(plug_into):
    """Features with an entry point in one of some groups."""
    values = [value for group in plug_into for value in POINTS.get(group, {}).values()]
    return [name for name in FEATURES if any(value.startswith(f"autotune.contrib.{name}.") for value in values)]


# A sweep calls what these groups have; all others add to the command line, or are asked for by name.
OF_SWEEPS = [f"autotune.{each}" for each in ("transfer", "rewriters", "rewrites", "rivals", "samplers", "schedules")]
OF_TUNING = features_that(OF_SWEEPS)
# Loads the command line with what features plug into it, in a process for each installation, forked from one that has
# imported what is not of this project. That no feature imports another one is a test of its own, without a process.
LOAD_ALL = """
import os, sys
import numpy, optuna, pydantic, rich.console, typer
engine, *folders = sys.argv[1:]
for folder in folders:
    os.path.lexists(engine) and os.unlink(engine)
    os.symlink(folder, engine)
    pid = os.fork()
    if not pid:
        sys.path.insert(0, engine)
        sys.argv = ["autotune", "--help"]
        from autotune.cli import main
        assert sys.modules["autotune"].__file__.startswith(engine)
        main()
    assert os.waitpid(pid, 0)[1] == 0, folder
"""


def install_without(removed, folder):
    """An installation in a folder, without some features and their entry points; its files are links."""
    contrib = folder / "autotune" / "contrib"
    contrib.mkdir(parents=True)
    for package in ("payload", "schedules"):
        (folder / package).symlink_to(ROOT / package)
    for path in (ROOT / "autotune").iterdir():
        if path.name != "contrib":
            (folder / "autotune" / path.name).symlink_to(path)
    for path in (ROOT / "autotune" / "contrib").iterdir():
        if path.name not in removed:
            (contrib / path.name).symlink_to(path)
    gone = tuple(f"autotune.contrib.{name}." for name in removed)
    left = {group: [(a, b) for a, b in members.items() if not b.startswith(gone)] for group, members in POINTS.items()}
    write_points(folder / "mlir_schedule_autotune-0.dist-info", "mlir-schedule-autotune", left)
    return folder


def engine_of(folder):
    """A path that installations take turns at, so that what is compiled of their files is compiled once."""
    return folder.parent / "engine"


def run_in(folder, *words, code=0):
    """Run the command line of an installation, in a folder of its own; gives stdout, or of what is refused stderr."""
    work, engine = folder / "work", engine_of(folder)
    work.mkdir(exist_ok=True)
    engine.unlink(missing_ok=True)
    engine.symlink_to(folder)
    program = f"import sys; sys.path.insert(0, {str(engine)!r}); from autotune.cli import main; main()"
    done = run_python(program, *words, cwd=work, path=(engine,))
    assert done.returncode == code, done.stderr
    assert "plug-in" not in done.stderr
    return done.stderr if code else done.stdout


def run_python(program, *words, cwd, path=()):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))}
    command = [sys.executable, "-c", program, *map(str, words)]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """The engine without any feature, and a bundle that it tuned."""
    folder = install_without(FEATURES, tmp_path_factory.mktemp("bare"))
    run_in(folder, "tune", "softmax,rows=8,cols=8", "--trials", "1", "--bundle", "b")
    return folder


def test_what_is_listed_without_any_feature(bare):
    verbs = re.findall(r"^  (\w+)  ", run_in(bare, "--help"), re.M)
    assert {"tune", "replay", "regress", "inspect", "compare"} <= set(verbs)
    assert not {"generate", "demo"} & set(verbs)
    assert "targets:" not in run_in(bare, "list")


def test_engine_tunes_without_any_feature(bare):
    assert (bare / "work" / "b" / "manifest.json").is_file()


def test_code_of_others_is_refused_where_nothing_makes_such(bare):
    assert "No such option: --backend" in run_in(bare, "tune", "softmax,rows=8,cols=8", "--backend", "tvm", code=2)
    work = bare / "work"
    shutil.copytree(work / "b", work / "foreign")
    manifest = json.loads((work / "b" / "manifest.json").read_text())
    ((tag, _),) = manifest["tasks"].items()
    files = {f"kernels/{tag}.o": b"code", f"kernels/{tag}.txt": b"text", "prepared.mlir": b""}
    for name, data in files.items():
        (work / "foreign" / name).parent.mkdir(exist_ok=True)
        (work / "foreign" / name).write_bytes(data)
    manifest["sha256"] |= {name: sha256(data).hexdigest() for name, data in files.items()}
    kinds = ["memref<8x8xf32>"] * 2
    manifest["kernels"] = {tag: {"backend": "mine", "symbol": "autotune_kernel_mine", "types": kinds, "maker": "me"}}
    (work / "foreign" / "manifest.json").write_text(json.dumps(manifest))
    said = run_in(bare, "replay", "foreign", code=2)
    assert "code of a back end needs an entry point of autotune.rivals" in said
    assert len(said.splitlines()) == 1


def test_a_file_in_a_dialect_is_refused_where_nothing_reads_such(bare):
    (bare / "work" / "m.mlir").write_text("func.func @m(%x: tensor<2xf32>) { %y = gpt.gelu(%x) return %y }")
    said = run_in(bare, "tune", "m.mlir", code=2)
    assert "a payload in a dialect needs an entry point of autotune.readers" in said
    assert len(said.splitlines()) == 1


def test_a_store_on_a_server_is_refused_where_nothing_opens_such(bare):
    said = run_in(bare, "inspect", "postgresql://nobody@localhost/nothing", code=2)
    assert "a store on PostgreSQL needs an entry point of autotune.servers" in said
    assert len(said.splitlines()) == 1


def test_engine_tunes_without_what_plugs_into_sweeps(tmp_path):
    assert {"rules", "cost_model", "affine"} <= set(OF_TUNING) < set(FEATURES)
    install_without(OF_TUNING, tmp_path)
    run_in(tmp_path, "tune", "softmax,rows=8,cols=8", "--trials", "1", "--bundle", "b")
    assert (tmp_path / "work" / "b" / "manifest.json").is_file()


def test_without_any_one_feature_the_command_line_loads(tmp_path):
    folders = [install_without([name], tmp_path / name) for name in FEATURES]
    done = run_python(LOAD_ALL, engine_of(tmp_path), *folders, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert done.stdout.count("Understand them") == len(FEATURES)


def test_engine_imports_no_feature_and_features_not_each_other():
    for path in (ROOT / "autotune").rglob("*.py"):
        parts = path.relative_to(ROOT / "autotune").parts
        others = [name for name in FEATURES if parts[:2] != ("contrib", name)]
        text = path.read_text()
        assert not [name for name in others if f"autotune.contrib.{name}" in text], path


def test_page_is_followed_from_an_empty_folder_to_a_passing_test(tmp_path):
    page = (ROOT / "docs" / "how-to" / "feature.md").read_text()
    files = re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```$', page, re.M | re.S)
    for name, text in files:
        (tmp_path / name).write_text(text)
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    points = {group: list(members.items()) for group, members in project["entry-points"].items()}
    write_points(tmp_path / "autotune_weigh-0.1.dist-info", project["name"], points)
    shown = run_in(tmp_path, "--help")
    assert re.search(r"^  weigh +Print how many bytes the weights of a payload take\.$", shown, re.M)
    install, *commands = [line.split() for line in re.findall(r"^\$ (.+)$", page, re.M)]
    assert install[:3] == ["pip", "install", "--editable"]  # what `write_points` stands for, without a network
    (program, *verb), (python, *tests) = commands
    assert (program, python) == ("autotune", "python")
    assert re.fullmatch(r"nano: \d+ bytes of weights\n", run_in(tmp_path, *verb))
    done = subprocess.run([sys.executable, *tests], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_a_plug_in_that_does_not_load_costs_a_line(tmp_path):
    write_points(tmp_path / "broken-0.dist-info", "broken", {"autotune.verbs": [("broken", "no_such_module:VERB")]})
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    code = "from autotune.cli import main; main()"
    command = [sys.executable, "-c", code, "list"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert "plug-in 'broken' of autotune.verbs must load" in line


def test_a_family_that_does_not_load_is_one_line_that_says_what_to_do(tmp_path):
    write_points(tmp_path / "stale-0.dist-info", "stale", {"autotune.schedules": [("stale", "schedules.gone:FAMILY")]})
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    code = "from autotune.cli import main; main()"
    command = [sys.executable, "-c", code, "tune", "softmax,rows=8,cols=32"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    line = done.stderr.splitlines()[-1]
    assert line.startswith("autotune: plug-in 'stale' of autotune.schedules must load")
    assert line.endswith("reinstall or remove it")
    assert "Traceback" not in done.stderr
