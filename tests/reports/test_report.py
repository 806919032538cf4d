"""The report: one page that stands alone, opened in a real browser."""

import re
import shutil

import pytest
from bundle_support import make_bundle
from sweep_support import fill_store

from autotune.core.errors import BundleError
from autotune.core.machine import this_machine
from autotune.core.stats import Interval
from autotune.reports.ablation import Measured
from autotune.reports.counters import Counts
from autotune.reports.explain import Explanation
from autotune.reports.holdings import read_holdings
from autotune.reports.page import report_bundle, report_store

GPT = "gpt,d_model=32,heads=2,d_ff=64,vocab=50,seq=8,layers=1"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PHONE, DESKTOP = (390, 844), (1280, 900)


def explanation():
    rows = (
        Measured("the winner", (), Interval(1e-3, 1e-3, 1e-3), Interval(1, 1, 1), 1e-6, "ok"),
        Measured("pack", ("a",), Interval(1e-3, 2e-3, 3e-3), Interval(1.5, 2, 2.5), 1e-6, "ok"),
    )
    return Explanation("nano", "leave-one-out", rows, Counts({}), None, this_machine())


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The pages of a store and of a bundle with trials, by name."""
    bundle = make_bundle(tmp_path_factory.mktemp("tuned"), GPT)
    holdings = read_holdings(fill_store(tmp_path_factory.mktemp("report") / "s", trials=30))
    return {"store": report_store(holdings, "s.journal"), "bundle": report_bundle(bundle, holdings, explanation())}


@pytest.mark.parametrize("name", ["store", "bundle"])
def test_page_stands_alone(pages, name):
    page = pages[name]
    links = re.findall(r'(?:src|href)="([^"#][^"]*)"|url\((?!#)([^)]*)\)', page)
    assert not [link for link in links if not link[0].startswith("data:")]
    assert "<script" not in page
    ids = re.findall(r'\bid="([^"]+)"', page)
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', page))
    assert used <= set(ids)


def test_page_of_a_bundle_marks_what_the_search_chose(pages):
    marked = re.findall(r"<mark>(.*?)</mark>", pages["bundle"])
    assert marked
    assert all(" = " in line for line in marked)
    assert "autotune replay bundle" in pages["bundle"]
    assert "times as long" in pages["bundle"]


def test_names_from_outside_are_text_in_the_page(tmp_path):
    path = fill_store(tmp_path / "s", payload="<script>alert(1)</script>.mlir", trials=3)
    page = report_store(read_holdings(path), "<b>")
    assert "<script" not in page
    assert "<b>" not in page


def test_a_folder_that_is_no_bundle_is_refused(tmp_path):
    with pytest.raises(BundleError):
        report_bundle(tmp_path)


def test_command_writes_the_page(autotune, tmp_path):
    store = fill_store(tmp_path / "s", trials=3)
    code, out, said = autotune("report", store, "-o", tmp_path / "r.html")
    assert (code, out) == (0, "")
    assert said.strip().endswith("r.html")
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    assert autotune("report", store, "--explain")[0] == 2
    assert autotune("report", tmp_path / "nothing")[0] == 2


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium."""
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed; apt-get install chromium")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.mark.parametrize(
    ("name", "look"),
    [
        ("store", (PHONE, "dark")),
        ("store", (DESKTOP, "light")),
        ("bundle", (PHONE, "light")),
        ("bundle", (DESKTOP, "dark")),
    ],
)
def test_page_opens_in_a_browser(pages, browser, tmp_path, name, look):
    (width, height), scheme = look
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, offline=True)
    page = context.new_page()
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("requestfailed", lambda request: said.append(request.url))
    (tmp_path / "r.html").write_text(pages[name])
    page.goto((tmp_path / "r.html").as_uri())
    assert said == []
    assert page.locator("table").count() >= 2
    assert page.locator("figure svg").count() >= 8
    # nothing makes the page itself scroll sideways, and pictures are as wide as there is room for
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    frames = [frame.bounding_box() for frame in page.locator("figure").all()]
    assert all(300 <= frame["width"] <= width and frame["height"] > 80 for frame in frames)
    assert all(box.bounding_box()["width"] >= 400 for box in page.locator("figure svg").all())
    ink, paper = (luminance(page, name) for name in ("color", "backgroundColor"))
    assert (ink < 60 and paper > 200) if scheme == "light" else (ink > 200 and paper < 60)
    assert page.evaluate("getComputedStyle(document.querySelector('figure svg text')).fill") == page.evaluate(
        "getComputedStyle(document.body).color"
    )
    context.close()


def luminance(page, name):
    """Brightness of a colour of the body, 0 to 255."""
    colour = page.evaluate(f"getComputedStyle(document.body).{name}")
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3
