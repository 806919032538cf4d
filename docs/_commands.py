"""The reference of the command line, written from the commands themselves; `--check` only compares."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from autotune.cli.verbs import app

PAGE = Path(__file__).parent / "reference" / "cli.md"
WIDTH = 100
HEAD = """# Command line

Written by `make docs` from `autotune VERB --help`. Exit codes: 0 fine, 1 the check failed, 2 misuse, 3 too noisy to
judge (`regress`), 130 interrupted, 141 nobody reads the results (`| head`), 143 terminated.
Results go to stdout, progress to stderr.
"""


def page() -> str:
    """All verbs, in their order; those of a group, such as `lab copy`, by both words."""
    command = typer.main.get_command(app)
    parts = [HEAD]
    for name, verb in verbs_of(command):
        with verb.make_context(f"autotune {name}", [], resilient_parsing=True, terminal_width=WIDTH) as context:
            parts.append(f"\n## {name}\n\n```text\n{verb.get_help(context).strip()}\n```\n")
    return "".join(parts)


def verbs_of(command: Any, before: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    """Names and commands that help shows, those of groups in their place."""
    for name, verb in command.commands.items():
        if verb.hidden:
            continue
        if hasattr(verb, "commands"):
            yield from verbs_of(verb, f"{before}{name} ")
        else:
            yield before + name, verb


def main() -> int:
    """Write the page, or only look."""
    if "--check" not in sys.argv:
        PAGE.write_text(page())
    elif not PAGE.exists() or PAGE.read_text() != page():
        print(f"{PAGE.name} must show the commands as they are; run `make docs`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
