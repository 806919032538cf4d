"""The report: one page that stands alone and tells a story in order, opened in a real browser."""

import base64
import hashlib
import json
import re
import shutil
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from bundle_support import edit_file, edit_manifest
from sweep_support import fill_for_bundle, fill_store

from autotune.core.errors import BundleError, StoreError
from autotune.reports.holdings import read_holdings
from autotune.reports.page import report_bundle, report_store
from autotune.store.bundle import FILES, read_bundle

PHONE, DESKTOP = (390, 844), (1400, 900)
SECTIONS = ["gained", "time", "tasks", "search", "again"]
RECORDED = Path(__file__).parents[2] / "results"
NANO, LARGEST = (sorted(RECORDED.glob(f"*/bundles/{name}")) for name in ("nano", "gpt2"))
HOSTILE = "</style><script>alert(1)</script>\"'><img src=x onerror=alert(1)> $x_{y}$ {{ 7 * 7 }}"


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """Folder of a recorded bundle, alone, and a store of made-up trials of its tasks."""
    folder = tmp_path_factory.mktemp("tuned")
    bundle = shutil.copytree(NANO[0], folder / "bundle")
    return bundle, fill_for_bundle(folder / "store.journal", read_bundle(bundle))


@pytest.fixture(scope="module")
def pages(tuned):
    """The pages of a store and of a bundle with trials, by name."""
    bundle, store = tuned
    holdings = read_holdings(store)
    return {"store": report_store(holdings, "s.journal"), "bundle": report_bundle(bundle, holdings)}


class Elements(HTMLParser):
    """The elements of a page: name and attributes, in order."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def named(self, *tags):
        return [attributes for tag, attributes in self.found if tag in tags]


both = pytest.mark.parametrize("name", ["store", "bundle"])


@both
def test_page_stands_alone(pages, name):
    elements = Elements(pages[name])
    links = [a[key] for a in elements.named(*{tag for tag, _ in elements.found}) for key in ("src", "href") if key in a]
    assert not [link for link in links if not link.startswith(("#", "data:"))]
    assert not re.findall(r"url\((?!#)|@import|https?://(?!www\.w3\.org/(2000/svg|1999/xlink)\")", pages[name])
    ids = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    used = {link[1:] for link in links if link.startswith("#")} | set(re.findall(r"url\(#([^)]+)\)", pages[name]))
    assert used <= set(ids)


@both
def test_page_allows_its_own_script_alone(pages, name):
    (script,) = re.findall(r"<script>(.*?)</script>", pages[name], re.DOTALL)
    (policy,) = [a["content"] for a in Elements(pages[name]).named("meta") if "http-equiv" in a]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")


@both
def test_sections_come_in_the_order_of_the_story(pages, name):
    elements = Elements(pages[name])
    assert [attributes["id"] for attributes in elements.named("section")] == SECTIONS
    levels = [int(tag[1]) for tag, _ in elements.found if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert all(below - above <= 1 for above, below in pairwise(levels))


@both
def test_tasks_are_a_line_each_and_closed(pages, tuned, name):
    tags = set(read_holdings(tuned[1]).frame["task"]) if name == "store" else set(read_bundle(tuned[0]).manifest.tasks)
    assert not [attributes for attributes in Elements(pages[name]).named("details") if "open" in attributes]
    tasks = pages[name][pages[name].index('id="tasks"') : pages[name].index('id="search"')]
    assert tasks.count('</summary>\n<div class="inside"') == len(tags)
    assert all(f'title="{tag}"' in tasks for tag in tags)
    assert ">matmul 32x192x64 + bias, stored<" in tasks
    assert all(f"<i>{what} </i>" in tasks for what in ("each", "of the roof", "trials", "over default", "family"))


@both
def test_pictures_are_of_one_size_and_each_says_what_it_shows(pages, name):
    drawn = Elements(pages[name]).named("svg")
    assert len(drawn) >= 8
    assert len({attributes["viewbox"] for attributes in drawn}) == 1
    assert all(attributes["role"] == "img" and attributes["aria-label"].endswith(".") for attributes in drawn)


@both
def test_tables_say_what_they_are_and_name_rows_and_columns(pages, name):
    tables = re.findall(r"<table.*?</table>", pages[name], re.DOTALL)
    assert len(tables) >= 3
    for table in tables:
        assert re.search(r"<caption>[^<]+</caption>", table)
        assert table.count('<th scope="col"') == table.count("<th ") - table.count('<th scope="row"')
        assert table.count('<th scope="row"') == table.count("<tr") - 1
        assert ("data-sortable" in table) == (table.count("<tr") > 3)


def test_page_of_a_bundle_marks_what_the_search_chose(pages):
    marked = re.findall(r"<mark>(.*?)</mark>", pages["bundle"])
    assert marked
    assert all(" = " in line for line in marked)
    assert "autotune replay bundle" in pages["bundle"]
    assert "times as long" in pages["bundle"]


def test_page_names_every_file_with_its_hash(pages, tuned):
    manifest = tuned[0] / "manifest.json"
    hashes = json.loads(manifest.read_text())["sha256"]
    there = [digest for name, digest in hashes.items() if (tuned[0] / name).exists()]
    assert len(there) >= len(FILES)
    assert all(digest in pages["bundle"] for digest in there)
    assert hashlib.sha256(manifest.read_bytes()).hexdigest() in pages["bundle"]


def test_names_from_outside_are_text_in_the_page(tmp_path):
    path = fill_store(tmp_path / "s", payload=f"{HOSTILE}.mlir", tasks=(HOSTILE, "other"), trials=20)
    page = report_store(read_holdings(path), HOSTILE)
    elements = Elements(page)
    assert len(elements.named("script")) == 1
    assert not elements.named("img")
    assert not [a for _, attributes in elements.found for a in attributes if a.startswith("on")]
    assert "{{ 7 * 7 }}" in page
    assert "$x_{y}$" in page


def test_notes_and_scripts_of_a_bundle_are_text_in_the_page(tuned, tmp_path):
    folder = shutil.copytree(tuned[0], tmp_path / "bundle")
    edit_manifest(folder, lambda m: m.update(notes=[HOSTILE], command=["autotune", "tune", HOSTILE]) or m)
    script = (folder / "schedule.mlir").read_text()
    edit_file(folder, "schedule.mlir", f"{script}  // {HOSTILE}\n")
    page = report_bundle(folder)
    assert page.count("alert(1)&lt;/script&gt;") >= 3
    assert len(Elements(page).named("script")) == 1
    assert not Elements(page).named("img")


def test_a_comparison_beside_the_bundle_is_told_and_a_damaged_one_refused(tuned, tmp_path):
    folder = shutil.copytree(tuned[0], tmp_path / "bundles" / "mine")
    (tmp_path / "comparisons").mkdir()
    row = {"outcome": "ok", "version": "v", "roof_fraction": 0.5, "max_error": 1e-6, "ratio_interval": [1.0, 3.0]}
    rows = [
        row | {"name": "best", "seconds": 1e-5, "interval": [1e-5, 1e-5], "ratio": 1.0},
        row | {"name": "a library", "seconds": 2e-5, "interval": [2e-5, 2e-5], "ratio": 2.0},
    ]
    data = read_bundle(folder).manifest
    found = {"payload": data.payload, "machine": {"fingerprint": data.fingerprint}, "ratio_to": "best", "rows": rows}
    path = tmp_path / "comparisons" / "mine.json"
    path.write_text(json.dumps(found))
    page = report_bundle(folder)
    assert ">a library</th>" in page
    assert page.index("Beside other libraries") < page.index('id="time"')
    path.write_text("{}")
    with pytest.raises(StoreError):
        report_bundle(folder)


@pytest.mark.parametrize("folder", LARGEST, ids=lambda path: path.parts[-3])
def test_page_of_the_largest_bundle_can_be_mailed(folder):
    assert len(report_bundle(folder).encode()) < 3_000_000


def test_store_without_trials_still_has_a_page(tmp_path):
    page = report_store(read_holdings(fill_store(tmp_path / "s", tasks=(), summary=False)), "s")
    assert [attributes["id"] for attributes in Elements(page).named("section")] == SECTIONS


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


@pytest.fixture
def visit(pages, browser, tmp_path):
    """Opens a page, offline; gives it and what its console said. `look` goes to the browser's context."""
    contexts = []

    def open_page(name, **look):
        contexts.append(browser.new_context(offline=True, **look))
        page, said = contexts[-1].new_page(), []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("requestfailed", lambda request: said.append(request.url))
        (tmp_path / "r.html").write_text(pages[name])
        page.goto((tmp_path / "r.html").as_uri())
        return page, said

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize(
    ("name", "look"),
    [
        ("store", (PHONE, "dark")),
        ("store", (DESKTOP, "light")),
        ("bundle", (PHONE, "light")),
        ("bundle", (DESKTOP, "dark")),
    ],
)
def test_page_opens_in_a_browser(visit, name, look):
    (width, height), scheme = look
    page, said = visit(name, viewport={"width": width, "height": height}, color_scheme=scheme)
    page.evaluate("document.querySelectorAll('.tasks > details').forEach((task) => (task.open = true))")
    assert said == []
    # nothing makes the page itself scroll sideways, and pictures have the width of a column, on a phone of the screen
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    boxes = [box for picture in page.locator("figure svg").all() if (box := picture.bounding_box())]
    assert len(boxes) >= 8
    assert max(box["width"] for box in boxes) - min(box["width"] for box in boxes) < 1
    assert max(box["height"] for box in boxes) - min(box["height"] for box in boxes) < 1
    assert boxes[0]["width"] > (0.9 if width < 600 else 0.4) * width
    ink, paper = (luminance(page, name) for name in ("color", "backgroundColor"))
    assert (ink < 60 and paper > 200) if scheme == "light" else (ink > 200 and paper < 60)
    assert page.evaluate("getComputedStyle(document.querySelector('figure svg text')).fill") == page.evaluate(
        "getComputedStyle(document.body).color"
    )


def test_a_click_on_a_head_sorts_tables_and_tasks(visit):
    page, said = visit("bundle")
    table = page.locator("#time table[data-sortable]").first
    values = "table => [...table.tBodies[0].rows].map((row) => Number(row.cells[1].dataset.value))"
    table.locator("th button").nth(1).click()
    assert table.locator("th").nth(1).get_attribute("aria-sort") == "descending"
    down = table.evaluate(values)
    assert down == sorted(down, reverse=True)
    table.locator("th button").nth(1).press("Enter")
    assert table.evaluate(values) == sorted(down)
    families = "list => [...list.querySelectorAll('summary > span:nth-of-type(8)')].map((name) => name.textContent)"
    page.locator(".tasks .heads button").nth(7).click()
    assert page.locator(".tasks").evaluate(families) == sorted(page.locator(".tasks").evaluate(families))
    assert said == []


SIZES = pytest.mark.parametrize("size", [(1400, 900), PHONE], ids=str)


def sized(size):
    return {"viewport": {"width": size[0], "height": size[1]}}


def is_no_wider(page, size):
    return page.evaluate("document.documentElement.scrollWidth") <= size[0]


@SIZES
def test_tasks_are_chosen_and_columns_hidden(visit, size):
    page, said = visit("bundle", **sized(size))
    tasks, tools = page.locator(".tasks > details"), page.locator(".tools:has(+ .tasks)")
    whole = tasks.count()
    tools.locator("input[type=search]").fill("matmul BIAS")
    assert 0 < page.locator(".tasks > details:visible").count() < whole
    assert (
        tools.locator("output").text_content() == f"{page.locator('.tasks > details:visible').count()} of {whole} tasks"
    )
    tools.locator("input[type=search]").fill("")
    assert page.locator(".tasks > details:visible").count() == whole
    tools.locator("summary").click()
    assert tools.get_by_label("task", exact=True).is_disabled()
    family = page.locator(".tasks > details:first-of-type summary > span:nth-of-type(8)")
    assert family.is_visible()
    tools.get_by_label("family").uncheck()
    assert not family.is_visible()
    shown = page.locator(".tasks > details summary").first.evaluate("s => getComputedStyle(s).gridTemplateColumns")
    assert size == PHONE or len(shown.split()) == 7
    tools.get_by_label("family").check()
    assert family.is_visible()
    assert is_no_wider(page, size)
    assert said == []


@SIZES
def test_columns_of_tables_are_hidden_and_come_back(visit, size):
    page, _ = visit("bundle", **sized(size))
    table = page.locator("#time table[data-sortable]").first
    tools = page.locator("#time .tools").first
    tools.locator("summary").click()
    last = tools.locator("input").count() - 1
    cell = table.locator("tbody tr").first.locator("th, td").nth(last)
    assert cell.is_visible()
    tools.locator("input").nth(last).uncheck()
    assert not cell.is_visible()
    assert is_no_wider(page, size)


@SIZES
def test_a_picture_is_enlarged_zoomed_moved_and_put_back(visit, size):
    page, said = visit("bundle", **sized(size))
    figure, svg = page.locator("figure").first, page.locator("figure svg").first
    before, box = svg.get_attribute("viewBox"), svg.bounding_box()
    svg.click()
    large = page.locator("dialog[open] svg")
    assert large.bounding_box()["height"] > box["height"]
    page.get_by_role("button", name="Zoom in").click()
    zoomed = [float(each) for each in large.get_attribute("viewBox").split()]
    assert zoomed[2] == pytest.approx(0.8 * float(before.split()[2]))
    large.hover()
    page.mouse.wheel(0, -100)
    page.mouse.down()
    page.mouse.move(size[0] / 3, size[1] / 3)
    page.mouse.up()
    moved = [float(each) for each in large.get_attribute("viewBox").split()]
    assert moved[2] < zoomed[2]
    assert moved[0] > zoomed[0]
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="hidden")
    assert figure.locator("svg").get_attribute("viewBox").split() == before.split()
    figure.locator(".enlarge").press("Enter")
    assert page.locator("dialog[open] svg").count() == 1
    page.get_by_role("button", name="Close").click()
    assert figure.locator("svg").count() == 1
    assert said == []


@SIZES
def test_a_command_is_copied(visit, size):
    page, said = visit("bundle", **sized(size), permissions=["clipboard-read", "clipboard-write"])
    row = page.locator(".commands > div", has_text="autotune replay bundle")
    row.locator("button").click()
    row.get_by_text("Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "autotune replay bundle"
    assert page.locator(".commands > div", has_text="# build it again").locator("button").count() == 0
    assert is_no_wider(page, size)
    assert said == []


def test_colours_are_chosen(visit):
    page, _ = visit("bundle", color_scheme="dark")
    assert luminance(page, "backgroundColor") < 60
    light = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--c0072b2')")
    for scheme, is_dark in (("light", False), ("dark", True), ("as the system", True)):
        page.locator(".scheme").click()
        assert page.locator(".scheme").text_content() == f"Colours: {scheme}"
        assert (luminance(page, "backgroundColor") < 60) == is_dark
        ink = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--c0072b2')")
        assert (ink == light) == is_dark


def test_what_has_no_number_is_sorted_last(visit):
    page, _ = visit("bundle")
    lines = "list => [...list.querySelectorAll(':scope > details > summary')]"
    values = f"{lines}.map((line) => line.children[3].dataset.value ?? null)"
    for _ in range(2):
        page.locator(".tasks .heads button").nth(3).click()
        found = page.locator(".tasks").evaluate(values)
        assert None in found
        assert None not in found[: len(found) - found.count(None)]


def test_a_link_to_a_task_opens_it_and_the_keyboard_does(visit):
    page, _ = visit("bundle")
    assert page.locator(".tasks > details[open]").count() == 0
    page.locator("#time a").first.click()
    page.wait_for_selector(".tasks > details[open]")
    page.locator(".tasks > details:not([open]) > summary").first.press("Enter")
    assert page.locator(".tasks > details[open]").count() == 2


def test_page_works_without_scripts(visit):
    page, _ = visit("bundle", java_script_enabled=False)
    page.locator(".tasks > details > summary").first.click()
    assert page.locator(".tasks > details .facts").first.is_visible()
    assert page.locator("th button").count() == 0


def test_what_is_printed_is_light_and_shows_every_task(visit):
    page, _ = visit("bundle", color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".tasks > details:not([open])").count() == 0
    assert page.locator("details.code[open]").count() == 0
    assert luminance(page, "backgroundColor") > 200
    assert page.locator("figure").first.evaluate("figure => getComputedStyle(figure).breakInside") == "avoid"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator(".tasks > details[open]").count() == 0


def luminance(page, name):
    """Brightness of a colour of the body, 0 to 255."""
    colour = page.evaluate(f"getComputedStyle(document.body).{name}")
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3
