"""What is published: the wheel, installed into an empty environment, works far from any checkout.

About a minute; ``pytest -m 'not wheel'`` leaves it out. `make packages` does it with the sdist, too, and with each
Python that is supported: ``PYTHONS`` names them, with commas between.
"""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from uv import find_uv_bin

from autotune.core import care

ROOT = Path(__file__).parent.parent
PACKAGES = ("autotune", "payload", "schedules")
# Imports all that is installed, and then lists what plugs in.
IMPORT_ALL = f"""
from importlib import import_module
from pkgutil import walk_packages
for package in {PACKAGES}:
    for found in walk_packages(import_module(package).__path__, package + "."):
        try:
            import_module(found.name)
        except ModuleNotFoundError as missing:
            if missing.name != "torch" or not found.name.startswith("autotune.contrib.torch_backend."):
                raise  # what PyTorch alone loads needs PyTorch
import sys
from autotune.cli import main
sys.argv = ["autotune", "list", "--json"]
main()
"""
PYTHONS = os.environ.get("PYTHONS", sys.executable).split(",")
KINDS = ("wheel", "sdist") if "PYTHONS" in os.environ else ("wheel",)
UV = find_uv_bin()  # a tenth of the time that pip takes
PAYLOAD = "matmul,m=64,n=64,k=64"
OUTSIDE = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
QUICKLY = OUTSIDE | {care.VARIABLE: "little"}  # it is not about speed

pytestmark = pytest.mark.wheel


def call(*command, place, codes=(0,), env=OUTSIDE):
    """Run a command in a folder, as a user who knows nothing of this checkout; gives its output."""
    done = subprocess.run([*map(str, command)], cwd=place, env=env, capture_output=True, text=True, check=False)
    assert done.returncode in codes, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def build(kind, folder):
    """The wheel or the sdist of this checkout."""
    call(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", folder, place=ROOT)
    (path,) = folder.iterdir()
    return path


def new_environment(folder, python):
    """An environment without any package, and the command that installs into it."""
    call(UV, "venv", "--python", python, folder, place=folder.parent)
    return [UV, "pip", "install", "--python", folder / "bin" / "python"]


def need_registry(install, place):
    """Skip where no package can be had; a small one is asked for, and not installed."""
    asked = [*map(str, install), "--dry-run", "--no-deps", "--refresh", "packaging"]
    done = subprocess.run(asked, cwd=place, env=OUTSIDE, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("no package registry can be reached, so nothing installs into an empty environment")


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("kind", KINDS)
def test_package_in_an_empty_environment_works_far_from_any_checkout(kind, python, tmp_path):
    package = build(kind, tmp_path / "dist")
    install = new_environment(tmp_path / "environment", python)
    need_registry(install, tmp_path)
    call(*install, package, place=tmp_path)
    programs = tmp_path / "environment" / "bin"
    autotune = programs / "autotune"
    far = tmp_path / "far"
    far.mkdir()
    assert "payload.kernels:matmul" in call(programs / "python", "-c", IMPORT_ALL, place=far)
    call(autotune, "tune", PAYLOAD, "--trials", 3, place=far, env=QUICKLY)
    (bundle,) = far.glob("tuned/*/bundles/*")
    # 1: as right as recorded, and slower, which a busy machine may say
    assert "verified" in call(autotune, "replay", bundle, place=far, codes=(0, 1), env=QUICKLY)
    call(autotune, "report", bundle, "-o", "page.html", place=far)
    assert "matmul" in (far / "page.html").read_text()
    assert {path.name for path in far.iterdir()} == {"tuned", "page.html"}


def test_wheel_holds_types_templates_and_nothing_beside_its_packages(tmp_path):
    names = zipfile.ZipFile(build("wheel", tmp_path / "dist")).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == set(PACKAGES)
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(names)
    templates = {path.relative_to(ROOT).as_posix() for path in (ROOT / "autotune").rglob("*.j2")}
    assert templates
    assert templates <= set(names)


def test_sdist_holds_every_tracked_file(tmp_path):
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout of git")
    tracked = set(call("git", "ls-files", place=ROOT).splitlines())
    with tarfile.open(build("sdist", tmp_path / "dist")) as sdist:
        held = {name.partition("/")[2] for name in sdist.getnames()}
    assert tracked <= held
