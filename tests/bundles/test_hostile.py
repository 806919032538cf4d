"""The hostile corpus: everything is refused in one line and exit code 2, soon, and nothing else happens."""

import shutil

import pytest
from bundle_support import shared_bundle
from hostile_corpus import CORPUS, SPEC


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    return shared_bundle(tmp_path_factory.mktemp("pristine"), SPEC)


def test_corpus_is_large_and_every_case_has_a_name_and_an_aim():
    assert len(CORPUS) >= 100
    assert len({attack.name for attack in CORPUS}) == len(CORPUS)
    assert all(attack.attacks for attack in CORPUS)


@pytest.mark.parametrize("attack", CORPUS, ids=lambda attack: attack.name)
def test_attack_is_one_line(attack, pristine, tmp_path, autotune, monkeypatch):
    folder = shutil.copytree(pristine, tmp_path / "bundle")
    arguments = attack.make(folder)
    monkeypatch.chdir(tmp_path)
    code, out, said = autotune(*arguments)
    assert code in attack.codes, out + said
    lines = said.splitlines()
    assert len(lines) == 1, said
    assert lines[0].startswith("autotune: ")
    assert lines[0].isprintable()
    assert len(lines[0]) < 2000
    assert attack.words in lines[0]
    assert out == ""
    assert not (folder / "out").exists()
