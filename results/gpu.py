"""Kernels for GPUs in docs/results.md: right on lavapipe, without a race, assembled for every chip; nothing is timed.

Every kernel is made by its family's default config and by drawn ones; the default's PTX is assembled for each chip.
A large product is judged by the model alone. Needs the extra `gpu` and lavapipe: docs/how-to/gpu.md.
"""

import re
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from blocks import Block, Only, keep, load, read, table

from autotune.contrib.gpu import nvptx
from autotune.contrib.gpu.device import CHIPS, VULKAN, nvidia
from autotune.contrib.gpu.examine import Examined, KernelCall
from autotune.contrib.gpu.tune import Examiner, KernelWorkshop, only_task
from autotune.contrib.gpu.vulkan import find_lavapipe
from autotune.tuning.samplers.search import Search
from autotune.worker.loading.reading import open_payload
from autotune.worker.worker import Worker

CORPUS = {
    "matmul": (
        "matmul,m=128,n=128,k=128",
        "matmul,m=64,n=96,k=80",
        "matmul,m=17,n=9,k=33",
        "matmul,m=1,n=1,k=1",
        "matmul,m=1,n=384,k=65",
        "matmul,m=127,n=61,k=53",
        "matmul,m=100,n=70,k=90",
        "matmul,m=17,n=9,k=33,transpose_b=1",
        "batch_matmul,batch=3,m=5,n=7,k=11",
        "batch_matmul,batch=3,m=5,n=7,k=11,transpose_b=1",
        "batch_matmul,batch=2,m=33,n=31,k=17",
    ),
    "softmax": tuple(f"softmax,rows={r},cols={c}" for r, c in ((512, 512), (7, 33), (1, 1), (37, 1000), (129, 127))),
    "attention": (
        "attention",
        "attention,heads=3,seq=13,d=8",
        "attention,heads=3,seq=13,d=8,causal=1",
        "attention,heads=1,seq=97,d=16,causal=1",
        "attention,heads=2,seq=1,d=5",
        "attention,heads=5,seq=31,d=7",
    ),
    "layer_norm": tuple(
        f"layer_norm,rows={r},cols={c}" for r, c in ((512, 512), (7, 33), (1, 1), (64, 769), (129, 127))
    ),
    "others": (
        "gelu,rows=7,cols=33",
        "gelu,rows=64,cols=256",
        "gelu,rows=1,cols=513",
        "embedding,rows=7,cols=33,vocab=19",
    ),
}
LARGE, SHARED = "matmul,m=4096,n=4096,k=4096", ("sm_80", "sm_90")
DRAWN = 2  # configs of each kernel besides the default
HEAD = ("kernels", "shapes", "right", "races", "largest error", "assembled for six chips", "spills", "most registers")


def measure(only: Only = "") -> None:
    """Make, verify and assemble every kernel whose name contains `only`, and judge the large product by the model."""
    driver = find_lavapipe()
    with Worker() as worker:
        workshop = KernelWorkshop(VULKAN, worker, driver)
        for kind, specs in CORPUS.items():
            for spec in specs:
                if only in spec:
                    keep("gpu", spec, {"kind": kind, **examine(spec, workshop)})
        if only in LARGE:
            keep("gpu", LARGE, {chip: judge(chip, worker) for chip in SHARED})
    keep("gpu", "versions", versions())


def versions() -> dict[str, str]:
    """Versions of what verified and what assembled."""
    listed = ["dpkg-query", "-W", "-f", "${Version}", "mesa-vulkan-drivers"]
    mesa = subprocess.run(listed, check=True, stdout=subprocess.PIPE, text=True).stdout
    ptxas = nvptx.find_ptxas()
    assert ptxas is not None
    return {"mesa": mesa, "ptxas": nvptx.version_of(ptxas)}


def examine(spec: str, workshop: KernelWorkshop) -> dict[str, Any]:
    """What became of a payload's kernels: the default one, assembled for every chip, and drawn ones."""
    payload = open_payload(spec)
    text, task, family = only_task(payload)
    search = Search(family.space(task, VULKAN), family.default(task, VULKAN), sampler="random", seed=0)
    examiner = Examiner(workshop, KernelCall(payload), text)
    configs = [config for config in (search.ask() for _ in range(1 + DRAWN)) if config is not None]
    found = [examiner.examine(family.build(task, config, VULKAN)) for config in configs]
    typer.echo(f"{spec}: {', '.join(each.outcome + ' ' + each.diagnostic for each in found)}")
    return {
        "family": family.name,
        "outcomes": [each.outcome for each in found],
        "races": sum("race" in each.diagnostic for each in found),
        "max_error": max(each.max_error for each in found),
        "assembled": {chip: assemble(found[0], chip) for chip in CHIPS},
    }


def assemble(examined: Examined, chip: str) -> dict[str, int]:
    """Registers of a thread and bytes that it spills, on a chip."""
    ptxas, kernel = nvptx.find_ptxas(), examined.made.kernel
    assert ptxas is not None
    assert kernel is not None
    assembled = nvptx.assemble(nvptx.ptx_text(kernel, chip), chip, ptxas)
    return {"registers": assembled.registers, "spilled": assembled.spilled}


def judge(chip: str, worker: Worker) -> dict[str, Any]:
    """What the model says of the large product by its default config."""
    payload = open_payload(LARGE)
    text, task, family = only_task(payload)
    device = nvidia(chip)
    examiner, config = (
        Examiner(KernelWorkshop(device, worker, None), KernelCall(payload), text),
        family.default(task, device),
    )
    found = examiner.examine(family.build(task, config, device))
    assert found.estimate is not None
    assert found.assembled is not None
    typer.echo(f"{LARGE} on {chip}: {found.estimate.fused:.1%} of the multiply-adds")
    return {"config": dict(config), **asdict(found.estimate), **asdict(found.assembled)}


def part(path: Path) -> str:
    """What was found on a machine."""
    found = load(path)
    rows = [row(kind, [read(path, spec) for spec in specs if read(path, spec)]) for kind, specs in CORPUS.items()]
    tools, large = read(path, "versions"), read(path, LARGE)
    mesa = re.split(r"[-+]", tools["mesa"])[0]
    shares = ", ".join(f"{large[chip]['fused']:.0%} of the multiply-adds of {chip}" for chip in large)
    right = sum(each["outcomes"].count("ok") for each in found.values() if "outcomes" in each)
    kernels = sum(len(each["outcomes"]) for each in found.values() if "outcomes" in each)
    summary = f"\n{right} of {kernels} kernels right, lavapipe of Mesa {mesa}, ptxas {tools['ptxas']}:\n\n"
    return f"{summary}{table(HEAD, rows)}\n`{LARGE}` by its default config, by the model alone: {shares}.\n"


def row(kind: str, found: list[dict[str, Any]]) -> str:
    """One line of the table."""
    outcomes = [outcome for each in found for outcome in each["outcomes"]]
    assembled = [chip for each in found for chip in each["assembled"].values()]
    cells = [kind, str(len(found)), f"{outcomes.count('ok')} of {len(outcomes)}", str(sum(e["races"] for e in found))]
    cells += [f"{max(each['max_error'] for each in found):.1e}", f"{len(assembled)} of {len(CHIPS) * len(found)}"]
    cells += [str(sum(bool(each["spilled"]) for each in assembled)), str(max(each["registers"] for each in assembled))]
    return "| " + " | ".join(cells) + " |"


BLOCK = Block("gpu", part, measure)

if __name__ == "__main__":
    BLOCK.serve()
