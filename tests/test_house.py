"""The architecture: what imports what, what is shipped, and what the documents promise."""

import ast
import importlib.metadata
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from sweep_support import fill_wide_store

import autotune

ROOT = Path(__file__).parent.parent
PACKAGES = ("autotune", "schedules", "payload")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
PURE = (
    "core",
    "store",
    "tuning.samplers.search",
    "tuning.samplers.sampler",
    "tuning.samplers.scheduler",
)  # packages and modules
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def run_without_mlir(code):
    """Run Python code where `import mlir` fails."""
    blocked = f"import sys; sys.modules['mlir'] = None\n{code}"
    return subprocess.run([sys.executable, "-c", blocked], capture_output=True, text=True, check=False)


def test_pure_half_imports_without_mlir():
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in SOURCES]
    pure = [name for name in modules if name.startswith(tuple(f"autotune.{name}" for name in PURE))]
    names = ", ".join(name for name in pure if name != "autotune.store.bundle")  # which checks texts
    done = run_without_mlir(f"import autotune, {names}; autotune.this_machine()")
    assert done.returncode == 0, done.stderr


def test_the_package_loads_nothing_that_takes_a_second():
    done = run_without_mlir("import autotune; print({'scipy.stats', 'pandas', 'optuna'} & set(sys.modules))")
    assert done.stdout == "set()\n", done.stderr


def test_the_command_line_starts_without_what_only_a_verb_needs():
    heavy = "{'scipy.stats', 'pandas', 'optuna', 'matplotlib', 'rich.progress'}"
    done = run_without_mlir(f"import autotune.cli.verbs; print({heavy} & set(sys.modules))")
    assert done.stdout == "set()\n", done.stderr


def test_content_imports_without_mlir():
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in SOURCES]
    content = [name for name in modules if name.startswith(("payload.", "schedules."))]
    done = run_without_mlir(f"import {', '.join(content)}")
    assert done.returncode == 0, done.stderr


def test_nothing_that_is_checked_goes_away_under_python_o():
    found = [path for path in SOURCES if re.search(r"^ *assert\b", path.read_text(), re.M)]  # or in a text, perhaps
    nodes = [(path, node) for path in found for node in ast.walk(ast.parse(path.read_text()))]
    asserts = [f"{path.relative_to(ROOT)}:{node.lineno}" for path, node in nodes if isinstance(node, ast.Assert)]
    assert not asserts, "raise an error instead"


def test_texts_in_files_have_the_same_bytes_in_every_locale():
    for path in SOURCES:
        for call in ast.walk(ast.parse(path.read_text())):
            name = call.func.attr if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else ""
            if name == "write_text" or (name == "read_text" and not call.args):
                where = f"{path.relative_to(ROOT)}:{call.lineno}"
                assert "encoding" in {keyword.arg for keyword in call.keywords}, where


def test_names_list_without_mlir():
    done = run_without_mlir("sys.argv = ['autotune', 'list', '--json']; from autotune.cli import main; main()")
    assert done.returncode == 0, done.stderr
    assert '"nano"' in done.stdout


def test_missing_mlir_is_one_line_and_exit_code_2():
    done = run_without_mlir("sys.argv = ['autotune', 'tune', 'nano']; from autotune.cli import main; main()")
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert "MLIR Python bindings must import" in line


def test_inspect_needs_no_mlir(tmp_path):
    arguments = ["autotune", "inspect", str(fill_wide_store(tmp_path / "s")), "--full"]
    done = run_without_mlir(f"sys.argv = {arguments}; from autotune.cli import main; main()")
    assert done.returncode == 0, done.stderr
    assert "as by default" in done.stdout


def test_only_the_compiler_imports_mlir():
    importers = set()
    for path in (path for path in SOURCES if re.search(r"^ *(import|from) +mlir\b", path.read_text(), re.M)):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and node.level == 0 else []
            if any(name.split(".")[0] == "mlir" for name in names):
                importers.add(path.relative_to(ROOT).parts[:2])
    assert importers <= {("autotune", "compiler"), ("autotune", "contrib")}


def test_package_exports_no_name_of_one_of_its_modules():
    assert not [name for name in autotune.__all__ if (ROOT / "autotune" / f"{name}.py").exists()]
    assert all(hasattr(autotune, name) for name in autotune.__all__)


def test_wheel_holds_the_packages():
    assert set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) == set(PACKAGES)
    for package in PACKAGES:
        assert (ROOT / package / "__init__.py").exists()


def test_installed_distribution_is_this_one():
    about = importlib.metadata.metadata("mlir-schedule-autotune")
    assert about["Version"] == PROJECT["project"]["version"]


def test_nothing_forbids_publishing():
    assert not [line for line in PROJECT["project"]["classifiers"] if line.startswith("Private ::")]


def test_targets_install_extras_that_there_are_and_tuning_needs_none():
    makefile = (ROOT / "Makefile").read_text()
    wanted = dict(re.findall(r"^(\w+): \$\(VENV\)/\.(plain|with-\w+)$", makefile, re.M))
    assert {wanted[target] for target in ("tune", "regress", "gate")} == {"plain"}
    extras = {stamp.removeprefix("with-") for stamp in wanted.values()} - {"plain"}
    assert {"test", "check"} <= extras
    assert extras <= PROJECT["project"]["optional-dependencies"].keys()


def test_make_tune_writes_no_tracked_file():
    (recipe,) = re.findall(r"^tune:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.M)
    assert "--bundle build/" in recipe
    assert "build/" in (ROOT / ".gitignore").read_text().splitlines()


def test_whoever_renders_a_block_of_results_needs_no_extra():
    def names(requirements):
        return {re.match(r"[\w.-]+", each).group().lower().replace("_", "-") for each in requirements}

    extras = PROJECT["project"]["optional-dependencies"]
    wanted = names(PROJECT["project"]["dependencies"])
    of_extras = set().union(*(names(extras[each]) for each in extras)) - wanted
    modules = [
        module
        for module, distributions in importlib.metadata.packages_distributions().items()
        if of_extras & names(distributions) and module.isidentifier() and module not in PACKAGES
    ]
    blocks = re.search(r"^BLOCKS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
    code = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {modules}:
            raise ModuleNotFoundError(name)
sys.path.insert(0, {str(ROOT / "results")!r})
sys.meta_path.insert(0, Absent())
import {", ".join(blocks)}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_entry_point_loads():
    without_torch = importlib.util.find_spec("torch") is None
    for group in PROJECT["project"]["entry-points"]:
        for point in importlib.metadata.entry_points(group=group):
            if without_torch and point.value.startswith("autotune.contrib.torch_backend."):
                continue  # it needs PyTorch, and says so where it is asked for
            assert point.load() is not None


def test_the_three_mlir_wheels_are_pinned_together():
    pins = [d for d in PROJECT["project"]["dependencies"] if d.startswith("xtc-")]
    assert len(pins) == 3
    assert len({re.fullmatch(r"[\w-]+==(\d+\.\d+\.\d+)\.\d+", pin)[1] for pin in pins}) == 1


def test_continuous_integration_runs_targets_the_makefile_has():
    targets = re.findall(r"^make (\w+)$", (ROOT / ".ci" / "run").read_text(), re.M)
    assert targets == ["check", "test", "gate"]
    makefile = (ROOT / "Makefile").read_text()
    assert all(re.search(rf"^{target}:", makefile, re.M) for target in [*targets, "tune"])


@pytest.mark.parametrize("command", ["make tune", "make test", "make check"])
def test_readme_names_the_commands(command):
    assert command in (ROOT / "README.md").read_text()


def test_changelog_names_the_version():
    assert f"## {PROJECT['project']['version']}" in (ROOT / "CHANGELOG.md").read_text()


def test_documents_and_sources_name_no_folder_of_one_machine():
    for path in [*DOCUMENTS, *SOURCES]:
        assert not re.search(r"/(home|Users|root|work)/\w", path.read_text()), path


# What a newcomer asks, and the place that the listing of folders answers with: a definition there, or a folder.
ANSWERS = {
    "where is a script applied": ("autotune/compiler/script/apply.py", "run_script"),
    "where is a candidate compiled": ("autotune/compiler/lowering/program.py", "compile_program"),
    "where is a candidate verified": ("autotune/worker/bench/verify.py", "verify"),
    "where is a candidate measured": ("autotune/worker/bench/measure.py", "measure"),
    "where is a payload cut into tasks": ("autotune/compiler/tasks/partition.py", "partition"),
    "where is the next config chosen": ("autotune/tuning/samplers/search.py", "Search"),
    "where is the winner chosen": ("autotune/tuning/stages/choose.py", "choose"),
    "where is a trial written": ("autotune/store/sweep.py", "Sweep"),
    "where is a bundle replayed": ("autotune/bundles/replay.py", "replay"),
    "where is an operation on tensors lowered": ("autotune/tensor/lower.py", "lower"),
    "where does a new pass go": ("autotune/compiler/passes", ""),
    "where does a new verb go": ("autotune/cli", ""),
    "where does a new picture go": ("autotune/reports/pictures", ""),
    "where does a new family go": ("schedules", ""),
    "where does a new payload go": ("payload", ""),
    "where does a new comparator go": ("payload/comparators", ""),
    "where does a new op of the dialect go": ("payload/dialect/ops", ""),
    "where does a new importer go": ("payload/importers", ""),
    "where does a new rewrite of imported text go": ("autotune/compiler/normalise", ""),
}


def definitions(path):
    """Classes and functions of a file."""
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef | ast.FunctionDef)}


@pytest.mark.parametrize("question", ANSWERS)
def test_listing_answers(question):
    place, name = ANSWERS[question]
    assert (ROOT / place).exists()
    assert not name or name in definitions(ROOT / place)


def test_each_rewrite_verb_family_payload_and_comparator_lies_where_the_listing_says():
    verbs = {command.callback.__module__ for command in autotune_commands()}
    assert all(module.startswith(("autotune.cli.", "autotune.contrib.")) for module in verbs)
    points = importlib.metadata.entry_points()
    for group, package in {
        "schedules": "schedules",
        "payloads": "payload",
        "comparators": "payload.comparators",
    }.items():
        packages = (f"{package}.", "autotune.contrib.")
        assert all(point.value.startswith(packages) for point in points.select(group=f"autotune.{group}"))


def autotune_commands():
    from autotune.cli.verbs import app

    return app.registered_commands


def test_rooms_say_what_they_are_for():
    packages = [path.parent for path in (ROOT / "autotune").rglob("__init__.py")]
    readme = (ROOT / "README.md").read_text()
    for package in packages:
        assert ast.get_docstring(ast.parse((package / "__init__.py").read_text())), package
        name = package.relative_to(ROOT).as_posix()
        assert name == "autotune" or name.count("/") > 1 or f"`{name}`" in readme, name


def test_no_two_public_classes_share_a_name():
    found: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(path.relative_to(ROOT).as_posix())
    assert not {name: paths for name, paths in found.items() if len(paths) > 1}


def test_tests_mirror_the_rooms():
    packages = {path.name for path in (ROOT / "autotune").iterdir() if path.is_dir() and path.name != "__pycache__"}
    folders = {path.name for path in (ROOT / "tests").iterdir() if any(path.glob("test_*.py"))}
    assert folders | {"contrib"} == packages | {"payload", "schedules"}
    features = {path.name for path in (ROOT / "autotune" / "contrib").iterdir() if (path / "__init__.py").exists()}
    assert features == {path.name for path in (ROOT / "tests" / "contrib").iterdir() if any(path.glob("test_*.py"))}


def test_no_two_files_of_tests_have_one_name():
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
