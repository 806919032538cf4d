"""Compiling for other machines: objects of their architecture, loops in their vectors, one line where LLVM refuses."""

from dataclasses import replace

import pytest

from autotune.compiler.codegen.cross import compile_for, host_processor, unfused
from autotune.compiler.codegen.llvm_tools import check_processor
from autotune.compiler.codegen.loop_model import judge_hot_loop
from autotune.compiler.codegen.object_code import disassemble
from autotune.compiler.codegen.this_target import this_target
from autotune.contrib.targets.program import compile_default
from autotune.contrib.targets.target_file import shipped_targets, write_target
from autotune.core.errors import CompileError, MachineError
from autotune.registry import load_payload
from autotune.worker.worker import Worker

TARGETS = shipped_targets()
ELF_MACHINES = {"x86_64": 62, "aarch64": 183}  # EM_X86_64, EM_AARCH64
FUSED = """
declare float @llvm.fma.f32(float, float, float)
define float @f(float %a) {
  %r = call float @llvm.fma.f32(float %a, float %a, float %a)
  ret float %r
}
"""


@pytest.fixture(scope="module")
def worker():
    with Worker() as worker:
        yield worker


@pytest.mark.parametrize("name", TARGETS)
def test_matmul_is_an_object_of_the_architecture_and_its_hot_loop_has_the_machines_vectors(name, worker):
    target = TARGETS[name]
    program = compile_default(load_payload("matmul,m=48,n=64,k=64"), target, worker)
    assert program.data[:4] == b"\x7fELF"
    assert int.from_bytes(program.data[18:20], "little") == ELF_MACHINES[target.architecture]
    loop = judge_hot_loop(disassemble(program.data, "matmul"), target)
    arithmetic = [each for each in loop.loop.body if each.is_arithmetic]
    assert {each.width for each in arithmetic} == {target.machine.vector_bits}
    assert loop.mix.fmas == (len(arithmetic) if target.is_fused else 0)
    assert loop.mix.spills == 0 or not target.is_fused  # a product that is added later needs a register
    assert loop.expected.cpu == target.cpu
    assert loop.expected.cycles >= loop.expected.bound / 2


@pytest.mark.parametrize("name", ["sandybridge", "x86-64"])
def test_what_cannot_multiply_and_add_at_once_calls_no_function_for_it(name, worker):
    program = compile_default(load_payload("gelu,rows=4,cols=64"), TARGETS[name], worker)
    assert b"fma" not in program.data
    assert b"fma" not in compile_for(TARGETS[name], FUSED)


def test_unfused_code_keeps_its_types():
    assert "@llvm.fmuladd.f32(float %a" in unfused(FUSED)
    assert "llvm.fma." not in unfused(FUSED)
    both = FUSED.replace("declare", "declare float @llvm.fmuladd.f32(float, float, float)\ndeclare")
    assert unfused(both).count("declare") == 1
    assert b"fma" not in compile_for(TARGETS["x86-64"], both)


@pytest.mark.parametrize("text", ["", "no IR", "define void @f() { ret i32 1 }"])
def test_text_that_is_no_ir_is_refused_at_its_stage(text):
    if not text:
        assert compile_for(TARGETS["aarch64"], text)[:4] == b"\x7fELF"  # an empty module
        return
    with pytest.raises(CompileError) as refused:
        compile_for(TARGETS["aarch64"], text)
    assert refused.value.stage == "jit"


def test_ir_names_the_machine():
    assert 'target triple = "aarch64-linux-gnu"' in compile_for(TARGETS["a64fx"], FUSED, "llvm").decode()
    assert "vscale_range(4,4)" in compile_for(TARGETS["a64fx"], FUSED, "llvm").decode()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"cpu": "neoverse-n7"},
            "cpu must be one that LLVM knows for aarch64-linux-gnu, got 'neoverse-n7'; near it: neo",
        ),
        ({"cpu": "x86-64-v3"}, "cpu must be one that LLVM knows"),
        ({"features": "+sve,+avx2"}, "features must be LLVM's for aarch64-linux-gnu, got +avx2"),
    ],
)
def test_processor_that_llvm_does_not_know_is_refused(change, words):
    with pytest.raises(MachineError) as refused:
        check_processor(replace(TARGETS["neoverse-n1"], **change))
    assert words in str(refused.value)


@pytest.mark.parametrize("name", TARGETS)
def test_llvm_knows_every_shipped_processor(name):
    check_processor(TARGETS[name])


def test_this_machine_is_a_target_that_llvm_knows():
    target = this_target()
    check_processor(target)
    assert target.cpu == host_processor()[0]
    assert target.machine.vector_bits in (128, 256, 512)
    assert target.cpu in write_target(target)
