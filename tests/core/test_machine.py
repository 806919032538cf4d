"""Machines: what sysfs says becomes bytes, what archspec says becomes lanes, and equal hosts share a fingerprint."""

from dataclasses import fields, replace
from pathlib import Path

import pytest
from tuning_support import MACHINES

from autotune.core.errors import MachineError
from autotune.core.host import machine as module
from autotune.core.host.machine import (
    VECTOR_EXTENSIONS,
    Machine,
    detected_machine,
    parse_size,
    read_caches,
    this_machine,
)


@pytest.fixture
def fresh():
    """Detect anew, and forget it again."""
    detected_machine.cache_clear()
    yield
    detected_machine.cache_clear()


class Target(set):
    """What archspec gives: features by `in`, and a name."""

    name = "testarch"


def write_cache(directory: Path, index: int, **entries: str) -> None:
    folder = directory / f"index{index}"
    folder.mkdir()
    for name, text in entries.items():
        (folder / name).write_text(text + "\n")


@pytest.mark.parametrize(
    ("text", "size"), [("32K", 32768), ("1M", 1 << 20), ("2G", 2 << 30), ("512", 512), ("33792K", 33792 << 10)]
)
def test_size_with_a_unit_becomes_bytes(text, size):
    assert parse_size(text) == size


def test_instruction_caches_are_left_out(tmp_path):
    write_cache(tmp_path, 0, type="Data", level="1", size="48K")
    write_cache(tmp_path, 1, type="Instruction", level="1", size="32K")
    write_cache(tmp_path, 2, type="Unified", level="2", size="1024K")
    write_cache(tmp_path, 3, type="Unified", level="3", size="32768K")
    assert read_caches(tmp_path) == {"L1": 48 << 10, "L2": 1 << 20, "L3": 32 << 20}


def test_cache_whose_entry_is_incomplete_is_left_out(tmp_path):
    write_cache(tmp_path, 0, type="Data", level="1")
    write_cache(tmp_path, 1, type="Unified", level="2", size="1M")
    assert read_caches(tmp_path) == {"L2": 1 << 20}


def test_missing_sysfs_gives_no_caches(tmp_path):
    assert read_caches(tmp_path / "nowhere") == {}


@pytest.mark.usefixtures("fresh")
def test_host_without_sysfs_gets_typical_caches(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CACHE_DIRECTORY", tmp_path / "nowhere")
    host = this_machine()
    assert (host.l1_bytes, host.l2_bytes, host.l3_bytes) == (32 << 10, 512 << 10, 8 << 20)


@pytest.mark.usefixtures("fresh")
def test_host_has_what_its_sysfs_says(tmp_path, monkeypatch):
    write_cache(tmp_path, 0, type="Data", level="1", size="7K")
    monkeypatch.setattr(module, "CACHE_DIRECTORY", tmp_path)
    assert this_machine().l1_bytes == 7 << 10


@pytest.mark.parametrize(
    ("features", "used"),
    [
        ({"sse2", "avx", "avx2", "avx512f"}, ("avx512f", 16, 32)),
        ({"sse2", "avx", "avx2"}, ("avx2", 8, 16)),
        ({"sse2", "avx"}, ("avx", 8, 16)),
        ({"sse2"}, ("sse2", 4, 16)),
        ({"asimd", "neon"}, ("asimd", 4, 32)),
        ({"neon"}, ("neon", 4, 32)),
    ],
)
@pytest.mark.usefixtures("fresh")
def test_widest_extension_of_the_host_is_used(monkeypatch, features, used):
    monkeypatch.setattr(module.archspec.cpu, "host", lambda: Target(features))
    host = this_machine()
    assert (host.isa, host.lanes, host.vector_registers) == used
    assert host.microarchitecture == "testarch"


@pytest.mark.usefixtures("fresh")
def test_host_without_any_extension_is_refused_in_one_line(monkeypatch):
    monkeypatch.setattr(module.archspec.cpu, "host", lambda: Target({"mmx"}))
    with pytest.raises(MachineError, match=r"a vector extension is needed, one of avx512f.*testarch") as error:
        this_machine()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", MACHINES)
def test_lanes_are_the_f32_elements_of_a_register(name):
    host = MACHINES[name]
    assert host.lanes * 32 == host.vector_bits
    assert VECTOR_EXTENSIONS[host.isa] == (host.vector_bits, host.vector_registers)


def test_fingerprint_ignores_cores_and_pages_and_nothing_else():
    host = MACHINES["avx2"]
    assert replace(host, cores=1).fingerprint == host.fingerprint
    for entry in fields(Machine):
        if entry.name not in ("cores", "pages"):
            value = getattr(host, entry.name)
            changed = replace(host, **{entry.name: value + (1 if isinstance(value, int) else "x")})
            assert changed.fingerprint != host.fingerprint, entry.name


@pytest.mark.usefixtures("fresh")
def test_detection_is_repeatable():
    first = this_machine()
    detected_machine.cache_clear()
    assert this_machine() == first
