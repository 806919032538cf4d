"""`autotune list rules`: rewrite rules, and how often each fires."""

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.options import AsJson, Exact, RuleFile
from autotune.plugins import Arguments, Verb, VerbOption, option

if TYPE_CHECKING:
    from autotune.contrib.rules.report import RuleCount


def rules(
    payloads: Annotated[
        list[str] | None,
        typer.Argument(metavar="PAYLOAD", help="Payloads as for `tune`; by default all there are."),
    ] = None,
    rules: RuleFile = "",
    exact: Exact = False,
    as_json: AsJson = False,
) -> None:
    """List rewrite rules: what each takes and makes, when, how it rounds, and how often it fires on payloads.

    They are applied to a payload before its tasks are found. `show PAYLOAD --stage rewritten` says which fired where.

    Example: autotune list rules nano gpt2
    """
    from autotune.cli.reading import read_payloads
    from autotune.contrib.rules.files import read_rules
    from autotune.contrib.rules.report import count_firings, payloads_there_are
    from autotune.core.progress import ProgressLine

    active = read_rules(rules or None, exact=exact)
    with ProgressLine() as line:
        opened = [replace(each, rules=active) for each in read_payloads(payloads or payloads_there_are(), line)]
        line.stage("applying rules")
        counts = count_firings(opened)
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in counts]))
    else:
        show_rules(counts, len(opened))


def show_rules(counts: "list[RuleCount]", payloads: int) -> None:
    """Print each rule: its description, then its firings."""
    from autotune.cli.layout import show_sentence
    from autotune.contrib.rules.report import rounding_of
    from autotune.reports.format import out

    console = out()
    if not counts:
        show_sentence(console, "no rules")
    for each in counts:
        rule = each.rule
        text = f"{rule.before} -> {rule.after}" if rule.before or rule.after else "does not say what it does"
        source = f" ({rule.source})" if rule.source else ""
        choice = "; a choice" if rule.is_choice else ""
        show_sentence(console, f"{rule.name}{source}: {text}; {rounding_of(rule)}{choice}")
        if rule.when:
            show_sentence(console, f"when {rule.when}", 2)
        if each.fired:
            fired = ", ".join(f"{name} {count}" for name, count in each.fired.items())
            show_sentence(console, f"fires: {fired}", 2)
    silent = sum(not each.fired for each in counts)
    if silent:
        show_sentence(console, f"{silent} of {len(counts)} rules fire on none of {payloads} payloads")


def list_rules(arguments: Arguments) -> None:
    """`list rules PAYLOAD...`: list rewrite rules, and how often each fires on the named payloads."""
    payloads = [name for name in arguments["names"] or () if name != KIND]
    rules(payloads, arguments["rules"], arguments["exact"], arguments["as_json"])


KIND = "rules"
VERB = Verb(rules, "Find schedules", "List rewrite rules, and where each applies.", after="list", instead="list rules")
LIST = VerbOption(
    "list",
    (option("rules", RuleFile, ""), option("exact", Exact, False)),
    takes=lambda arguments: bool(arguments["rules"] or arguments["exact"] or KIND in (arguments["names"] or ())),
    run=list_rules,
)
