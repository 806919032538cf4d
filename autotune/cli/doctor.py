"""`autotune doctor`: measure and diagnose this machine."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.options import AsJson, Threads
from autotune.cli.say import complain
from autotune.store.folders import home

if TYPE_CHECKING:
    from autotune.core.host.machine import Roofs
    from autotune.worker.doctor import Diagnosis

F32_ROOFS = ("flops", "dram_bytes", "l2_bytes")  # rates that every machine has


def doctor(
    noise: Annotated[
        bool,
        typer.Option("--noise", help="Measure noise for a minute, and keep the floor for `tune`."),
    ] = False,
    threads: Threads = 1,
    as_json: AsJson = False,
) -> None:
    """Measure this machine's roofs and noise, say what is missing and what to change. Exit 1 if something is missing.

    Example: autotune doctor
    """
    from autotune.worker.bench.noise import write_floor
    from autotune.worker.doctor import A_A_PAIRS, MANY_PAIRS, examine

    if noise:
        home().mkdir(parents=True, exist_ok=True)  # before minutes are spent
    diagnosis = examine(MANY_PAIRS if noise else A_A_PAIRS, threads)
    if noise:
        path = write_floor(home(), diagnosis.machine, diagnosis.noise_floor, MANY_PAIRS)
        complain(f"noise floor {diagnosis.noise_floor:.2%} kept in {path}")
    if as_json:
        typer.echo(json.dumps(diagnosis.to_json()))
    else:
        show_diagnosis(diagnosis)
    if diagnosis.missing:
        raise typer.Exit(1)


def dot_roofs(roofs: "Roofs") -> str:
    """Format the peak rates of dot products in narrower types, with their ratios to f32.

    Example:
        >>> from autotune.core.host.machine import Roofs
        >>> dot_roofs(Roofs(1e11, 1e10, 1e11, bf16=1.9e11, int8=4e11))
        'bf16 190.0 Gop/s (1.90 x FMA), int8 400.0 Gop/s (4.00 x FMA)'
    """
    rates = {name: rate for name, rate in roofs.known.items() if name not in F32_ROOFS}
    return ", ".join(f"{name} {rate / 1e9:.1f} Gop/s ({rate / roofs.flops:.2f} x FMA)" for name, rate in rates.items())


def facts_of_features() -> dict[str, str]:
    """Return the lines that plug-ins contribute about this machine, by label."""
    from autotune.core.plugs.verb import MachineFact
    from autotune.registry import FACTS, loaded_points

    return {point.name: fact.describe() for point, fact in loaded_points(FACTS, MachineFact, complain)}


def show_diagnosis(diagnosis: "Diagnosis") -> None:
    """Print the properties of this machine, what is missing, and how to reduce noise."""
    from autotune.cli.layout import show_facts, show_sentence
    from autotune.compiler.codegen.openmp import missing_runtime
    from autotune.core.host.matrix_unit import describe_unit
    from autotune.core.host.pages import HUGE_BYTES, gives_huge_pages
    from autotune.reports.format import out, plural
    from autotune.worker.probe import ATTEMPTS

    console = out()
    m, roofs = diagnosis.machine, diagnosis.roofs
    kernel = "" if gives_huge_pages() else ": this kernel gives no huge ones"
    holes = f"{', '.join(diagnosis.holes)} succeeded" if diagnosis.holes else "none succeeded"
    tried = f"{len(ATTEMPTS)} attempts to escape, {holes}"
    memory = f"{roofs.dram_bytes / 1e9:.1f} GB/s from memory, {roofs.l2_bytes / 1e9:.1f} GB/s from L2"
    forks = f"{diagnosis.fork_seconds * 1e6:.1f} us a parallel loop of {m.threads}; " if m.threads > 1 else ""
    facts = {
        "cpu": f"{m.cpu} ({m.microarchitecture}), {m.cores} core(s)",
        "vectors": f"{m.isa}, {m.vector_bits} bits, {m.vector_registers} registers",
        "matrix unit": describe_unit(),
        "caches": f"L1 {m.l1_bytes >> 10} KiB, L2 {m.l2_bytes >> 10} KiB, L3 {m.l3_bytes >> 10} KiB",
        "FMA roof": f"{roofs.flops / 1e9:.1f} GFLOP/s, {plural(m.threads, 'core')}, f32",
        **({"dot roofs": dot_roofs(roofs)} if len(roofs.known) > len(F32_ROOFS) else {}),
        "memory roof": memory,
        "noise floor": f"{diagnosis.noise_floor:.2%} (A/A, 95 of 100)",
        "pages": f"{m.pages}, for arrays from {HUGE_BYTES >> 20} MiB{kernel}",
        "sandbox": f"{', '.join(diagnosis.walls) or 'none'}; {tried}",
        "threads": f"{diagnosis.physical} core(s) for a thread each; {forks}{diagnosis.openmp or missing_runtime()}",
        "energy": diagnosis.energy,
        "compiler": diagnosis.compiler,
        "fingerprint": m.fingerprint,
    }
    show_facts(console, facts | facts_of_features())
    for sentence in diagnosis.missing:
        show_sentence(console, f"missing: {sentence}")
    for sentence in diagnosis.advice:
        show_sentence(console, f"advice: {sentence}")
    if not diagnosis.missing:
        show_sentence(console, "nothing is missing")
