"""Golden scripts: what a config writes, word by word. After a change that is meant: ``pytest --update-golden``."""

import pytest
from golden_files import GOLDEN
from tuning_support import MACHINES, contraction_payload

from autotune.compiler.ir.module import context, parse
from autotune.compiler.tasks.partition import partition
from autotune.core.plugs.program import WrittenScript
from autotune.core.scripts.assembly import Step, assemble
from autotune.registry import family_for, load_family, load_payload

# file -> (payload, index of its task, machine, what differs from the default config)
CASES = {
    "matmul_even_avx512": (lambda: load_payload("matmul,m=512,n=512,k=512"), 0, "avx512", {}),
    "matmul_odd_avx2": (lambda: load_payload("matmul,m=13,n=31,k=17"), 0, "avx2", {}),
    "matmul_tiled_avx2": (
        lambda: load_payload("matmul,m=256,n=256,k=256"),
        0,
        "avx2",
        {"tile_m": 64, "tile_n": 128, "tile_k": 128, "order": "nkm", "unroll_k": 2},
    ),
    "matmul_transposed_a_neon": (lambda: contraction_payload(16, 16, 8, a="km"), 0, "neon", {}),
    "batch_matmul_transposed_b_sse": (
        lambda: load_payload("batch_matmul,batch=2,m=8,n=8,k=4,transpose_b=1"),
        0,
        "sse",
        {},
    ),
    "softmax_avx2": (lambda: load_payload("softmax,rows=16,cols=33"), 0, "avx2", {}),
    "attention_avx2": (lambda: load_payload("attention,heads=2,seq=64,d=32,causal=1"), 0, "avx2", {"rows": 32}),
    "attention_online_avx2": (
        lambda: load_payload("attention,heads=2,seq=128,d=32,causal=1"),
        0,
        "avx2",
        {"rows": 32, "online": 64},
    ),
    "tile_bf16_attention_avx512": (lambda: load_payload("attention,heads=2,seq=64,d=32,causal=1"), 0, "avx512", {}),
    "tile_bf16_matmul_avx512": (
        lambda: load_payload("matmul,m=64,n=1024,k=64"),
        0,
        "avx512",
        {"tile_n": 256, "order": "nmk"},
    ),
    "epilogue_avx2": (lambda: load_payload("gpt,d_model=128,heads=4,d_ff=256,vocab=64,seq=32,layers=1"), 7, "avx2", {}),
    "embedding_avx2": (lambda: load_payload("embedding,rows=17,cols=72,vocab=101"), 0, "avx2", {}),
    "embedding_avx512": (lambda: load_payload("embedding,rows=17,cols=72,vocab=101"), 0, "avx512", {}),
    "affine_softmax_avx2": (lambda: load_payload("softmax,rows=16,cols=33"), 0, "avx2", {}),
    "affine_matmul_avx512": (
        lambda: load_payload("matmul,m=64,n=96,k=128"),
        0,
        "avx512",
        {"order": "0 2 1", "tile_2": 32, "vectors": 2},
    ),
    "gelu_neon": (lambda: load_payload("gelu,rows=8,cols=64"), 0, "neon", {"rows": 2, "vectors": 4}),
}


def write(name):
    load, index, machine, changes = CASES[name]
    task = partition(load()).tasks[index]
    named = next((family for family in ("affine", "tile_bf16") if name.startswith(family)), "")
    host, family = MACHINES[machine], load_family(named) if named else family_for(task)
    config = {**family.default(task, host), **changes}
    space = family.space(task, host)
    space.check(config)
    assert space.broken_constraint(config) is None
    note = "\n".join(f"{knob} = {value}" for knob, value in config.items())
    said, rewrites = f"{task.tag} for {machine}\n{note}", family.rewrites(task, config)
    program = WrittenScript(family.build(task, config, host), rewrites=rewrites)
    return assemble([Step(task.tag, task.occurrences, program, said)])


@pytest.mark.parametrize("name", CASES)
def test_script_is_word_by_word_the_golden_one(name, golden):
    golden(f"{name}.mlir", write(name))


@pytest.mark.parametrize("name", CASES)
def test_golden_script_parses(name):
    with context():
        assert parse((GOLDEN / f"{name}.mlir").read_text(), name).operation.verify()


def test_no_golden_file_is_left_over():
    assert {path.stem for path in GOLDEN.iterdir()} == set(CASES)
