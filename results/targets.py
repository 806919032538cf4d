"""Other processors in docs/results.md: every kernel of the corpus, for every shipped machine, under its emulator.

`measure` compiles each by the machine's default configs, runs it under QEMU, compares it with the oracle and asks
llvm-mca about the hot loop of a matmul; it measures no time. Needs qemu-user and C compilers for both architectures:
docs/how-to/targets.md. Then it asks how far models can be believed: configs drawn at random are predicted for this
machine, and measured on it.
"""

import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from blocks import Block, Only, keep, read, table
from scipy.stats import spearmanr

from autotune.compiler.codegen.this_target import this_target
from autotune.contrib.targets.emulator import find_emulator
from autotune.contrib.targets.program import compile_default, verify_emulated
from autotune.contrib.targets.report import judge_loops
from autotune.contrib.targets.target_file import shipped_targets
from autotune.contrib.targets.tune import ModelSearch
from autotune.core.console import duration
from autotune.core.evaluator import Job
from autotune.core.scripts.assembly import write_step
from autotune.core.target import Target
from autotune.registry import family_for
from autotune.tuning.candidates import candidate_alone
from autotune.tuning.samplers.search import Search
from autotune.tuning.stages.task_search import SEARCH_EFFORT
from autotune.worker.loading.reading import open_payload, partition
from autotune.worker.worker import Worker

MODEL = "gpt,d_model=16,heads=2,d_ff=32,vocab=17,seq=5,layers=2"
CORPUS = (
    "matmul,m=17,n=9,k=33",
    "matmul,m=17,n=9,k=33,transpose_b=1",
    "matmul,m=37,n=67,k=29,constant_b=1",
    "matmul,m=64,n=96,k=128,constant_b=1,transpose_b=1",
    "matmul,m=1,n=1,k=1",
    "matmul,m=61,n=53,k=128",
    "matmul,m=96,n=192,k=160",
    "batch_matmul,batch=3,m=5,n=7,k=11",
    "batch_matmul,batch=3,m=5,n=7,k=11,transpose_b=1",
    "attention,heads=3,seq=13,d=8",
    "attention,heads=3,seq=13,d=8,causal=1",
    "attention,heads=1,seq=128,d=16,causal=1",
    "layer_norm,rows=7,cols=33",
    "softmax,rows=7,cols=33",
    "softmax,rows=1,cols=1",
    "gelu,rows=7,cols=33",
    "embedding,rows=7,cols=33,vocab=19",
    "conv,channels=4,filters=6,size=9",
    "conv,channels=4,filters=6,size=9,layout=nhwc",
    "conv,batch=2,channels=3,filters=5,size=11,stride=2,padding=0",
    "conv,channels=8,filters=8,size=7,groups=8",
    "resnet_block,channels=4,filters=6,size=6,stride=2,layout=nhwc",
    MODEL,
    f"{MODEL},function=prefill",
    f"{MODEL},function=decode",
    f"{MODEL},function=decode,weights=bf16",
    f"{MODEL},function=decode,weights=int8",
    "nano",
)
LARGE = "matmul,m=256,n=256,k=256,constant_b=1"
MODELLED = (
    "matmul,m=256,n=256,k=256,constant_b=1",
    "matmul,m=512,n=512,k=512",
    "matmul,m=128,n=768,k=3072,constant_b=1",
    "batch_matmul,batch=12,m=128,n=128,k=64,transpose_b=1",
)
CONFIGS = 40  # drawn of each space, the default first
MODEL_HEAD = ("payload", "configs", "Spearman", "fastest by models", "default", "fastest")
HEAD = (
    "machine",
    "vectors",
    "right",
    "largest error",
    "run by",
    f"hot loop of `{LARGE}`",
    "llvm-mca: cycles an iteration",
    "FMAs a cycle",
)


def measure(only: Only = "") -> None:
    """Compile and verify the corpus for every machine whose name contains `only`; then judge the models here."""
    for target in shipped_targets().values():
        if only in target.name:
            keep("targets", target.name, examine(target))
    for spec in MODELLED:
        if only in spec:
            keep("targets", spec, judge_models(spec))


def judge_models(spec: str) -> dict[str, Any]:
    """What models predict of configs for this machine, beside what they take on it."""
    (task,) = partition(open_payload(spec)).tasks
    family, target = family_for(task), this_target()
    assert family is not None
    machine = target.machine
    search = Search(family.space(task, machine), family.default(task, machine), sampler="random", seed=0)
    rows = []
    with Worker() as worker:
        models = ModelSearch(task, family, target, worker)
        for config in filter(None, (search.ask() for _ in range(CONFIGS))):
            predicted = models.predict(config)
            candidate = candidate_alone(write_step(task, family, config, machine, alone=True))
            (run,) = worker.evaluate(Job(task.payload, (candidate,), machine, effort=SEARCH_EFFORT))
            if predicted is not None and run.samples is not None:
                rows.append({"config": config, "cycles": predicted.cycles, "seconds": run.samples.normalised})
                typer.echo(f"{spec}: {predicted.cycles:.4g} cycles, {duration(run.samples.normalised)}")
    return {"machine": asdict(machine), "rows": rows}


def examine(target: Target) -> dict[str, Any]:
    """What became of the corpus on one machine."""
    emulator = find_emulator(target)
    with Worker() as worker:
        checks = []
        for spec in CORPUS:
            check = verify_emulated(compile_default(open_payload(spec), target, worker), worker)
            typer.echo(f"{target.name} {spec}: {check.outcome} {check.diagnostic}")
            checks.append(check)
        (loop,) = judge_loops(compile_default(open_payload(LARGE), target, worker), worker)
    output = subprocess.run([emulator.command[0], "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout
    machine = asdict(target.machine)
    return {
        "machine": {key: machine[key] for key in ("isa", "vector_bits", "vector_registers", "l1_bytes", "l2_bytes")},
        "cpu": target.cpu,
        "emulator": emulator.about,
        "version": output.splitlines()[0],
        "checks": [asdict(check) for check in checks],
        "loop": asdict(loop),
    }


def part(path: Path) -> str:
    """What was found of every machine."""
    found = {name: data for name in shipped_targets() if (data := read(path, name))}
    versions = sorted({data["version"] for data in found.values()})
    rows = [row(name, data) for name, data in found.items()]
    text = f"\n{len(CORPUS)} kernels and models; {', '.join(versions)}:\n\n" + table(HEAD, rows)
    judged = {spec: data for spec in MODELLED if (data := read(path, spec))}
    if judged:
        text += f"\nModels beside measurements, in `results/{path.parent.name}`:\n\n"
        text += table(MODEL_HEAD, [model_row(spec, data["rows"]) for spec, data in judged.items()])
    return text


def model_row(spec: str, rows: list[dict[str, Any]]) -> str:
    """One line of the table of models: ranks agree or not, and what the choice by models costs."""
    cycles, seconds = ([each[name] for each in rows] for name in ("cycles", "seconds"))
    agreement = float(spearmanr(cycles, seconds).statistic)
    chosen = min(rows, key=lambda each: each["cycles"])["seconds"]
    cells = [f"`{spec}`", str(len(rows)), f"{agreement:.2f}", *map(duration, (chosen, seconds[0], min(seconds)))]
    return "| " + " | ".join(cells) + " |"


def row(name: str, data: dict[str, Any]) -> str:
    """One line of the table."""
    checks, machine, loop = data["checks"], data["machine"], data["loop"]
    right = [check for check in checks if check["outcome"] == "ok"]
    worst = max((check["max_error"] for check in right), default=0.0)
    cycles = loop["cycles"]
    rate = f"{loop['fmas'] / cycles:.2f}" if cycles and loop["fmas"] else ""
    cells = [f"`{name}`", f"{machine['isa']}, {machine['vector_bits']} bits", f"{len(right)} of {len(checks)}"]
    cells += [f"{worst:.1e}", f"`{data['emulator']}`", loop["mix"], f"{cycles:.1f}" if cycles else "-", rate or "-"]
    return "| " + " | ".join(cells) + " |"


BLOCK = Block("targets", part, measure)


if __name__ == "__main__":
    BLOCK.serve()
