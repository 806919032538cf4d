"""The report: one self-contained page of a bundle or a store, for a browser without a network."""

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
from autotune.reports.sections.found import found_in_store, newest_runs
from autotune.reports.sections.gained import gained_of_bundle
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
    """The page of a bundle.

    Args:
        folder: Folder of the bundle.
        holdings: Trials of its payload; drawn too.
        checks: The history of its regression checks; drawn too.
        more: Sections of plug-ins, behind that of the tasks.

    Raises:
        BundleError: The bundle is incomplete or edited.
        StoreError: A comparison lies beside the bundles that is none.
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
    """How the search behind a bundle went: the trials made where it was recorded, else whatever there are."""
    if holdings is None:
        return no_search()
    mine = of_bundle(bundle, holdings.frame)
    names = {bundle.manifest.payload: {line.tag: line.name for line in lines}}
    if mine.empty:
        return search_of(holdings, names, ELSEWHERE)
    return search_of(Holdings(mine, holdings.roofs), names)


def report_store(holdings: Holdings, location: str, checks: pd.DataFrame | None = None) -> str:
    """The page of a store: every payload in it, and the history of regression checks beside it.

    Args:
        holdings: What the store holds.
        location: Path or database URL of the store, for the commands that go on with it.
        checks: The history of regression checks beside it; drawn too.
    """
    facts = facts_of_store(holdings)
    lines = lines_of_store(holdings, facts)
    payloads = list(dict.fromkeys(line.payload for line in lines))
    wholes = {run.payload: run.best.seconds for run in newest_runs(holdings)}
    names: dict[str, dict[str, str]] = {payload: {} for payload in payloads}
    for (payload, tag), fact in facts.items():
        names[payload][tag] = fact.name
    sections = [
        found_in_store(holdings, checks),
        shares_of_calls(newest(lines), wholes),
        tasks_of(lines, wholes, {}),
        search_of(holdings, names),
        again_with_store(location, payloads),
    ]
    summary = f"{len(holdings.frame)} trials in {location}."
    return write_page(f"Sweeps of {', '.join(payloads) or 'nothing'}", summary, sections)


def winner_sentence(winner: Winner, compared: RecordedComparison | None) -> str:
    """What was reached, in a sentence."""
    if winner.unsteady:
        return f"{headline(winner.payload, None, clock=None, share=None, floor=0.0, unsteady=winner.unsteady)}."
    time = clocked(winner.seconds.estimate, winner.clock, winner.noise_floor)
    found = [of_roof(winner.roof_fraction, "what its multiply-adds allow")] if winner.roof_fraction else []
    if (rival := best_rival(compared)) is not None:
        found.append(f"{times(rival.ratio)} as fast as {rival.name}")
    sentence = f"One call takes {time} on one core of {winner.cpu}"
    return f"{sentence}: {', '.join(found)}." if found else f"{sentence}."


def write_page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """Fill the template; every text is escaped, and the page allows no script but its own and no network."""
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
    """Pictures as the page takes them, with ids that differ from picture to picture."""

    def __init__(self) -> None:
        self._count = 0

    def svg(self, picture: Picture) -> Markup:
        """The ``<svg>`` element of a picture, with its caption for those who cannot see it."""
        self._count += 1
        text = to_svg(picture.figure, f"p{self._count}-")
        return Markup('<svg role="img" aria-label="{}"').format(picture.caption) + Markup(text.removeprefix("<svg"))
