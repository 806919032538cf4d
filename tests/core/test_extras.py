"""The command that installs an extra is one that works here: from a clone, a wheel or an index."""

import doctest

import pytest

from autotune.core.host import extras

CLONE = '{"url": "file:///my%20clone", "dir_info": {"editable": true}}'
WHEEL = '{"url": "file:///dist/a.whl", "archive_info": {}}'
GIT = '{"url": "https://host/a.git", "vcs_info": {"vcs": "git", "commit_id": "1"}}'


def test_examples_run():
    assert doctest.testmod(extras).failed == 0


@pytest.mark.parametrize(
    ("origin", "said"),
    [
        (CLONE, "-e '/my clone[compare]'"),
        (CLONE.replace("true", "false"), "'/my clone[compare]'"),
        (WHEEL, "'/dist/a.whl[compare]'"),
        (GIT, "'mlir-schedule-autotune[compare] @ git+https://host/a.git'"),
    ],
)
def test_an_extra_is_installed_from_where_the_package_came_from(origin, said, tmp_path):
    assert extras.requirement(origin, ["compare"], tmp_path) == said


def test_extras_are_named_once():
    assert extras.install_command("torch", "import", "torch").rstrip("'").endswith("[import,torch]")
