"""Features: the engine works without each of them, and without all."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from warm_pythons import WITHOUT_CARE

ROOT = Path(__file__).parent.parent
FEATURES = sorted(path.parent.name for path in (ROOT / "autotune" / "contrib").glob("*/__init__.py"))
POINTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]


def write_points(about, name, points):
    """What an installer writes of a distribution: its name and its entry points."""
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0\n")
    lines = [line for group, members in points.items() for line in (f"[{group}]", *(f"{a} = {b}" for a, b in members))]
    (about / "entry_points.txt").write_text("\n".join(lines))


def install_without(removed, folder):
    """An installation of the packages in a folder, without some features and their entry points."""
    for package in ("autotune", "payload", "schedules"):
        shutil.copytree(ROOT / package, folder / package)  # with what is compiled
    for name in removed:
        shutil.rmtree(folder / "autotune" / "contrib" / name)
    gone = tuple(f"autotune.contrib.{name}." for name in removed)
    left = {group: [(a, b) for a, b in members.items() if not b.startswith(gone)] for group, members in POINTS.items()}
    write_points(folder / "mlir_schedule_autotune-0.dist-info", "mlir-schedule-autotune", left)


def test_what_is_listed_without_any_feature(tmp_path):
    install_without(FEATURES, tmp_path)
    verbs = re.findall(r"^  (\w+)  ", run_in(tmp_path, "--help"), re.M)
    assert {"tune", "replay", "regress", "inspect", "compare"} <= set(verbs)
    assert not {"generate", "selftest", "demo"} & set(verbs)
    assert "targets:" not in run_in(tmp_path, "list")


def run_in(folder, *words):
    """Run the command line of an installation, in a folder of its own."""
    work = folder / "work"
    work.mkdir(exist_ok=True)
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); from autotune.cli import main; main()"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(folder), str(WITHOUT_CARE)))}
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=work, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "plug-in" not in done.stderr
    return done.stdout


@pytest.mark.parametrize("removed", [*([name] for name in FEATURES), FEATURES], ids="-".join)
def test_engine_tunes_without(removed, tmp_path):
    install_without(removed, tmp_path)
    run_in(tmp_path, "tune", "softmax,rows=8,cols=8", "--trials", "1", "--bundle", "b")
    assert (tmp_path / "work" / "b" / "manifest.json").is_file()


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
    assert "  weigh      Print how many bytes the weights of a payload take.\n" in run_in(tmp_path, "--help")
    assert re.fullmatch(r"nano: \d+ bytes of weights\n", run_in(tmp_path, "weigh", "nano"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "test_weigh.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
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
