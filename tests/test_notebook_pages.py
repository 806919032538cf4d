"""Notebooks as pages: in a browser they run no script that fails, and fit a desktop and a phone."""

from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))
TOO_WIDE = """() => [...document.querySelectorAll("table, img, svg, p, li, pre")].filter(shown => {
    for (let outer = shown; outer && outer !== document.body; outer = outer.parentElement)
        if (["auto", "scroll"].includes(getComputedStyle(outer).overflowX)) return false;
    return shown.getBoundingClientRect().right > innerWidth + 1;
}).map(shown => shown.outerHTML.slice(0, 100))"""  # but for what scrolls by itself


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with every notebook as a page, with its saved outputs."""
    nbconvert = pytest.importorskip("nbconvert")
    folder, exporter = tmp_path_factory.mktemp("pages"), nbconvert.HTMLExporter(embed_images=True)
    for notebook in NOTEBOOKS:
        (folder / f"{notebook.stem}.html").write_text(exporter.from_filename(str(notebook))[0])
    return folder


@pytest.mark.parametrize("size", [(1400, 900), (390, 844)], ids=str)
def test_every_notebook_fits_a_browser(browser, written, size):
    errors = []
    page = browser.new_page(viewport={"width": size[0], "height": size[1]})
    page.on("pageerror", lambda error: errors.append(error.message))
    page.route("**/*", lambda route: route.continue_() if route.request.url.startswith("file:") else route.abort())
    for path in sorted(written.iterdir()):
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0], path.stem
        assert page.evaluate(TOO_WIDE) == [], path.stem
    page.close()
    assert errors == []
    assert len(NOTEBOOKS) == len(list(written.iterdir()))
