"""Machine files: what is shipped reads back, what breaks a law is one line, and names mean what they say."""

import pytest

from autotune.contrib.targets.target_file import SHIPPED, find_target, read_target, shipped_targets, write_target
from autotune.core.errors import MachineError
from autotune.core.host.machine import VECTOR_EXTENSIONS

GOOD = (SHIPPED / "neoverse-n1.toml").read_text()
LAWS = {
    "l1_bytes = 65536 -> l1_bytes = 0": "l1_bytes must be a whole number from 1024",
    "l1_bytes = 65536 -> l1_bytes = -1": "l1_bytes must be a whole number from 1024",
    "l1_bytes = 65536 -> l1_bytes = 1e99": "l1_bytes must be a whole number from 1024",
    "l1_bytes = 65536 -> l1_bytes = true": "l1_bytes must be a whole number from 1024",
    "l2_bytes = 1048576 -> l2_bytes = 2048": "l2_bytes must be at least l1_bytes",
    "l3_bytes = 0 -> l3_bytes = 'many'": "l3_bytes must be a whole number from 0",
    "cores = 1 -> cores = 0": "cores must be a whole number from 1",
    "cores = 1 -> colours = 1": "cores missing",
    "cores = 1 -> cores = 1\ncolour = 2": "got colour",
    "format_version = 1 -> format_version = 2": "format_version must be 1, got 2",
    'isa = "asimd" -> isa = "avx2"': "isa of aarch64 must be one of sve, asimd, neon; got 'avx2'",
    'isa = "asimd" -> isa = "asimd"\nvector_bits = 256': "vector_bits of asimd must be 128, got 256",
    'isa = "asimd" -> isa = "sve"': "vector_bits must be a whole number from 128 to 2048, got None",
    'isa = "asimd" -> isa = "sve"\nvector_bits = 384': "must be a power of two",
    'isa = "asimd" -> isa = 3': "isa must be one line of text",
    'triple = "aarch64-linux-gnu" -> triple = "riscv64-linux-gnu"': "triple must be x86_64 or aarch64",
    'cpu = "neoverse-n1" -> cpu = "n1; rm"': "cpu must be like 'neoverse-n1'",
    'cpu = "neoverse-n1" -> features = "sve"\ncpu = "x"': "features must be like '+sve,-sve2'",
    'emulated_as = "neoverse-n1" -> emulated_as = "-version"': "emulated_as must be like",
    'name = "neoverse-n1" -> name = "../up"': "name must be like",
    'model = "Arm Neoverse N1" -> model = "\\u001b[31m"': "model must be one line of text",
    "format_version = 1 -> format_version = = 1": "must be TOML",
}


@pytest.mark.parametrize("name", shipped_targets())
def test_shipped_machine_is_named_as_its_file_and_reads_back(name):
    target = shipped_targets()[name]
    assert (SHIPPED / f"{name}.toml").exists()
    assert read_target(write_target(target), "again") == target
    assert target.source
    assert target.machine.vector_bits == VECTOR_EXTENSIONS.get(target.machine.isa, (128 * target.vscale, 32))[0]


@pytest.mark.parametrize(("change", "law"), LAWS.items())
def test_what_breaks_a_law_is_refused_with_the_law_the_value_and_the_file(change, law):
    before, _, after = change.partition(" -> ")
    assert before in GOOD
    with pytest.raises(MachineError) as refused:
        read_target(GOOD.replace(before, after, 1), "mine.toml")
    said = str(refused.value)
    assert law in said
    assert "mine.toml" in said
    assert "\n" not in said
    assert said.isprintable()


@pytest.mark.parametrize(
    ("spec", "name", "triple"),
    [
        ("x86-64-v3", "x86-64-v3", "x86_64-linux-gnu"),
        ("x86_64-linux-gnu", "x86-64", "x86_64-linux-gnu"),
        ("x86_64-unknown-linux-gnu,cpu=x86-64-v3", "x86-64-v3", "x86_64-linux-gnu"),
        ("aarch64-linux-gnu", "aarch64", "aarch64-linux-gnu"),
        ("aarch64-linux-musl,cpu=neoverse-n1", "neoverse-n1", "aarch64-linux-musl"),
    ],
)
def test_names_and_triples_find_machines(spec, name, triple):
    found = find_target(spec)
    assert (found.name, found.triple) == (name, triple)


def test_a_file_is_read_from_its_path(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD.replace("65536", "32768"))
    assert find_target(str(path)).machine.l1_bytes == 32768


@pytest.mark.parametrize("spec", ["", "nosuch", "aarch64-linux-gnu,cpu=nosuch", "riscv64-linux-gnu", "x" * 5000])
def test_a_machine_that_nobody_described_is_refused_with_a_way_out(spec):
    with pytest.raises(MachineError, match=r"must be one of .*neoverse-n1.*doctor --write"):
        find_target(spec)


@pytest.mark.parametrize("data", [b"\xff\xfe", b"", b"x = 1\n" * 20_000])
def test_a_file_that_is_no_machine_is_refused(tmp_path, data):
    path = tmp_path / "mine.toml"
    path.write_bytes(data)
    with pytest.raises(MachineError):
        find_target(str(path))


def test_features_come_behind_those_of_the_vectors():
    assert shipped_targets()["x86-64-v3"].attributes == "+avx2,+fma"
    text = GOOD.replace("emulated_as", 'features = "-neon"\nemulated_as')
    assert read_target(text, "mine").attributes == "+neon,-neon"
