"""The page of a recording: data and its own script alone, and in a browser."""

import json
import re
from pathlib import Path

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
from autotune.contrib.debug.terminal import details, overview

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
    """A page of four steps, the last two of which are marked."""
    body = f"{match('mm', 'linalg.matmul')}\n{tile('%a, %i', '%mm', '[8]')}\n{match('none', 'linalg.conv_2d')}\n"
    folder = tmp_path_factory.mktemp("page")
    text = script(body + "transform.structured.vectorize %none : !transform.any_op")
    found = debug(payload_file(folder), text, variants=True)
    path = folder / "page.html"
    path.write_text(write_page(found))
    return path


@pytest.fixture
def opened(browser, recorded):
    """The page in a browser; whatever its script complains about fails the test."""
    faults = []
    page = browser.new_page(viewport={"width": 1200, "height": 800})
    page.set_default_timeout(10000)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.goto(recorded.as_uri())
    yield page
    page.close()
    assert not faults


def test_stepping_and_hovering(opened):
    assert opened.text_content("#count") == "0 of 4"
    opened.click("#next")
    opened.click("#next")
    assert opened.text_content("#count") == "2 of 4"
    assert opened.locator("#payload .add").count() > 3
    assert opened.text_content("#op") == "structured.tile_using_for"
    assert "tile_using_for" in opened.text_content("#script .now")
    opened.hover("#handles li:has-text('%i')")
    assert "scf.for" in opened.text_content("#payload .lit")
    opened.hover("#payload .add:has-text('scf.for')")
    assert "made by step 2" in opened.text_content("#about")
    assert "held by %i" in opened.text_content("#about")
    assert "%mm" in opened.text_content("#handles .invalid")
    opened.fill("#slider", "1")
    assert opened.text_content("#count") == "1 of 4"
    opened.click("#script .step:has-text('vectorize')")
    assert opened.text_content("#count") == "4 of 4"


def test_keys_alone_lead_everywhere(opened):
    press, text = opened.keyboard.press, opened.text_content
    press("ArrowRight")
    press("ArrowRight")
    assert text("#count") == "2 of 4"
    press("ArrowLeft")
    press("End")
    assert text("#count") == "4 of 4"
    press("Home")
    press("m")
    assert "matches nothing" in text("#marks")
    press("m")
    assert text("#count") == "4 of 4"
    press("c")
    assert text("#count") == "3 of 4"
    press("/")
    opened.keyboard.type("linalg.fill")
    press("Enter")
    assert "linalg.fill" in text("#payload .found")
    press("Escape")
    press("Home")
    press("f")
    assert opened.get_attribute("#fold", "aria-pressed") == "true"
    press("ArrowRight")
    for _ in range(30):
        press("Tab")
        if opened.evaluate("document.activeElement.matches('#handles li:has(b)')"):
            break
    assert "linalg.matmul" in text("#payload .lit")


def test_costs_are_beside_each_step(opened):
    opened.keyboard.press("ArrowRight")
    opened.keyboard.press("ArrowRight")
    assert "of the roof" in opened.text_content("#costs")
    opened.hover("#costs tr:has-text('matmul')")
    assert "linalg.matmul" in opened.text_content("#payload .lit")


def test_a_variant_is_another_recording(opened):
    opened.select_option("#variants", label="line 5: [8] becomes [16]")
    assert opened.text_content("#count") == "2 of 4"
    assert "%c16" in "".join(opened.locator("#payload .add").all_text_contents())
    opened.select_option("#variants", index=0)
    assert "%c16" not in "".join(opened.locator("#payload .add").all_text_contents())


@pytest.mark.parametrize("width", [390, 1400])
def test_nothing_is_wider_than_the_window_and_colours_follow_the_system(opened, width):
    opened.set_viewport_size({"width": width, "height": 800})
    colours = set()
    for scheme in ("dark", "light"):
        opened.emulate_media(color_scheme=scheme)
        for key in ("Home", "ArrowRight", "ArrowRight", "m"):
            opened.keyboard.press(key)
            assert opened.evaluate("document.documentElement.scrollWidth") <= width
        colours.add(opened.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(colours) == 2


def test_a_notebook_shows_the_page(browser):
    page = browser.new_page()
    page.set_content(hostile()._repr_html_())
    frame = page.frame_locator("iframe")
    frame.locator("#next").click()
    assert frame.locator("#count").text_content() == "1 of 1"
    assert frame.locator("img").count() == 0
    page.close()


def test_two_schedules_are_side_by_side(browser, tmp_path):
    texts = [script(f"{match('mm', 'linalg.matmul')}\n{tile('%a, %i', '%mm', size)}") for size in ("[8]", "[4]")]
    path = tmp_path / "two.html"
    path.write_text(write_page(*(debug(payload_file(tmp_path), text) for text in texts)))
    page = browser.new_page()
    page.goto(path.as_uri())
    page.click("#difference")
    assert page.text_content("#count") == "2 of 2"
    assert "%c8" in "".join(page.locator("#payload .add").all_text_contents())
    assert "%c4" in "".join(page.locator("#beside .add").all_text_contents())
    page.close()


def test_hostile_text_does_nothing_in_a_browser(browser, tmp_path):
    path = tmp_path / "hostile.html"
    path.write_text(write_page(hostile()))
    page = browser.new_page()
    page.goto(path.as_uri())
    page.keyboard.press("ArrowRight")
    assert page.title() == "Schedule, step by step"
    assert page.locator("img").count() == 0
    assert "onerror" in page.text_content("#payload")
    page.close()


def test_script_and_payload_of_a_stranger_stay_text(browser, tmp_path):
    attack = "</script><script>document.title='taken'</script><img src=x onerror=document.title='taken'>\x1b[2J"
    payload = Path(payload_file(tmp_path))
    named = attack.replace("\x1b", "\\1B").replace("'", "")
    payload.write_text(
        payload.read_text().replace("%mm = linalg.matmul", f'%mm = linalg.matmul {{hostile = "{named}"}}')
    )
    body = (
        f'// {attack}\n{match("mm", "linalg.matmul")}\ntransform.annotate %mm "{named}" : !transform.any_op // {attack}'
    )
    found = debug(str(payload), script(body))
    assert "taken" in str(found.payload_after(len(found.steps)))
    for number in range(1, len(found.steps) + 1):
        assert "\x1b" not in "\n".join([*overview(found), *details(found, number, diff=True)])
    path = tmp_path / "page.html"
    path.write_text(write_page(found))
    assert path.read_text().count("<script") == 2
    page = browser.new_page()
    page.goto(path.as_uri())
    for _ in found.steps:
        page.keyboard.press("ArrowRight")
    assert page.title() == "Schedule, step by step"
    assert page.locator("img").count() == 0
    assert "taken" in page.text_content("#payload")
    page.close()
