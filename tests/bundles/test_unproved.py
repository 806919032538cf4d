"""An import that nothing but its own plain lowering says the results of: every verb that calls it right says so."""

import json
import shutil
from pathlib import Path

import pytest
from bundle_support import edit_manifest, make_bundle
from import_support import PRODUCT, import_product

from autotune.core.errors import BundleError
from autotune.core.payload import UNPROVED
from autotune.core.plugs.imported import ORACLE
from autotune.store.bundle import read_bundle
from autotune.store.store import Store
from autotune.worker.loading.reading import open_payload

pytestmark = pytest.mark.usefixtures("hasty")


@pytest.fixture(scope="module")
def unproved(tmp_path_factory):
    """The folder of an import without recorded results, a bundle and a store of it."""
    around = tmp_path_factory.mktemp("unproved")
    model = import_product(around)
    (model / ORACLE).unlink()
    return model, make_bundle(around, str(model)), around / "store.journal"


def one_line(text):
    return " ".join(text.split())


@pytest.mark.parametrize("which", ["unproved", "proved"])
def test_tune_replay_regress_and_inspect_say_so(which, autotune, request, tmp_path):
    model, bundle, store = request.getfixturevalue(which)
    oracle, said = ("plain lowering", True) if which == "unproved" else ("reference", False)
    findings = tmp_path / "findings.json"
    _, tuned, _ = autotune("tune", model, "--trials", 1, "--store", store, "--bundle", tmp_path / "b", "--json")
    _, replayed, _ = autotune("replay", bundle, "--json")
    _, seen, _ = autotune("inspect", bundle, "--json")
    autotune("regress", bundle, "--quick", "--patience", 0, "--output", findings)
    plain = [json.loads(text) for text in (tuned, replayed, seen)] + json.loads(findings.read_text())
    assert [(each["oracle"], each["unproved"]) for each in plain] == [(oracle, said)] * 4
    numerics = json.loads((bundle / "manifest.json").read_text())["numerics"]
    assert (numerics["oracle"], numerics["unproved"]) == (oracle, said)
    _, held, _ = autotune("inspect", store, "--json")
    assert [task["unproved"] for task in json.loads(held)] == [said]


def test_the_same_in_words(unproved, autotune, tmp_path):
    model, bundle, store = unproved
    for arguments in (
        ("tune", model, "--trials", 1, "--store", store, "--bundle", tmp_path / "b"),
        ("replay", bundle),
        ("inspect", bundle),
        ("inspect", store),
        ("regress", bundle, "--quick", "--patience", 0),
    ):
        _, out, _ = autotune(*arguments)
        assert "unproved" in out, arguments
    code, _, said = autotune("show", bundle, "--stage", "tasks")
    assert (code, said.strip()) == (0, UNPROVED)
    code, _, _ = autotune("report", bundle, "--store", store, "-o", tmp_path / "page.html")
    assert (code, (tmp_path / "page.html").read_text().count("unproved") >= 2) == (0, True)


def test_compare_says_so(unproved, autotune):
    model, bundle, _ = unproved
    _, out, _ = autotune("compare", model, "--against", "", "--baseline", "none", "--bundle", bundle)
    assert UNPROVED in one_line(out)
    _, out, _ = autotune("compare", model, "--against", "", "--baseline", "none", "--bundle", bundle, "--json")
    found = json.loads(out)
    assert (found["oracle"], found["unproved"]) == ("plain lowering", True)


def test_explain_reproduce_and_the_report_for_servers_say_so(unproved, proved, autotune, tmp_path):
    for (model, bundle, store), said in ((proved, False), (unproved, True)):
        open_payload(str(model))  # of two with one text, bundles are of the one that was opened last
        _, out, _ = autotune("explain", bundle, "--json")
        assert json.loads(out)["unproved"] is said
        _, out, _ = autotune("explain", bundle)
        assert (UNPROVED in one_line(out)) is said
        with Store.read(store) as kept:
            key = next(key for sweep in kept.sweeps() for key in (t.key for t in sweep.records.values()))
        _, out, _ = autotune("replay", key, "--store", store, "--output", tmp_path / f"trial-{said}")
        assert (UNPROVED in one_line(out)) is said
        report = tmp_path / f"junit-{said}.xml"
        autotune("regress", bundle, "--quick", "--patience", 0, "--junit", report)
        assert (UNPROVED in report.read_text()) is said


def test_a_text_of_the_users_own_is_its_own_source(autotune, tmp_path):
    """Its plain lowering is what it says; that no other oracle is there is said, but not that it is unproved."""
    (tmp_path / "product.mlir").write_text(PRODUCT)
    bundle = make_bundle(tmp_path, str(tmp_path / "product.mlir"))
    _, out, _ = autotune("replay", bundle, "--json")
    assert (json.loads(out)["oracle"], json.loads(out)["unproved"]) == ("plain lowering", False)
    _, out, _ = autotune("inspect", bundle)
    assert "beside the plain lowering" in one_line(out)
    assert "unproved" not in out


def test_a_reference_that_is_not_known_here_proves_nothing_here(proved, autotune, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    _, out, _ = autotune("replay", proved[1], "--json")
    assert json.loads(out)["unproved"] is True
    _, out, _ = autotune("replay", proved[1], "--payload", proved[0], "--json")
    assert json.loads(out)["unproved"] is False


def test_results_that_were_recorded_later_prove_a_bundle(unproved, proved):
    model, bundle, _ = unproved
    assert read_bundle(bundle).payload.unproved
    named = open_payload(str(proved[0]))
    assert not read_bundle(bundle, named).payload.unproved
    assert open_payload(str(model)).notes[-1] == UNPROVED


def test_a_manifest_cannot_call_a_reference_unproved(proved, tmp_path):
    folder = Path(shutil.copytree(proved[1], tmp_path / "copy"))
    edit_manifest(folder, lambda data: data["numerics"].update(unproved=True))
    with pytest.raises(BundleError, match=r"numerics\.unproved must be false where the oracle is a reference"):
        read_bundle(folder)
