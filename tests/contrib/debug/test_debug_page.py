"""The page of a recording: data and its own script alone, and in a browser."""

import json
import re

import pytest
from debug_support import match, payload_file, script, tile

from autotune.contrib.debug.debugged import debug
from autotune.contrib.debug.page import write_page
from autotune.contrib.debug.recording import (
    Change,
    DebugRecording,
    Handle,
    Mark,
    PayloadText,
    TransformStep,
)

HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">$data"


def hostile():
    """A recording whose every text wants to be markup."""
    step = TransformStep(
        HOSTILE,
        HOSTILE,
        1,
        (HOSTILE,),
        1,
        (Change(0, 1, (HOSTILE,), ("op",)),),
        (Handle(HOSTILE, 1, (HOSTILE,)),),
        (Mark("failed", HOSTILE, (HOSTILE,)),),
        (HOSTILE,),
    )
    return DebugRecording(HOSTILE, HOSTILE, HOSTILE, PayloadText((HOSTILE,), ("",)), (step,), HOSTILE, (HOSTILE,))


def data_of(page):
    """The data in a page."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])


def test_no_text_becomes_markup():
    page = write_page(hostile())
    assert page.count("<script") == 2
    assert "<img" not in page
    assert data_of(page)["payload"] == HOSTILE
    assert "default-src 'none'" in page
    assert "http://" not in page.replace("http-equiv", "")
    assert "https://" not in page


def test_script_of_the_page_writes_text_alone():
    page = write_page(hostile())
    assert not re.findall(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|setAttribute\(\"on", page)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A page of three steps, the last of which is marked."""
    body = f"{match('mm', 'linalg.matmul')}\n{tile('%a, %i', '%mm', '[8]')}\n{match('none', 'linalg.conv_2d')}\n"
    folder = tmp_path_factory.mktemp("page")
    found = debug(payload_file(folder), script(body + "transform.structured.vectorize %none : !transform.any_op"))
    path = folder / "page.html"
    path.write_text(write_page(found))
    return path


def test_stepping_hovering_and_searching(browser, recorded):
    faults = []
    page = browser.new_page(viewport={"width": 1200, "height": 800})
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.goto(recorded.as_uri())
    assert page.text_content("#count") == "0 of 4"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.text_content("#count") == "2 of 4"
    assert page.locator("#seen .add").count() > 3
    assert "tile_using_for" in page.text_content("#where")
    page.hover("#handles li:has-text('%i')")
    assert "scf.for" in page.text_content("#seen .lit")
    page.hover("#seen .add:has-text('scf.for')")
    assert "made by step 2" in page.text_content("#about")
    assert "held by %i" in page.text_content("#about")
    assert "%mm" in page.text_content("#handles .invalid")
    page.keyboard.press("/")
    page.keyboard.type("linalg.fill")
    page.keyboard.press("Enter")
    assert "linalg.fill" in page.text_content("#seen .found")
    page.click("#marked")
    assert "matches nothing" in page.text_content("#marks")
    page.set_viewport_size({"width": 400, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    colours = set()
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        colours.add(page.evaluate("getComputedStyle(document.querySelector('#where')).color"))
    assert len(colours) == 2
    page.close()
    assert not faults


def test_hostile_text_does_nothing_in_a_browser(browser, tmp_path):
    path = tmp_path / "hostile.html"
    path.write_text(write_page(hostile()))
    page = browser.new_page()
    page.goto(path.as_uri())
    page.keyboard.press("ArrowRight")
    assert page.title() == "Schedule, step by step"
    assert page.locator("img").count() == 0
    assert "onerror" in page.text_content("#seen")
    page.close()
