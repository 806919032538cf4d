"""`autotune doctor`: what this machine can do."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.options import AsJson
from autotune.cli.say import complain
from autotune.store.places import home

if TYPE_CHECKING:
    from autotune.worker.doctor import Diagnosis


def doctor(
    noise: Annotated[
        bool,
        typer.Option("--noise", help="Measure noise for a minute, and keep the floor for `tune`."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure this machine's roofs and noise, say what is missing and what to change. Exit 1 if something is missing.

    Example: autotune doctor
    """
    from autotune.worker.doctor import A_A_PAIRS, MANY_PAIRS, examine
    from autotune.worker.noise import write_floor

    if noise:
        home().mkdir(parents=True, exist_ok=True)  # before minutes are spent
    found = examine(MANY_PAIRS if noise else A_A_PAIRS)
    if noise:
        path = write_floor(home(), found.machine, found.noise_floor, MANY_PAIRS)
        complain(f"noise floor {found.noise_floor:.2%} kept in {path}")
    if as_json:
        typer.echo(json.dumps(found.to_json()))
    else:
        show_diagnosis(found)
    if found.missing:
        raise typer.Exit(1)


def show_diagnosis(found: "Diagnosis") -> None:
    """Print what this machine is, what is missing, and what would make numbers steadier."""
    from autotune.cli.layout import show_facts, show_sentence
    from autotune.core.pages import HUGE_BYTES, gives_huge_pages
    from autotune.reports.format import out

    console = out()
    m, roofs = found.machine, found.roofs
    kernel = "" if gives_huge_pages() else ": this kernel gives no huge ones"
    can = ", ".join(found.holes) or "only read files"
    memory = f"{roofs.dram_bytes / 1e9:.1f} GB/s from memory, {roofs.l2_bytes / 1e9:.1f} GB/s from L2"
    facts = {
        "cpu": f"{m.cpu} ({m.microarchitecture}), {m.cores} core(s)",
        "vectors": f"{m.isa}, {m.vector_bits} bits, {m.vector_registers} registers",
        "caches": f"L1 {m.l1_bytes >> 10} KiB, L2 {m.l2_bytes >> 10} KiB, L3 {m.l3_bytes >> 10} KiB",
        "FMA roof": f"{roofs.flops / 1e9:.1f} GFLOP/s, one core, f32",
        "memory roof": memory,
        "noise floor": f"{found.noise_floor:.2%} (A/A, 95 of 100)",
        "pages": f"{m.pages}, for arrays from {HUGE_BYTES >> 20} MiB{kernel}",
        "sandbox": f"{', '.join(found.walls) or 'none'}; a program in it can {can}",
        "compiler": found.compiler,
        "fingerprint": m.fingerprint,
    }
    show_facts(console, facts)
    for sentence in found.missing:
        show_sentence(console, f"missing: {sentence}")
    for sentence in found.advice:
        show_sentence(console, f"advice: {sentence}")
    if not found.missing:
        show_sentence(console, "nothing is missing")
