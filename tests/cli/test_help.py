"""Help: it is printed where it is asked for, in groups, and each line is whole at 80 columns."""

import re

import pytest

import autotune as at
from autotune.cli.interrupt import KEPT, Interrupts
from autotune.cli.verbs import VERBS, in_order
from autotune.core.plugs.verb import HEADINGS
from autotune.registry import plugged_verbs


def test_bare_command_prints_its_help(autotune):
    code, out, err = autotune()
    assert (code, err) == (0, "")
    assert out == autotune("--help")[1] == autotune("-h")[1]


def test_bare_group_prints_its_help(autotune):
    code, out, err = autotune("lab")
    assert (code, err) == (0, "")
    assert all(f"  {name} " in out for name in ("copy", "join", "record"))


def test_verbs_of_before_say_how_they_are_typed_now_and_run(autotune, tmp_path):
    missing = tmp_path / "nothing"
    for before, now in (
        (("reproduce", "abc", "--store", missing), "replay KEY --store STORE"),
        (("store", "copy", missing, tmp_path / "s"), "lab copy"),
        (("rules", "nosuch"), "list rules"),
        (("selftest", "--baseline", "nosuch"), "doctor --self"),
        (("record", "nosuch"), "lab record"),
        (("join", "nowhere"), "lab join"),
    ):
        code, _, said = autotune(*before)
        hint, why = said.splitlines()
        assert code == 2
        assert hint.endswith(f"` is `autotune {now}` now")
        assert why.startswith("autotune: ")


def test_shells_complete_verbs_and_options(autotune, monkeypatch, capsys):
    monkeypatch.setenv("_AUTOTUNE_COMPLETE", "complete_bash")
    for words, count, wanted in (
        ("autotune re", 1, {"report", "replay", "regress"}),
        ("autotune tune --sa", 2, {"--sampler"}),
    ):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(count))
        with pytest.raises(SystemExit):
            autotune()
        assert set(capsys.readouterr().out.split()) == wanted


def test_about_a_dozen_verbs_are_shown(autotune):
    verbs = re.findall(r"^  (\w+)  +[A-Z]", autotune("--help")[1], re.M)
    assert len(verbs) <= 16
    assert not {"reproduce", "rules", "selftest", "record", "join", "store"} & set(verbs)


def test_every_verb_stands_below_its_heading_in_a_whole_line(autotune):
    lines = autotune("--help")[1].splitlines()
    verbs = in_order(VERBS | plugged_verbs(pytest.fail))
    for heading in HEADINGS:
        below = lines[lines.index(f"{heading}:") + 1 :]
        shown = [each for each in verbs.items() if not (each[1].instead or each[1].group)]
        own = [(name, verb.line) for name, verb in shown if verb.heading == heading]
        for (name, line), shown in zip(own, below, strict=False):
            assert shown.split(maxsplit=1) == [name, line]
            assert len(shown) <= 80


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version_names_this_package_and_mlir(autotune, option):
    code, out, _ = autotune(option)
    assert code == 0
    assert f"mlir-schedule-autotune {at.__version__}" in out
    assert "xtc-mlir-python-bindings" in out


def test_options_most_people_need_come_first(autotune):
    out = autotune("tune", "-h")[1]
    first, _, rest = out.partition("What is searched, and how:")
    assert all(name in first for name in ("--trials", "--seconds", "--store", "--bundle", "--threads", "--json"))
    assert all(name in rest for name in ("--sampler", "--beside", "--error", "--cluster"))


def test_ctrl_c_says_what_is_true_of_the_verb(monkeypatch):
    for words, is_kept in ((["tune", "x"], True), (["lab", "record"], True), (["lab", "join"], False), ([], False)):
        monkeypatch.setattr("sys.argv", ["autotune", *words])
        assert Interrupts().sentence.endswith(KEPT) == is_kept
