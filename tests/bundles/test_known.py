"""What a record was read from: no path in a bundle or store is opened, only what the user named, of the same text."""

import os
import shutil
import sys

import pytest
from bundle_support import edit_manifest
from import_support import PRODUCT, describe, import_product, named

import autotune as at
from autotune.bundles.candidates import differences_now
from autotune.bundles.replay import replay
from autotune.core.errors import BundleError, PayloadError
from autotune.core.host.machine import this_machine
from autotune.store.bundle import read_bundle
from autotune.worker.loading.paths import is_named, names, paths_of, remember
from autotune.worker.loading.reading import open_payload
from autotune.worker.loading.resolve import reopen_payload

pytestmark = pytest.mark.usefixtures("hasty")
OPENED = []
sys.addaudithook(
    lambda event, given: OPENED.append(given[0]) if event in ("open", "os.listdir", "os.scandir") else None
)


def opened_in(folder):
    """Files in a folder that this process opened since the list was cleared."""
    return [path for path in OPENED if isinstance(path, str | os.PathLike) and str(path).startswith(str(folder))]


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Another account: nothing was ever named there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_a_bundle_of_what_the_user_named_knows_its_reference(proved):
    read = read_bundle(proved[1])
    assert read.payload.reference is not None
    assert not any("not known" in difference for difference in differences_now(read, this_machine()))


@pytest.mark.usefixtures("elsewhere")
def test_a_path_in_a_bundle_is_never_opened(proved, autotune):
    model, bundle, _ = proved
    OPENED.clear()
    read = read_bundle(bundle)
    code, _, said = autotune("inspect", bundle)
    assert (read.payload.name, read.payload.reference, code) == (str(model), None, 0), said
    assert opened_in(model) == []


@pytest.mark.usefixtures("elsewhere")
def test_a_path_in_a_store_is_never_opened(proved, autotune, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, _, store = proved
    code, out, said = autotune("inspect", store, "--json")
    assert code == 0, said
    key = read_keys(store)[0]
    OPENED.clear()
    autotune("inspect", store)
    code, out, said = autotune("replay", key, "--store", store)
    assert (code, out) == (2, "")
    assert "must be installed, or named by you before" in said
    assert opened_in(model) == []


def read_keys(store):
    """Keys of a store's trials."""
    from autotune.store.store import Store

    with Store.read(store) as opened:
        return [trial.key for sweep in opened.sweeps() for trial in sweep.trials()]


@pytest.mark.usefixtures("elsewhere")
def test_a_bundle_replays_where_the_user_names_its_payload_once(proved, autotune, refused, tmp_path):
    model, bundle, _ = proved
    (tmp_path / "other.mlir").write_text(PRODUCT.replace("0.0", "1.0"))
    (unknown,) = differences_now(read_bundle(bundle), this_machine())
    assert unknown.endswith("`autotune replay BUNDLE --payload PAYLOAD` names it, once")
    refused("replay", bundle, "--payload", tmp_path / "other.mlir", words="has another text or arguments")
    _, out, said = autotune("replay", bundle, "--payload", model)
    assert "verified, max error" in " ".join(out.split()), said
    assert "not known here" not in out
    assert read_bundle(bundle).payload.reference is not None


@pytest.mark.usefixtures("elsewhere")
def test_a_bundle_replays_in_python_where_its_payload_is_named(proved):
    model, folder, _ = proved
    found = at.Bundle.read(folder, payload=model).replay()
    assert found.is_right
    assert not any("not known" in difference for difference in found.differences)
    with pytest.raises(PayloadError, match="must be readable"):
        at.Bundle.read(folder, payload=model / "none.mlir")


@pytest.mark.usefixtures("elsewhere")
def test_random_data_that_overflow_say_that_the_payload_is_not_known(proved, tmp_path):
    """Weights of a deep model are no random data."""
    folder = shutil.copytree(proved[1], tmp_path / "bundle")

    def change(manifest):
        for argument in manifest["arguments"]:
            argument["high"] = 9e37

    edit_manifest(folder, change)
    with pytest.raises(PayloadError, match=r"must give finite values.*--payload PAYLOAD"):
        replay(folder)


def test_a_payload_of_other_arguments_is_another(proved, tmp_path):
    other = import_product(tmp_path)
    describe(other, arguments=[named("x", high=2.0), named("w", "weight"), named("y", "output")])
    with pytest.raises(BundleError, match="has another text or arguments"):
        read_bundle(proved[1], open_payload(other))


@pytest.mark.usefixtures("elsewhere")
def test_names_are_kept_the_last_first_and_damage_loses_them_at_most():
    for spec in ("one.mlir", "two.mlir", "one.mlir", "bad\nname.mlir"):
        remember(spec, "a" * 64)
    assert [os.path.basename(place) for place in paths_of("a" * 64)] == ["one.mlir", "two.mlir"]
    assert is_named("two.mlir")
    assert not is_named("/elsewhere/two.mlir")
    names().write_bytes(b"\xff\n\n" + b"x" * 100)
    assert paths_of("a" * 64) == []
    names().unlink()
    names().mkdir()
    remember("one.mlir", "a" * 64)
    assert not is_named("one.mlir")


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("value", ["{}/weights", "{}/weights.safetensors", "weights.safetensors"])
def test_a_path_among_parameters_of_a_record_is_not_opened(tmp_path, monkeypatch, value):
    monkeypatch.chdir(tmp_path)
    os.mkfifo(tmp_path / "weights")
    (tmp_path / "weights.safetensors").write_bytes(b"x" * 100)
    OPENED.clear()
    with pytest.raises(PayloadError, match="named by you before"):
        reopen_payload(f"gpt2,weights={value.format(tmp_path)}")
    assert not [path for path in OPENED if "/weights" in str(path) or str(path).startswith("weights")]


def test_words_and_numbers_among_parameters_of_a_record_are_taken():
    assert reopen_payload("matmul,m=4,n=4,k=4").name == "matmul,m=4,n=4,k=4"
