"""Option ``--cluster`` of `tune` and `doctor`."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.say import complain
from autotune.cli.tune import ELSEWHERE, FOR, check_folder, tune_by_measuring
from autotune.plugins import Arguments, VerbOption, option

if TYPE_CHECKING:
    from autotune.contrib.cluster.doctor import MemberDiagnosis
    from autotune.contrib.cluster.slot import Slot
    from autotune.tuning.options import TuneOptions
    from autotune.tuning.stages.workplace import Workplace


def tune_on_cluster(arguments: Arguments) -> None:
    """Run `tune --cluster`: tune as usual, with the measurements made by a team of the cluster's machines."""
    from autotune.tuning.options import options_given
    from autotune.tuning.stages.opening import check_names

    check_folder(arguments["payloads"], arguments["bundle"])
    options = options_given(arguments)
    check_options(options)
    check_names(options)
    machines = open_machines(arguments["cluster"], arguments["kind"], options.threads, options.timeout)
    output = {name: arguments[name] for name in ("store", "bundle", "as_json")}
    tune_by_measuring(arguments["payloads"], options, machines, **output)


def check_options(options: "TuneOptions") -> None:
    """Check that no option is given that only applies to measurements on this machine.

    Raises:
        BadParameter: Such an option is given.
    """
    if options.jobs > 1:
        raise typer.BadParameter("--jobs is of this machine, a cluster has a job a slot: give --cluster or --jobs")
    if options.goal.has_joules:
        raise typer.BadParameter("--objective with joules is of this machine, --cluster measures on others: give one")
    if options.backends:
        raise typer.BadParameter("--backend makes code for this machine, --cluster measures on others: give one")
    if options.error or options.agreement:
        raise typer.BadParameter("--error or --agreement chooses families here, --cluster measures elsewhere: give one")


@contextmanager
def open_machines(cluster: str, kind: str, threads: int, timeout: float) -> "Iterator[Workplace]":
    """Open the machines of a cluster for which candidates are tuned, as a workplace.

    Args:
        cluster: Address of the cluster.
        kind: Prefix of the fingerprint of the machines; empty if all are of one kind; ``all`` for one sweep per kind.
        threads: Threads that programs may use.
        timeout: Seconds that one candidate may take.

    Yields:
        Workplace of the team of that kind.

    Raises:
        typer.Exit: The sweeps of all kinds have ended, each in a process of its own.
    """
    from autotune.contrib.cluster.bench import RemoteBench
    from autotune.contrib.cluster.cluster import Cluster
    from autotune.contrib.cluster.kinds import ALL, kinds_of, open_team
    from autotune.tuning.stages.workplace import Workplace

    with Cluster.open(cluster, threads) as opened:
        if kind == ALL:
            slots = kinds_of(opened, threads, complain)
            if len(slots) > 1:
                raise typer.Exit(sweep_each(slots, sys.argv))
        team = open_team(opened, "" if kind == ALL else kind, threads, timeout, complain)
        complain(f"{team.count()} slot(s) of kind {team.slot.fingerprint}, {team.machine.cpu}")
        yield Workplace(
            team.machine,
            searchers=lambda: nullcontext(team),
            benches=lambda: [RemoteBench(team, member.address) for member in team.members],
            another=lambda seconds: RemoteBench(team, team.members[0].address).another(seconds),
            noise_floor=max(member.slot.noise_floor for member in team.members if member.slot),
        )


def sweep_each(slots: "Sequence[Slot]", command: Sequence[str]) -> int:
    """Run a command once per kind of machine, in parallel; return the largest exit code.

    Args:
        slots: One slot of each kind.
        command: Command line in which the value of ``--for`` is replaced by the fingerprint.
    """
    sweeps = []
    for slot in slots:
        pairs = zip(["", *command[:-1]], command, strict=True)
        words = [slot.fingerprint if before == "--for" else word for before, word in pairs]
        words = [f"--for={slot.fingerprint}" if word.startswith("--for=") else word for word in words]
        complain(f"a sweep for {slot.fingerprint} begins")
        sweeps.append(subprocess.Popen([sys.executable, *words]))
    return max(sweep.wait() for sweep in sweeps)


def examine_machines(arguments: Arguments) -> None:
    """Run `doctor --cluster`: list the machines of a cluster; exit 1 if there is none, or one cannot be used."""
    from autotune.contrib.cluster.cluster import Cluster
    from autotune.contrib.cluster.doctor import examine_cluster

    if arguments["noise"]:
        raise typer.BadParameter("--noise is of this machine; those of a cluster measure theirs when they join")
    with Cluster.open(arguments["cluster"], arguments["threads"]) as opened:
        diagnoses = examine_cluster(opened)
    if arguments["as_json"]:
        typer.echo(json.dumps([each.to_json() for each in diagnoses]))
    else:
        show_members(diagnoses)
    if not diagnoses or any(each.wrong for each in diagnoses):
        raise typer.Exit(1)


def show_members(diagnoses: "Sequence[MemberDiagnosis]") -> None:
    """Print the diagnosis of every machine of a cluster."""
    from autotune.cli.layout import show_facts, show_sentence
    from autotune.reports.format import out, plural

    console = out()
    for each in diagnoses:
        facts = {"worker": f"{each.address} on {each.host}"}
        if each.machine is not None:
            m = each.machine
            facts["cpu"] = f"{m.cpu} ({m.microarchitecture}), {m.isa}, core(s) {', '.join(map(str, each.cores))}"
        if each.roofs is not None and each.machine is not None:
            roofs = each.roofs
            facts["FMA roof"] = f"{roofs.flops / 1e9:.1f} GFLOP/s, {plural(each.machine.threads, 'core')}, f32"
            facts["memory roof"] = (
                f"{roofs.dram_bytes / 1e9:.1f} GB/s from memory, {roofs.l2_bytes / 1e9:.1f} GB/s from L2"
            )
        if each.slot is not None:
            facts["noise floor"] = f"{each.slot.noise_floor:.2%} (A/A, 95 of 100)"
            facts["software"] = each.slot.software
            facts["fingerprint"] = each.slot.fingerprint
        show_facts(console, facts)
        for sentence in each.wrong:
            show_sentence(console, f"wrong: {sentence}", 2)
        for sentence in each.advice:
            show_sentence(console, f"advice: {sentence}", 2)
    used = sum(not each.wrong for each in diagnoses)
    show_sentence(console, f"{plural(len(diagnoses), 'slot')}, {used} can be used")


TUNE = VerbOption(
    "tune",
    (
        option(
            "cluster",
            Annotated[
                str,
                typer.Option(
                    rich_help_panel=ELSEWHERE,
                    metavar="ADDRESS",
                    help="Machines that measure: tcp://HOST:8786, a scheduler file, local:N.",
                ),
            ],
            "",
        ),
        FOR,
    ),
    takes=lambda arguments: bool(arguments["cluster"]),
    run=tune_on_cluster,
)
DOCTOR = VerbOption(
    "doctor",
    (
        option(
            "cluster",
            Annotated[
                str,
                typer.Option(
                    metavar="ADDRESS",
                    help="List the machines of a cluster, and say which are not used and why: tcp://HOST:8786, "
                    "a scheduler file.",
                ),
            ],
            "",
        ),
    ),
    takes=lambda arguments: bool(arguments["cluster"]),
    run=examine_machines,
)
