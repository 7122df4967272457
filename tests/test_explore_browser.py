"""The explorer in a real browser: what a person does, and what must not happen."""

import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

from carving import OSC, Memory

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
found = next(filter(None, map(shutil.which, BROWSERS)), None)
drive = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: the extra dev brings it")
pytestmark = [
    pytest.mark.skipif(found is None, reason="there is no Chromium here (`apt-get install chromium`)"),
    pytest.mark.xdist_group("browser"),  # one browser for all
]

NASTY = "<img src=x onerror=\"document.title='broken'\"><b>bold</b>"
FACTS = [*(((f"key {i}", "of"), f"value {i}") for i in range(20)), (("nasty", NASTY), NASTY)]
LONG = 60_000  # milliseconds, on a machine that does something else too


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    file = tmp_path_factory.mktemp("explore") / "facts.safetensors"
    memory = Memory(OSC(d=40, p=2, compact=True), keep_paths=True)
    memory.store(FACTS)
    memory.save(file)
    return file


@pytest.fixture(scope="module")
def running(file):
    """The command, its address and its process; the last test stops it."""
    command = [sys.executable, "-m", "carving", "explore", str(file), "--write", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}) as run:
        try:
            yield re.search(r"http://\S+", run.stdout.readline()).group(), run
        finally:
            run.kill()


@pytest.fixture(scope="module")
def address(running):
    return running[0]


@pytest.fixture(scope="module")
def browser(once):
    once("browser")
    sandbox = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []  # root has none
    with drive.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=sandbox)
        yield running
        running.close()


@pytest.fixture
def tab(browser):
    """A tab; what its console says of errors is one."""
    context = browser.new_context(viewport={"width": 1000, "height": 800})
    page, said = context.new_page(), []
    page.set_default_timeout(LONG)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("console", lambda line: said.append(line.text) if line.type == "error" else None)
    yield page
    print(page.url, *said, page.inner_text("body"), sep="\n")  # shown where a test fails
    context.close()
    assert [line for line in said if "Failed to load resource" not in line] == []


def show(tab, address, view):
    tab.goto(f"{address}#{view}")
    tab.wait_for_selector("body[data-ready]")
    return tab


def turn(tab, view):
    """To another view; what is typed must not reach the one before."""
    tab.click(f"#tab-{view}")
    return tab.wait_for_selector(f"#view[aria-labeledby=tab-{view}]")


def test_the_page_loads_in_every_view_and_width(tab, address):
    show(tab, address, "overview")
    assert tab.title() == "facts.safetensors – Carving explorer"
    tab.wait_for_selector("text=Predicted accuracy with")
    assert tab.inner_text("h1") == "21 pairs in 1,600 cells"
    tab.focus("#tab-overview")
    for name in ("Ask", "Change", "Decode", "Plan"):
        tab.keyboard.press("ArrowRight")  # by the keyboard alone
        assert tab.inner_text("[role=tab][aria-selected=true]") == name
        tab.set_viewport_size({"width": 400, "height": 800})
        assert tab.evaluate("document.documentElement.scrollWidth") <= 400
        tab.set_viewport_size({"width": 2000, "height": 800})
    tab.select_option("#theme", "dark")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 24, 26)"


def test_answers_follow_while_somebody_types(tab, address):
    show(tab, address, "ask").wait_for_selector(".answer")
    tab.fill("input", "key 7 / of")
    tab.wait_for_selector(".answer:text-is('value 7')")
    assert "threshold" in tab.get_attribute(".plot", "aria-label")
    tab.fill("input", "key 7 / wrong")
    tab.wait_for_selector(".answer:text-is('Nothing is stored here')")
    tab.fill("input", "key 3 / of")
    tab.check("text=top candidates")
    tab.get_by_role("spinbutton", name="Number of candidates").fill("7")
    tab.wait_for_selector("text=The best 7 candidates, each with its own probability")
    assert len(tab.query_selector_all(".list li")) == 7
    tab.check("text=is a value stored?")
    tab.get_by_role("combobox", name="Value").fill("value 3")
    tab.wait_for_selector(".answer:text-is('Yes: value 3')")
    tab.wait_for_selector("datalist option[value='value 3']", state="attached")


def test_no_answer_stays_when_its_query_is_no_longer_complete(tab, address):
    show(tab, address, "ask").wait_for_selector(".answer")
    tab.fill("input", "")
    tab.wait_for_selector("text=Type a path to see the answer.")
    assert tab.query_selector(".answer") is None and not tab.is_visible(".plot")
    tab.fill("input", "key 3 / of")
    tab.wait_for_selector(".answer:text-is('value 3')")
    tab.check("text=is a value stored?")
    tab.wait_for_selector("text=Type a value to see the answer.")
    assert tab.query_selector(".answer") is None and not tab.is_visible(".plot")
    tab.get_by_role("combobox", name="Value").fill("value 3")
    tab.wait_for_selector(".answer:text-is('Yes: value 3')")
    tab.get_by_role("combobox", name="Value").fill("")
    tab.wait_for_selector("text=Type a value to see the answer.")


def test_a_label_full_of_markup_is_shown_as_text(tab, address):
    show(tab, address, "ask").wait_for_selector(".answer")
    tab.fill("input", "nasty")
    tab.click(".picks button:has-text('onerror')")
    tab.wait_for_selector(".answer:has-text('onerror')")
    assert tab.inner_text(".answer") == NASTY
    assert tab.query_selector("main b, main img") is None
    assert "broken" not in tab.title()


def test_labels_without_a_break_stay_in_the_page(tab, address):
    show(tab, address, "change")
    for path, value in (("unbroken" * 40, "W" * 300), ("pets", "dog"), ("pets", "cat")):
        tab.get_by_label("Path").fill(path)
        tab.get_by_label("Value", exact=True).fill(value)
        tab.click("button:text-is('Store')")
        tab.wait_for_selector(f".done:has-text('{value[:20]}')")
    for view in ("ask", "overview", "change"):
        turn(tab, view)
        if view == "ask":
            tab.fill("#view[aria-labeledby=tab-ask] input", "unbroken" * 40)
            tab.wait_for_selector(".answer:has-text('WWWW')")
        for width in (400, 1280):
            tab.set_viewport_size({"width": width, "height": 800})
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
    turn(tab, "ask")
    tab.fill("#view[aria-labeledby=tab-ask] input", "pets")
    tab.check("fieldset >> text=all values")
    tab.wait_for_selector("text=This path holds 2 values:")
    assert tab.locator(".plot .here").count() == 2  # both stand out
    tab.wait_for_selector("text=so their probabilities and order can differ")


def test_the_answer_is_seen_where_the_page_is_narrow(tab, address):
    tab.set_viewport_size({"width": 400, "height": 800})
    show(tab, address, "ask").wait_for_selector(".answer")
    place = tab.locator(".answer").bounding_box()
    assert place["y"] + place["height"] < 800


def test_the_skip_link_leads_into_the_view_that_is_shown(tab, address):
    show(tab, address, "plan").focus(".skip")
    tab.keyboard.press("Enter")
    assert tab.inner_text("[role=tab][aria-selected=true]") == "Plan"
    assert tab.evaluate("document.activeElement.id") == "main"


def test_a_page_whose_copy_was_given_up_is_told(tab, address):
    show(tab, address, "change").wait_for_selector("text=you are here")  # has its copy before others
    again = "fetch('api/session', {method: 'POST', headers: {'content-type': 'application/json'}, body: '{}'})"
    tab.evaluate(f"Promise.all(Array.from({{length: 8}}, () => {again}))")
    tab.wait_for_selector("text=copy of the memory has expired")


def test_what_is_stored_in_a_tab_is_in_that_tab_alone(tab, address, file):
    other = tab.context.new_page()
    for page in (tab, other):
        show(page, address, "change").wait_for_selector("text=you are here")
    tab.get_by_label("Path").fill("my dog / says")
    tab.get_by_label("Value", exact=True).fill("woof")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("text=Stored: my dog / says → woof")
    tab.wait_for_selector("text=1 unsaved change; the copy holds 22 pairs.")
    tab.wait_for_selector("strong:has-text('22 pairs')")  # the load followed
    other.reload()
    other.wait_for_selector("text=the copy holds 21 pairs.")
    other.close()
    assert Memory.load(file).pairs == 21
    tab.click("button:text-is('Forget')")
    tab.wait_for_selector("text=Forgotten: my dog / says → woof")
    tab.click("button:text-is('Forget')")
    tab.wait_for_selector("text=nothing was removed")


def test_decode_and_plan_draw_what_comes(tab, address):
    show(tab, address, "decode").click("text=Decode all paths jointly")
    tab.wait_for_selector("text=: 21 answers.")
    tab.click("#tab-plan")
    tab.get_by_label("Pairs:").fill("10")  # ten pairs are planned soonest
    tab.get_by_label("Distinct values:").fill("4")
    tab.wait_for_selector("code:has-text('--pairs 10 ')")
    assert len(tab.query_selector_all(".bars .track")) >= 3


def test_saving_writes_and_a_server_that_stopped_is_said_to_have(tab, running, file):
    address, run = running
    show(tab, address, "change")
    tab.get_by_label("Path").fill("kept / for good")
    tab.get_by_label("Value", exact=True).fill("yes")
    tab.click("button:text-is('Store')")
    tab.click("text=Save to file")
    tab.wait_for_selector("text=Saved 1 change to")
    assert Memory.load(file)["kept", "for good"] == "yes"
    run.send_signal(signal.SIGINT)
    assert run.wait(30) == 0
    tab.click("button:text-is('Store')")
    tab.wait_for_selector("text=The explorer has stopped.")
