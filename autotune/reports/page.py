"""Report: one self-contained HTML page of a bundle or a store, which needs no network."""

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from autotune.reports.compared import RecordedComparison, compared_beside
from autotune.reports.format import clocked, of_roof, times
from autotune.reports.headline import best_rival, headline
from autotune.reports.holdings import Holdings
from autotune.reports.pictures.gallery import Picture, to_svg
from autotune.reports.pictures.style import DARK
from autotune.reports.sections.again import again_with_bundle, again_with_store
from autotune.reports.sections.blocks import Section
from autotune.reports.sections.gained import gained_of_bundle
from autotune.reports.sections.outcomes import newest_runs, search_outcomes
from autotune.reports.sections.rounding import rounding_of
from autotune.reports.sections.search import ELSEWHERE, no_search, search_of
from autotune.reports.sections.shares import shares_of_calls
from autotune.reports.sections.tasks import tasks_of
from autotune.reports.task_facts import facts_of_store
from autotune.reports.task_lines import TaskLine, lines_of_bundle, lines_of_store, newest, of_bundle
from autotune.reports.winner import Winner, describe
from autotune.store.bundle import BundleFiles, read_bundle

TEMPLATE, STYLE, SCRIPT = "report.html.j2", "report.css", "report.js"


def report_bundle(
    folder: Path,
    holdings: Holdings | None = None,
    checks: pd.DataFrame | None = None,
    more: Sequence[Section] = (),
) -> str:
    """Return the HTML page of a bundle.

    Args:
        folder: Folder of the bundle.
        holdings: Trials of its payload, for plots of the search.
        checks: History of its regression checks, for a plot.
        more: Sections of plug-ins, placed after that of the tasks.

    Raises:
        BundleError: The bundle is incomplete or edited.
        StoreError: The recorded comparison of the bundle is invalid.
    """
    bundle = read_bundle(folder)
    winner = describe(bundle)
    compared = compared_beside(folder, winner.payload, bundle.manifest.fingerprint)
    lines = lines_of_bundle(bundle, holdings)
    wholes = {winner.payload: winner.seconds.estimate}
    sections = [
        gained_of_bundle(bundle, winner, compared, checks),
        shares_of_calls(lines, wholes),
        *rounding_of(winner),
        tasks_of(lines, wholes, bundle.texts),
        *more,
        search_of_bundle(bundle, holdings, lines),
        again_with_bundle(bundle),
    ]
    return write_page(winner.payload, winner_sentence(winner, compared), sections)


def search_of_bundle(bundle: BundleFiles, holdings: Holdings | None, lines: Sequence[TaskLine]) -> Section:
    """Return the section on the search: trials on the bundle's machine and compiler, else all trials of its payload."""
    if holdings is None:
        return no_search()
    trials = of_bundle(bundle, holdings.frame)
    names = {bundle.manifest.payload: {line.tag: line.name for line in lines}}
    if trials.empty:
        return search_of(holdings, names, ELSEWHERE)
    return search_of(Holdings(trials, holdings.roofs), names)


def report_store(holdings: Holdings, location: str, checks: pd.DataFrame | None = None) -> str:
    """Return the HTML page of a store: all payloads in it, and the history of regression checks that belongs to it.

    Args:
        holdings: Contents of the store.
        location: Path or database URL of the store, for the commands on the page.
        checks: History of regression checks, for a plot.
    """
    facts = facts_of_store(holdings)
    lines = lines_of_store(holdings, facts)
    payloads = list(dict.fromkeys(line.payload for line in lines))
    wholes = {run.payload: run.best.seconds for run in newest_runs(holdings)}
    names: dict[str, dict[str, str]] = {payload: {} for payload in payloads}
    for (payload, tag), fact in facts.items():
        names[payload][tag] = fact.name
    sections = [
        search_outcomes(holdings, checks),
        shares_of_calls(newest(lines), wholes),
        tasks_of(lines, wholes, {}),
        search_of(holdings, names),
        again_with_store(location, payloads),
    ]
    summary = f"{len(holdings.frame)} trials in {location}."
    return write_page(f"Sweeps of {', '.join(payloads) or 'nothing'}", summary, sections)


def winner_sentence(winner: Winner, compared: RecordedComparison | None) -> str:
    """Return a sentence on the winner's time, its share of the roof, and the best library."""
    if winner.unsteady:
        return f"{headline(winner.payload, None, clock=None, share=None, floor=0.0, unsteady=winner.unsteady)}."
    time = clocked(winner.seconds.estimate, winner.clock, winner.noise_floor)
    phrases = [of_roof(winner.roof_fraction, "what its multiply-adds allow")] if winner.roof_fraction else []
    if (rival := best_rival(compared)) is not None:
        phrases.append(f"{times(rival.ratio)} as fast as {rival.name}")
    sentence = f"One call takes {time} on one core of {winner.cpu}"
    return f"{sentence}: {', '.join(phrases)}." if phrases else f"{sentence}."


def write_page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """Render the template; all text is escaped, and the page permits only its own script and no network access."""
    loader = PackageLoader("autotune.reports")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    style, script = (loader.get_source(environment, name)[0] for name in (STYLE, SCRIPT))
    written = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    environment.globals["svg"] = Drawings().svg
    return environment.get_template(TEMPLATE).render(
        title=title,
        lead=lead,
        sections=sections,
        style=Markup(style),
        inks=sorted(DARK.items()),
        script=Markup(script),
        script_sha256=b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        written=written,
    )


class Drawings:
    """Converter of plots to SVG elements with unique ids."""

    def __init__(self) -> None:
        self._count = 0

    def svg(self, picture: Picture) -> Markup:
        """Return the ``<svg>`` element of a plot, with its caption as alternative text."""
        self._count += 1
        text = to_svg(picture.figure, f"p{self._count}-")
        return Markup('<svg role="img" aria-label="{}"').format(picture.caption) + Markup(text.removeprefix("<svg"))
