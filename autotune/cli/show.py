"""`autotune show`: print a payload or bundle after a stage of the compilation."""

from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.options import Exact, RuleFile
from autotune.cli.say import say
from autotune.core.host.whole_file import write_file
from autotune.core.printable import fold, one_line


def show(
    source: Annotated[str, typer.Argument(metavar="PAYLOAD|BUNDLE", help="A payload as for `tune`, or a folder.")],
    stage: Annotated[
        str,
        typer.Option(
            help="dialect, payload, rewritten, tasks, analysis, space, schedule, parametric, scheduled, bufferized, "
            "lowered, llvm, asm, code, a step."
        ),
    ] = "schedule",
    task: Annotated[str | None, typer.Option(metavar="TAG", help="One task alone; `--stage tasks` lists them.")] = None,
    config: Annotated[str | None, typer.Option(metavar="K=V,...", help="Knobs of that task.")] = None,
    diff: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="A B", help="What differs between two stages, or two configs (K=V,... or default)."),
    ] = None,
    schedule: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A transform script of your own, as for `tune`.")
    ] = None,
    family: Annotated[
        str, typer.Option(metavar="NAME|FILE.py:NAME", help="A family of schedules, as for `tune`.")
    ] = "",
    rules: RuleFile = "",
    exact: Exact = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there.")] = None,
) -> None:
    """Print a payload, or a bundle, after a stage of the flow; on stderr, how much memory its buffers take.

    Steps lie between schedule and bufferized: online-softmax, panels, empty-handles, script (upstream's interpreter),
    stencil, fastmath, skip-masked, zeros, prefetch, prefetch-rows, vector-math, panel-loads; and arena, after
    bufferized.

    `parametric` is a family's script for one task with its knobs as open transform.tune ops: change a line, and give it
    to `tune --schedule`.

    `dialect` is a payload in the ops that it is written in, with the shapes that were inferred.
    `rewritten` is the payload after rewrite rules, and on stderr which fired where; `--diff payload rewritten` is what
    they changed.

    `analysis` is what can be known before it runs: operations and bytes, what is fused and why not, ranges of values
    and what precision each needs, the arena over time, reuse distances and what each cache fetches.
    `space` is what may be chosen: knobs with their values, constraints, and how many combinations are distinct
    and valid.
    `asm` is the hot loop, with its instruction mix and llvm-mca's cycles beside measured ones; `code` is all of it.

    Example: autotune show matmul,m=512,n=512,k=512 --stage asm --diff default unroll_k=1
    """
    from autotune.cli.highlight import print_code
    from autotune.core.progress import ProgressLine
    from autotune.reports.show import show, show_difference

    with ProgressLine() as line:
        line.stage(f"reading {source}")
        if diff is None:
            shown = show(source, stage, task, config, schedule, family=family, rules=rules, exact=exact)
        else:
            shown = show_difference(
                source, stage, diff, task=task, config=config, schedule=schedule, rules=rules, exact=exact
            )
    if output is not None:
        write_file(output, shown.text.rstrip() + "\n")
    else:
        text = shown.text.rstrip()
        print_code(folded(text) if stage == "space" and diff is None else text, is_diff=diff is not None)
    for sentence in filter(None, (shown.note, shown.doubt)):
        say(one_line(sentence))


def folded(text: str) -> str:
    """Wrap lines to the width of the terminal, with indented continuation lines."""
    from autotune.reports.format import out

    width = out().width
    return "\n".join(part for line in text.splitlines() for part in fold(line, width, 0, 2) or [""])
