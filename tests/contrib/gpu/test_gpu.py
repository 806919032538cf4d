"""Kernels for GPUs where there is none: right thread by thread, races caught, and right on lavapipe where that is."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from autotune.compiler.ir.module import context, every_op, parse
from autotune.contrib.gpu import nvptx, spirv, vulkan
from autotune.contrib.gpu.counts import BlockCounts, bank_cycles, sectors_touched
from autotune.contrib.gpu.device import VULKAN, find_device
from autotune.contrib.gpu.examine import KernelCall, arrays_of, draw, judge, run_kernel
from autotune.contrib.gpu.host import HostSource, plan_host
from autotune.contrib.gpu.interpret import interpret
from autotune.contrib.gpu.kernel import KernelSource, make_kernel, read_kernel
from autotune.contrib.gpu.model import estimate
from autotune.contrib.gpu.options import describe_lavapipe
from autotune.contrib.gpu.shadow import Shadow, ThreadAccess
from autotune.contrib.gpu.tune import only_task, units_of
from autotune.core.errors import CompileError, KernelError, MachineError, PayloadError
from autotune.registry import load_payload
from autotune.worker.loading.reading import open_payload

SQUARE = {"block_m": 16, "block_n": 16, "block_k": 8, "thread_m": 4, "thread_n": 4, "staged": True}
needs_lavapipe = pytest.mark.skipif(bool(vulkan.missing_parts()), reason=f"no lavapipe: {vulkan.way_out()}")


def source_of(spec, config=None, dropped=()):
    payload = load_payload(spec)
    text, task, family = only_task(payload)
    chosen = dict(family.default(task, VULKAN)) | (config or {})
    assert family.space(task, VULKAN).broken_constraint(chosen) is None
    return payload, KernelSource(text, family.build(task, chosen, VULKAN), VULKAN, dropped)


def run_of(spec, config=None, dropped=()):
    payload, source = source_of(spec, config, dropped)
    kernel, drawn = make_kernel(source), draw(KernelCall(payload))
    before, expected = arrays_of(payload, drawn)
    run = interpret(kernel, [before[number] for number in kernel.arguments])
    verdict = None if run.race else judge(payload, kernel, run, before, expected)
    return kernel, run, verdict


@pytest.mark.parametrize(
    ("spec", "config"),
    [
        ("matmul,m=32,n=16,k=24", SQUARE),
        ("matmul,m=32,n=16,k=24", SQUARE | {"staged": False, "block_k": 24}),
        ("matmul,m=15,n=9,k=21", {}),
        ("matmul,m=7,n=13,k=11", {"thread_m": 1}),
        ("matmul,m=1,n=1,k=1", {}),
        ("matmul,m=33,n=5,k=17", {"staged": False}),
        ("matmul,m=6,n=10,k=7,transpose_b=1", {"thread_n": 2}),
        ("matmul,m=8,n=12,k=16,transpose_b=1", {"thread_m": 2, "thread_n": 4}),
        ("matmul,m=8,n=3,k=8,transpose_b=1", {"staged": False}),
        ("batch_matmul,batch=2,m=6,n=5,k=3", {"rows": 2}),
        ("softmax,rows=12,cols=40", {"across": 8}),
        ("softmax,rows=7,cols=11", {"across": 11, "strided": False}),
        ("layer_norm,rows=6,cols=10", {"strided": False}),
        ("gelu,rows=5,cols=1", {}),
        ("attention,heads=2,seq=9,d=4,causal=1", {}),
        ("embedding,rows=5,cols=6,vocab=11", {}),
    ],
)
def test_kernels_of_any_size_are_right_thread_by_thread(spec, config):
    kernel, run, verdict = run_of(spec, config)
    assert not run.race
    assert verdict.outcome == "ok"
    assert run.blocks == kernel.blocks


MIXED = """
func.func @mixed(%ids: tensor<6xi64>, %x: tensor<6x8xf32>) -> (tensor<6xi64>, tensor<6x8xf32>) {
  %five = arith.constant 5 : i64
  %a = tensor.empty() : tensor<6xi64>
  %b = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%ids : tensor<6xi64>) outs(%a : tensor<6xi64>) {
  ^bb0(%id: i64, %out: i64):
    %sum = arith.addi %id, %five : i64
    linalg.yield %sum : i64
  } -> tensor<6xi64>
  %c = tensor.empty() : tensor<6x8xf32>
  %d = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %ids : tensor<6x8xf32>, tensor<6xi64>) outs(%c : tensor<6x8xf32>) {
  ^bb0(%v: f32, %id: i64, %out: f32):
    %e = math.erf %v : f32
    %n = arith.sitofp %id : i64 to f32
    %m = arith.mulf %e, %n : f32
    linalg.yield %m : f32
  } -> tensor<6x8xf32>
  return %b, %d : tensor<6xi64>, tensor<6x8xf32>
}
"""


def test_whole_numbers_of_64_bits_and_functions_of_no_form_in_spirv_are_in_both_endings(tmp_path):
    (tmp_path / "mixed.mlir").write_text(MIXED)
    for unit in units_of(open_payload(tmp_path / "mixed.mlir")).payloads:
        text, task, family = only_task(unit)
        kernel = make_kernel(KernelSource(text, family.build(task, family.default(task, VULKAN), VULKAN), VULKAN))
        before, expected = arrays_of(unit, draw(KernelCall(unit)))
        run = interpret(kernel, [before[number] for number in kernel.arguments])
        assert not run.race
        assert judge(unit, kernel, run, before, expected).outcome == "ok"
        assert spirv.serialise(spirv.spirv_text(kernel))
        assert ".entry" in nvptx.ptx_text(kernel, "sm_80")


def test_operations_are_counted():
    kernel, run, _ = run_of("matmul,m=32,n=16,k=24", SQUARE)
    assert run.counts.fused * 32 * kernel.blocks >= load_payload("matmul,m=32,n=16,k=24").flops / 2
    assert run.counts.special == 0


def test_a_softmax_whose_sums_are_not_waited_for_races():
    barriers = make_kernel(source_of("softmax,rows=4,cols=16", {"across": 8})[1]).barriers
    races = [bool(run_of("softmax,rows=4,cols=16", {"across": 8}, (number,))[1].race) for number in range(barriers)]
    assert sum(races) >= 3
    assert run_of("softmax,rows=4,cols=16", {"across": 8}, tuple(range(barriers)))[1].race


def test_each_barrier_that_is_dropped_is_a_race_unless_another_one_follows():
    # One behind each copy, one at the end of a step of k. The first orders nothing that the second does not; the last
    # one is missed by lavapipe, whose lanes of one row of threads run in lockstep.
    assert make_kernel(source_of("matmul,m=32,n=32,k=16", SQUARE)[1]).barriers == 3
    races = {}
    for dropped in [(0,), (1,), (0, 1), (2,), (0, 2), (0, 1, 2)]:
        _, run, verdict = run_of("matmul,m=32,n=32,k=16", SQUARE, dropped)
        races[dropped] = bool(run.race)
        assert run.race or verdict.outcome == "ok"
        assert not run.race or "workgroup memory" in run.race
    assert [dropped for dropped, race in races.items() if not race] == [(0,)]


def accesses(*triples):
    """Accesses of (element, thread, epoch), four threads a block."""
    elements, threads, epochs = np.array(triples).T
    return ThreadAccess(elements, threads, threads // 4, epochs)


@pytest.mark.parametrize(
    ("first", "second", "races"),
    [
        (("write", (0, 0, 0)), ("read", (0, 1, 0)), True),
        (("write", (0, 0, 0)), ("read", (0, 0, 0)), False),
        (("write", (0, 0, 0)), ("read", (0, 1, 1)), False),
        (("write", (0, 0, 0)), ("read", (0, 5, 1)), True),
        (("read", (0, 0, 0)), ("write", (0, 1, 0)), True),
        (("read", (0, 0, 0)), ("write", (0, 0, 0)), False),
        (("read", (0, 0, 0)), ("write", (0, 1, 1)), False),
        (("read", (0, 0, 0)), ("write", (0, 4, 1)), True),
        (("read", (0, 0, 0)), ("read", (0, 1, 0)), False),
        (("write", (0, 0, 0)), ("write", (0, 1, 0)), True),
        (("write", (0, 0, 0)), ("write", (1, 1, 0)), False),
    ],
)
def test_two_accesses_race_where_no_barrier_orders_them(first, second, races):
    shadow = Shadow(2)
    (one, before), (two, after) = first, second
    assert getattr(shadow, one)(accesses(before)) is None
    assert (getattr(shadow, two)(accesses(after)) is not None) == races


def test_one_of_several_readers_is_enough_for_a_race():
    shadow = Shadow(1)
    assert shadow.read(accesses((0, 0, 0), (0, 1, 0))) is None
    assert shadow.write(accesses((0, 1, 0))) is not None
    assert Shadow(1).write(accesses((0, 0, 0), (0, 1, 0))).writes


KERNEL = """
module attributes {{gpu.container_module}} {{
  func.func @f(%a: memref<8xf32>) {{
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    gpu.launch_func @k::@k blocks in (%c1, %c1, %c1) threads in (%c8, %c1, %c1) args(%a : memref<8xf32>)
    return
  }}
  gpu.module @k {{
    gpu.func @k(%a: memref<8xf32>) kernel attributes {{
        known_block_size = array<i32: 8, 1, 1>, known_grid_size = array<i32: 1, 1, 1>}} {{
      %c4 = arith.constant 4 : index
      %x = gpu.thread_id x
      %low = arith.cmpi ult, %x, %c4 : index
      {body}
      gpu.return
    }}
  }}
}}
"""


@pytest.mark.parametrize(
    ("body", "race"),
    [
        ("scf.if %low { gpu.barrier }", "some miss one"),
        ("%z = arith.constant 1.0 : f32\n memref.store %z, %a[%c4] : memref<8xf32>", "both write argument 0[4]"),
        ("%i = arith.addi %x, %c4 : index\n %v = memref.load %a[%i] : memref<8xf32>", "outside of its 8 elements"),
        ("%v = memref.load %a[%x] : memref<8xf32>\n memref.store %v, %a[%x] : memref<8xf32>", ""),
    ],
)
def test_what_no_driver_says_is_said(body, race):
    with context():
        kernel = read_kernel(parse(KERNEL.format(body=body), "kernel"), VULKAN)
    run = interpret(kernel, [np.arange(8, dtype=np.float32)])
    assert race in run.race
    assert bool(run.race) == bool(race)


def test_what_an_ending_would_take_without_a_word_is_refused():
    _, source = source_of("matmul,m=64,n=64,k=8", {"block_m": 64, "block_n": 64, "block_k": 8})
    with pytest.raises(CompileError, match="larger than the limits"):
        make_kernel(KernelSource(source.text, tile_of_one(), VULKAN))
    own = source.script.replace("memory_space = 3 : i64", "memory_space = 0 : i64")
    with pytest.raises(CompileError, match="every thread's own"):
        make_kernel(KernelSource(source.text, own, VULKAN))
    small = VULKAN.__class__("small", workgroup_bytes=1024)
    with pytest.raises(CompileError, match="at most 1024 bytes, a block needs 4096; choose smaller blocks"):
        make_kernel(KernelSource(source.text, source.script, small))


def tile_of_one():
    _, task, family = only_task(load_payload("matmul,m=64,n=64,k=8"))
    config = {"block_m": 64, "block_n": 64, "block_k": 8, "thread_m": 1, "thread_n": 1, "staged": False}
    assert "at most 1024 threads" in family.space(task, VULKAN).broken_constraint(config)
    return family.build(task, config, VULKAN)


def test_units_of_memory_are_counted_as_devices_move_them():
    lanes = np.arange(32)
    warp = np.zeros(32, np.int64)
    assert [bank_cycles(warp, words) for words in (lanes, 0 * lanes, 2 * lanes, 32 * lanes)] == [1, 1, 2, 32]
    assert [sectors_touched(warp, words) for words in (lanes, 0 * lanes, 8 * lanes)] == [4, 1, 32]


def test_the_model_likes_sums_in_registers_and_copies_that_are_shared():
    cycles = {}
    for name, config in {
        "staged": {"block_m": 32, "block_n": 32, "thread_m": 4, "thread_n": 4, "staged": True},
        "plain": {"block_m": 32, "block_n": 32, "thread_m": 4, "thread_n": 4, "staged": False},
    }.items():
        kernel, run, _ = run_of("matmul,m=64,n=64,k=32", config | {"block_k": 16})
        cycles[name] = estimate(kernel, run.counts, VULKAN.__class__("one", cores=1)).cycles
    assert cycles["staged"] < cycles["plain"]


def test_the_model_gives_a_large_product_four_fifths_of_the_multiply_adds():
    # What a block does grows with k by as much each time, so that 4096 steps follow from 32 and 64.
    config = {"block_m": 128, "block_n": 64, "block_k": 16, "thread_m": 8, "thread_n": 4, "staged": True}
    counts = []
    for k in (32, 64):
        payload, source = source_of(f"matmul,m=256,n=128,k={k}", config)
        kernel = make_kernel(source)
        arrays = [np.zeros(argument.shape, np.float32) for argument in payload.arguments]
        counts.append(asdict(interpret(kernel, [arrays[number] for number in kernel.arguments], 1).counts))
    first, second = counts
    whole = BlockCounts(**{name: n + (second[name] - n) * (4096 - 32) // 32 for name, n in first.items()})
    grid = replace(kernel, grid=(4096 // 64, 4096 // 128, 1))
    for chip in ("sm_80", "sm_90"):
        assert 0.8 < estimate(grid, whole, find_device(f"nvptx:{chip}"), 92).fused < 1


def test_all_defaults_are_valid_whatever_the_sizes():
    for sizes in [(1, 1, 1), (127, 128, 129), (4096, 4096, 4096), (1009, 3, 64), (6, 1000, 7)]:
        m, n, k = sizes
        _, task, family = only_task(load_payload(f"matmul,m={m},n={n},k={k}"))
        assert family.space(task, VULKAN).broken_constraint(family.default(task, VULKAN)) is None


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["matmul,m=8,n=8,k=8", "--target", "cuda"], "--target of a GPU must be vulkan"),
        (["matmul,m=8,n=8,k=8", "--target", "vulkan", "--threads", "2"], "drop --threads"),
        (["matmul,m=8,n=8,k=8", "--target", "vulkan", "--for", "x86-64"], "drop one of them"),
    ],
)
def test_bad_input_is_one_line(refused, words, sentence):
    refused("tune", *words, words=sentence)


def test_what_has_no_kernel_is_refused_in_a_sentence():
    with pytest.raises(PayloadError, match="must be one task, nano has"):
        only_task(load_payload("nano"))
    nano = units_of(load_payload("nano"))
    assert (len(nano.payloads), nano.without) == (10, ())
    softmax = load_payload("softmax,rows=2,cols=2")
    assert units_of(softmax).payloads == (softmax,)
    assert replace(nano, without=("a sort",)).sentence.endswith("not assembled; no kernel is written for a sort")
    assert find_device("vulkan") is VULKAN


def test_a_machine_without_lavapipe_is_told_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(vulkan, "library", lambda name: None)
    with pytest.raises(MachineError, match=r"libvulkan_lvp\.so, libvulkan\.so\.1.*apt-get install mesa-vulkan-drivers"):
        vulkan.find_lavapipe()
    assert describe_lavapipe().startswith("none for `tune --target vulkan`, libvulkan_lvp.so")


@pytest.mark.parametrize("spec", ["matmul,m=32,n=16,k=24", "softmax,rows=4,cols=8"])
def test_the_same_kernel_becomes_ptx(spec):
    kernel = make_kernel(source_of(spec)[1])
    text = nvptx.ptx_text(kernel, "sm_80")
    assert f".entry {kernel.name}(" in text
    assert text.count(f".param .u64 .ptr .align 1 {kernel.name}_param_") == len(kernel.arguments)
    assert text.count("bar.sync") >= kernel.barriers
    assert ".v4." in text
    if nvptx.find_ptxas() is not None:  # an extra
        assert nvptx.assemble(text, "sm_90", nvptx.find_ptxas()).spilled == 0


@pytest.mark.parametrize(
    ("index", "aligned"),
    [("%x4", True), ("%x", False), ("%x2", False), ("%x4p2", False), ("%c0", True)],
)
def test_vectors_are_said_to_be_aligned_where_that_is_proved(index, aligned):
    body = f"""
      %c2 = arith.constant 2 : index
      %c0 = arith.constant 0 : index
      %x2 = arith.muli %x, %c2 : index
      %x4 = arith.muli %c4, %x : index
      %x4p2 = arith.addi %x4, %c2 : index
      %v = vector.load %a[{index}] : memref<8xf32>, vector<4xf32>"""
    with context():
        module = parse(KERNEL.format(body=body), "kernel")
        nvptx.state_alignment(module)
        assert ("alignment = 16" in str(module)) == aligned


def test_chips_have_names():
    assert find_device("nvptx") == find_device("nvptx:sm_90")
    for spec in ("nvptx:", "nvptx:sm_1", "vulkan:sm_90"):
        with pytest.raises(MachineError, match="--target of a GPU must be vulkan, nvptx or nvptx:CHIP of sm_80"):
            find_device(spec)


TWO = """
func.func @two(%x: tensor<8x12xf32>, %w: tensor<2x6x4xf32>, %v: tensor<4x5xf32>) -> tensor<8x5xf32> {
  %zero = arith.constant 0.0 : f32
  %left = tensor.extract_slice %x[0, 6] [8, 6] [1, 1] : tensor<8x12xf32> to tensor<8x6xf32>
  %one = tensor.extract_slice %w[1, 0, 0] [1, 6, 4] [1, 1, 1] : tensor<2x6x4xf32> to tensor<6x4xf32>
  %a = tensor.empty() : tensor<8x4xf32>
  %c = linalg.fill ins(%zero : f32) outs(%a : tensor<8x4xf32>) -> tensor<8x4xf32>
  %d = linalg.matmul ins(%left, %one : tensor<8x6xf32>, tensor<6x4xf32>) outs(%c : tensor<8x4xf32>) -> tensor<8x4xf32>
  %e = tensor.empty() : tensor<8x5xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x5xf32>) -> tensor<8x5xf32>
  %g = linalg.matmul ins(%d, %v : tensor<8x4xf32>, tensor<4x5xf32>) outs(%f : tensor<8x5xf32>) -> tensor<8x5xf32>
  return %g : tensor<8x5xf32>
}
"""


@pytest.fixture
def two_products(tmp_path):
    (tmp_path / "two.mlir").write_text(TWO)
    return tmp_path / "two.mlir"


def test_a_whole_is_launches_on_views_and_what_no_binding_can_be_is_copied(two_products):
    payload = open_payload(two_products)
    units, kernels, types = units_of(payload), {}, {}
    for tag, unit in zip(units.tags, units.payloads, strict=True):
        text, task, family = only_task(unit)
        script = family.build(task, family.default(task, VULKAN), VULKAN)
        kernels[tag] = make_kernel(KernelSource(text, script, VULKAN))
        types[tag] = tuple(argument.type for argument in unit.arguments)
    plan = plan_host(HostSource(units.tagged, kernels, types, VULKAN))
    assert (len(plan.launches), plan.copied) == (4, 2)
    assert all(binding.offset % 64 == 0 for launch in plan.launches for binding in launch.bindings)
    kernels |= {copy.name: copy.kernel for copy in plan.copies}
    before, expected = arrays_of(payload, draw(KernelCall(payload)))
    buffers = [array.reshape(-1).view(np.uint8) for array in (*before, np.zeros(plan.arena_bytes // 4, np.float32))]
    for launch in plan.launches:
        parts = [buffers[each.buffer][each.offset : each.offset + each.size] for each in launch.bindings]
        kernel = kernels[launch.kernel]
        run = interpret(kernel, [part.view(np.float32).reshape(shape) for part, shape in shapes(kernel, parts)])
        assert not run.race
        for part, made in zip(parts, run.outputs, strict=True):
            part[:] = made.reshape(-1).view(np.uint8)
    np.testing.assert_allclose(buffers[3].view(np.float32).reshape(8, 5), expected[0], atol=1e-5)


def shapes(kernel, parts):
    """Bytes with the shape that the kernel takes them in."""
    with context():
        module = parse(kernel.text, "kernel")
        function = next(op for op in every_op(module) if op.name == "gpu.func")
        return [
            (part, argument.type.shape)
            for part, argument in zip(parts, function.regions[0].blocks[0].arguments, strict=True)
        ]


@needs_lavapipe
def test_a_payload_of_several_tasks_is_right_as_a_whole(autotune, tmp_path, monkeypatch, two_products):
    monkeypatch.chdir(tmp_path)
    code, stdout, stderr = autotune("tune", two_products, "--target", "vulkan", "--trials", "2", "--bundle", "out")
    assert code == 0, stderr
    said = " ".join(stdout.split())
    assert "as a whole: right, max error" in said
    assert "4 launches of 4 kernels, 2 of them copies or fills" in said
    told = json.loads((tmp_path / "out" / "program.json").read_text())
    assert told["buffers"][-1] == "intermediates"
    assert all((tmp_path / "out" / kernel["file"]).exists() for kernel in told["kernels"].values())
    code, stdout, stderr = autotune("regress", "out")
    assert (code, stdout.split().count("ok"), stdout.split().count("recorded")) == (0, 3, 2), stderr
    code, stdout, _ = autotune("emit", "out", "--output", "emitted")
    assert code == 0
    assert sorted(Path(line).suffix for line in stdout.split()) == [".h", *[".spv"] * 4]
    assert "autotune_two_launches[][3]" in (tmp_path / "emitted" / "autotune_two.h").read_text()


@needs_lavapipe
def test_a_search_on_lavapipe_ends_with_a_right_kernel_and_no_time(autotune, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["matmul,m=12,n=20,k=8", "--target", "vulkan", "--trials", "2", "--bundle", "out", "--json"]
    code, stdout, stderr = autotune("tune", *words)
    assert code == 0, stderr
    told = json.loads(stdout)
    assert told["outcomes"] == {"ok": 2}
    assert told["measured"] is False
    assert told["max_error"] < 1e-5
    assert (tmp_path / "out" / "kernel.spv").read_bytes()[:4] == b"\x03\x02\x23\x07"
    assert json.loads((tmp_path / "out" / "chosen.json").read_text())["bindings"] == ["a", "b", "c"]
    assert "seconds" not in stdout
    schedule = tmp_path / "out" / "schedule.mlir"
    larger = schedule.read_text().replace("block_dims = [", "block_dims = [4096, ").replace(", 1] sync", "] sync")
    schedule.write_text(larger)
    code, stdout, _ = autotune("replay", "out")
    assert code == 1
    assert "matmul,m=12,n=20,k=8: " in stdout
    (tmp_path / "out" / "payload.mlir").write_text("module {}")
    refused("replay", "out", words="must be as it was recorded, its sha256 differs")
    refused("replay", "out", "--emit", "asm", words="made again and verified, no more; drop --emit")


@needs_lavapipe
def test_a_kernel_that_is_wrong_is_an_outcome_and_the_driver_is_sandboxed():
    payload, source = source_of("matmul,m=32,n=32,k=16", SQUARE)
    driver, kernel = vulkan.find_lavapipe(), make_kernel(source)
    binary = spirv.serialise(spirv.spirv_text(make_kernel(replace(source, dropped=(0, 1, 2)))))
    spirv.validate(binary, driver.validator)
    assert run_kernel(payload, kernel, binary, draw(KernelCall(payload)), driver).outcome == "wrong-result"
    with pytest.raises(CompileError, match="spirv-val: "):
        spirv.validate(binary[:-8], driver.validator)
    with pytest.raises(KernelError, match="on lavapipe: "):
        run_kernel(payload, replace(kernel, name="nothing"), binary, draw(KernelCall(payload)), driver)
