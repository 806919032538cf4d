"""Programs for other machines are right under their emulators; what is not installed is one line."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from bundle_support import shared_bundle

from autotune.compiler.codegen.this_target import this_target
from autotune.contrib.targets.emulator import Emulator, find_compiler, find_emulator, link, run_program
from autotune.contrib.targets.images import Answer, EmulatedCall, draw_images, judge_images, lay_out
from autotune.contrib.targets.program import compile_default, verify_emulated
from autotune.contrib.targets.target_file import SHIPPED, shipped_targets
from autotune.core.errors import MachineError
from autotune.core.payload import WRITTEN
from autotune.registry import load_payload
from autotune.worker.loading.reading import open_payload
from autotune.worker.worker import Worker

ROOT = Path(__file__).parents[3]
TARGETS = shipped_targets()
SPEC = "matmul,m=9,n=24,k=8"
HERE = Emulator((), "this machine")
NEEDS_C = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


def why_not(name):
    """What is missing to run programs of a machine here; empty if nothing is."""
    try:
        find_emulator(TARGETS[name]), find_compiler(TARGETS[name])
    except MachineError as error:
        return str(error)
    return ""


def emulated(*names):
    """The machines that can be emulated here; the others are skipped, with what to install."""
    return [pytest.param(n, marks=pytest.mark.skipif(bool(why := why_not(n)), reason=why or "-")) for n in names]


@pytest.fixture(scope="module")
def worker():
    with Worker() as worker:
        yield worker


@pytest.fixture
def corpus(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "results")
    import targets

    return targets.CORPUS


@pytest.mark.parametrize("name", emulated(*TARGETS))
def test_kernels_are_right_on_every_machine(name, corpus, worker):
    """Each spec of the corpus on one of them; all on all is `results/targets.py measure`."""
    for spec in corpus[list(TARGETS).index(name) :: len(TARGETS)]:
        check = verify_emulated(compile_default(open_payload(spec), TARGETS[name], worker), worker)
        assert check.is_right, f"{spec}: {check.diagnostic}"
        assert check.max_error < 1e-4


@pytest.mark.parametrize("name", emulated("neoverse-n1"))
def test_program_that_is_wrong_is_called_so(name, worker):
    payload = load_payload(SPEC)
    other = load_payload("matmul,m=9,n=24,k=8,transpose_b=1")
    program = compile_default(payload, TARGETS[name], worker)
    wrong = compile_default(other, TARGETS[name], worker)
    check = verify_emulated(
        type(program)(payload, program.target, wrong.candidate, wrong.data, (), program.header), worker
    )
    assert check.outcome == "wrong-result"
    assert "c[" in check.diagnostic


@pytest.mark.parametrize("name", emulated("neoverse-n1"))
def test_replay_for_a_machine_says_that_nothing_was_measured(name, tmp_path, autotune):
    bundle = shared_bundle(tmp_path, SPEC)
    code, out, _ = autotune("replay", bundle, "--target", name)
    assert code == 0, out
    assert "right, max error" in out
    assert "nothing was measured" in " ".join(out.split())
    assert "llvm-mca (neoverse-n1)" in out


def test_emitted_object_and_header_are_for_the_machine(tmp_path, autotune):
    bundle = shared_bundle(tmp_path, SPEC)
    code, out, _ = autotune("replay", bundle, "--emit", "object", "--target", "a64fx", "--output", tmp_path / "out")
    assert code == 0
    assert [Path(line).name for line in out.split()] == ["autotune_matmul.o", "autotune_matmul.h"]
    assert (tmp_path / "out" / "autotune_matmul.o").read_bytes()[18:20] == (183).to_bytes(2, "little")
    assert "-no-pie" not in (tmp_path / "out" / "autotune_matmul.h").read_text()
    code, _, _ = autotune("replay", bundle, "--emit", "asm", "--target", "a64fx", "--output", tmp_path / "out")
    assert "fmla\tz" in (tmp_path / "out" / "autotune_matmul.s").read_text()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("l1_bytes = 65536", "l1_bytes = 0"), "l1_bytes must be a whole number from 1024"),
        (('cpu = "neoverse-n1"', 'cpu = "nosuch"'), "cpu must be one that LLVM knows"),
        (("format_version", "format version"), "must be TOML"),
    ],
)
def test_bad_machine_file_is_one_line_and_exit_code_2(tmp_path, refused, change, words):
    path = tmp_path / "machine.toml"
    path.write_text((SHIPPED / "neoverse-n1.toml").read_text().replace(*change))
    bundle = shared_bundle(tmp_path, SPEC)
    refused("replay", bundle, "--target", path, words=words)
    refused("replay", bundle, "--emit", "object", "--target", path, "--output", tmp_path, words=words)


def test_absent_emulator_and_compiler_are_one_line_that_says_what_to_install(tmp_path, refused, monkeypatch):
    bundle = shared_bundle(tmp_path, SPEC)
    monkeypatch.setenv("PATH", str(tmp_path))
    said = refused("replay", bundle, "--target", "neoverse-n1", words="apt-get install qemu-user")
    assert "qemu-aarch64" in said
    (tmp_path / "qemu-aarch64").symlink_to("/bin/true")
    refused("replay", bundle, "--target", "neoverse-n1", words="apt-get install gcc-aarch64-linux-gnu")


def test_machine_without_a_name_for_the_emulator_says_so(tmp_path):
    text = (SHIPPED / "neoverse-n1.toml").read_text().replace('emulated_as = "neoverse-n1"\n', "")
    (tmp_path / "m.toml").write_text(text)
    from autotune.contrib.targets.target_file import find_target

    with pytest.raises(MachineError, match="add emulated_as"):
        find_emulator(find_target(str(tmp_path / "m.toml")))


def test_file_of_this_machine_needs_no_emulator(worker):
    target = replace(this_target(), emulated_as="")
    assert find_emulator(target) == HERE
    if shutil.which("cc") is not None:
        assert verify_emulated(compile_default(load_payload(SPEC), target, worker), worker).is_right


@pytest.mark.parametrize("place", ["input", "fence", "short"])
def test_images_show_what_must_not_be_written(place):
    call = EmulatedCall(load_payload(SPEC))
    (image,), layout = draw_images(call), lay_out(call.arguments)
    names = {argument.name: offset for argument, offset in zip(call.arguments, layout.offsets, strict=True)}
    spoilt = bytearray(image)
    spoilt[names["a"] if place == "input" else layout.size - 1] ^= 1
    if place == "short":
        del spoilt[-1]
    verdict = judge_images(Answer(call, (bytes(spoilt),)))
    assert verdict.outcome == "wrong-result"
    words = {"input": "a was", "fence": "something behind c was", "short": "bytes back"}
    assert words[place] in verdict.diagnostic


def test_outputs_that_nobody_wrote_are_no_numbers():
    call = EmulatedCall(load_payload(SPEC))
    assert judge_images(Answer(call, draw_images(call))).outcome == "non-finite"
    assert [argument.role in WRITTEN for argument in call.arguments] == [False, False, True]


PROGRAMS = {
    "writes a file": ('return !fopen("PLACE/stolen", "w") && errno == EACCES ? 7 : 0;', "exit code 7"),
    "removes a file": ('return remove("PLACE/in") && errno == EPERM ? 7 : 0;', "exit code 7"),
    "starts a process": ("return fork() < 0 && errno == EPERM ? 7 : 0;", "exit code 7"),
    "opens a socket": ("return socket(2, 1, 0) < 0 && errno == EPERM ? 7 : 0;", "exit code 7"),
    "crashes": ("raise(11); return 0;", "SIGSEGV"),
    "writes for ever": ("for (;;) if (fwrite(stdout, 1, 64, stdout) != 64) return 7;", ""),
    "never ends": ("for (;;);", "took longer"),
}


@NEEDS_C
@pytest.mark.parametrize("name", PROGRAMS)
def test_emulated_programs_are_sandboxed(name, tmp_path):
    body, words = PROGRAMS[name]
    head = "".join(f"#include <{name}.h>\n" for name in ("errno", "signal", "stdio", "sys/socket", "unistd"))
    body = body.replace("PLACE", str(tmp_path))
    program = link(shutil.which("cc"), tmp_path, f"#define _GNU_SOURCE\n{head}int main(void) {{ {body} }}\n", [])
    run = run_program(HERE, program, b"12345678", seconds=2.0)
    assert run.why_not
    assert words in run.why_not
    assert run.late == (name == "never ends")
    assert (tmp_path / "out").stat().st_size <= 1 << 16
    assert not (tmp_path / "stolen").exists()


@NEEDS_C
def test_program_gives_back_what_it_read(tmp_path):
    body = "char b[8]; if (fread(b, 1, 8, stdin) != 8) return 1; return fwrite(b, 1, 8, stdout) != 8;"
    program = link(shutil.which("cc"), tmp_path, f"#include <stdio.h>\nint main(void) {{ {body} }}\n", [])
    assert run_program(HERE, program, b"12345678", seconds=20.0).output == b"12345678"


@NEEDS_C
def test_what_does_not_link_is_said(tmp_path):
    with pytest.raises(MachineError, match="must link what was compiled"):
        link(shutil.which("cc"), tmp_path, "int main(void) { return nosuch(); }", [])


def test_doctor_writes_a_machine_that_compiles(tmp_path, autotune):
    path = tmp_path / "machine.toml"
    code, out, _ = autotune("doctor", "--write", path)
    assert (code, out) == (0, f"{path}\n")
    bundle = shared_bundle(tmp_path, SPEC)
    code, _, said = autotune("replay", bundle, "--emit", "object", "--target", path, "--output", tmp_path)
    assert code == 0, said


def test_list_shows_targets(autotune):
    code, out, _ = autotune("list", "targets")
    assert code == 0
    assert all(name in out for name in TARGETS)


def test_shipped_emulators_are_spelled_as_qemu_spells_them():
    for target in TARGETS.values():
        if path := shutil.which(f"qemu-{target.architecture}"):
            said = subprocess.run([path, "-cpu", "help"], capture_output=True, text=True, check=False).stdout
            assert target.emulated_as.partition(",")[0] in said
