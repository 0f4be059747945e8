"""The page's Python, broken in every way: the reader is told why, keeps the choices that are stored, and can try again;
and a typed answer reaches neither the page nor the network."""

import threading
import time

import harness
import pytest
from lab_site import live
from test_live import CHAPTER, Reader, answer, question
from test_site_answers import CHAPTER as ANSWERED
from test_site_answers import Exercise

ASSETS = ("worker.mjs", *live.SCRIPTS, f"{live.CORE}.packed", "python.zip", live.LOCK)
FAULTS = ("missing", "dropped", "cut off", "slow")


COMPILES = "'wasm-unsafe-eval'"


def policies_without(name, address):
    """The page's policy and the worker's, which allow everything that they must but this asset, or WebAssembly."""
    allowed = " ".join(f"{address}/{live.FOLDER}/{each}" for each in ASSETS if each != name)
    page = f"{harness.POLICY}; worker-src {'none' if name == 'worker.mjs' else 'self'!r}"
    scripts = allowed if name == COMPILES else f"{allowed} {COMPILES}"
    return page, f"default-src 'none'; script-src {scripts}; connect-src {allowed}"


def break_asset(page, name, fault):
    asked = threading.Event()

    def broken(route):
        asked.set()
        if fault == "missing":
            route.fulfill(status=404, body="")
        elif fault == "dropped":
            route.abort("connectionreset")
        elif fault == "cut off":
            body = (harness.SITE / live.FOLDER / name).read_bytes()
            kind = "text/javascript" if name.endswith(".mjs") else "application/octet-stream"
            policy = {"Content-Security-Policy": harness.WORKER_POLICY}
            route.fulfill(body=body[: len(body) // 2], content_type=kind, headers=policy)
        # slow: no answer at all

    page.route(f"**/{name}*", broken)
    return asked


HEARD = "() => new Promise((done) => { const { port1, port2 } = new MessageChannel(); " + (
    "port1.onmessage = () => done(); port2.postMessage(0); })"
)
"""What was sent to the page before has come to it."""


def overdue(page, asked):
    """By the page's clock all of its time is over, once it has asked for what does not come."""
    until = time.monotonic() + harness.LONGEST_S
    while not asked.is_set():
        assert time.monotonic() < until, "it was not asked for"
        page.wait_for_timeout(10)
    page.evaluate(HEARD)
    page.clock.fast_forward(1000 * harness.LONGEST_S)


def given_up(reader, why):
    """The button that tries again, once the reader is told why Python does not run; what is stored can be chosen."""
    retry = reader.explorer.get_by_role("button", name="Try again")
    retry.wait_for()
    told = reader.status()
    assert told.startswith("Python does not run here: ") and why in told and "computed beforehand" in told, told
    reader.explorer.get_by_role("radio", name="16").check()
    assert "57 F" in reader.panel() and reader.explorer.locator("[data-axis=ranks] input[type=range]").is_visible()
    return retry


EACH = [(name, fault) for name in ASSETS for fault in FAULTS]
CASES = [EACH[0], *(pytest.param(*case, marks=pytest.mark.matrix) for case in EACH[1:])]


@pytest.mark.browser
@pytest.mark.parametrize(("name", "fault"), CASES)
def test_a_fault_is_told_and_the_stored_choices_stay_and_it_starts_when_asked(visit, name, fault):
    reader = Reader(visit(CHAPTER))
    asked = break_asset(reader.page, name, fault)
    if fault == "slow":
        reader.page.clock.install()
    reader.type("ranks", 5)
    if fault == "slow":
        overdue(reader.page, asked)
    retry = given_up(reader, name)
    if (name, fault) == ("python.zip", "missing"):
        reader.page.unroute(f"**/{name}*")
        retry.press("Enter")
        reader.wait(ranks=5)
        assert not retry.is_visible() and "any value, computed here" in reader.status()


@pytest.mark.browser
@pytest.mark.parametrize("name", [COMPILES, *(pytest.param(name, marks=pytest.mark.matrix) for name in ASSETS)])
def test_what_a_policy_blocks_is_told_and_the_stored_choices_stay(visit, address, name, monkeypatch):
    page, worker = policies_without(name, address)
    monkeypatch.setattr(harness, "POLICY", page)
    monkeypatch.setattr(harness, "WORKER_POLICY", worker)
    reader = Reader(visit(CHAPTER))
    reader.type("ranks", 5)
    given_up(reader, "Content Security Policy" if name == COMPILES else name)


@pytest.mark.browser
def test_an_exercise_takes_the_same_way_out(shared):
    exercise = Exercise(shared(ANSWERED))
    break_asset(exercise.page, "python.zip", "missing")
    exercise.press("Answer here")
    exercise.field.fill('check("08.3", 3)')
    exercise.press("Check")
    exercise.says("Python does not run here: python.zip is not there (404).")
    exercise.page.unroute("**/python.zip*")
    exercise.cell.get_by_role("button", name="Try again").press("Enter")
    exercise.says("✓ 08.3: right.")


KNOWN = "Worker = class extends Worker { constructor(...way) { super(...way); (window.begun ??= []).push(this); } }"
"""Keeps a page's workers, so that one can be killed."""


@pytest.mark.browser
def test_a_python_that_was_killed_is_told_of_and_starts_again(visit):
    reader = Reader(visit(CHAPTER, before=lambda page: page.add_init_script(KNOWN)))
    reader.type("ranks", 5)
    reader.wait(ranks=5)
    reader.page.evaluate("begun[0].terminate()")
    harness.hurry(reader.page, panel=700)
    reader.type("ranks", 6)
    retry = reader.explorer.get_by_role("button", name="Try again")
    retry.wait_for()
    assert reader.status().startswith("Python gave no answer: nothing came back within 0.7 s")
    harness.hurry(reader.page, panel=1000 * harness.LONGEST_S)
    retry.press("Enter")
    reader.wait(ranks=6)
    assert reader.ask(question(ranks=6)) == answer(question(ranks=6))


HOSTILE = [
    *(f"import {name}" for name in ("js", "pyodide", "pyodide_js", "_pyodide_core", "pyodide.code", "_pyodide")),
    *(f"import importlib\nimportlib.import_module('{name}').x" for name in ("js", "pyodide_js", "_ctypes")),
    "import sys\ndel sys.modules['js']\n__import__('js').fetch",
    """def kinds(kind):
    for each in type.__subclasses__(kind):
        yield each
        yield from kinds(each)
found = next(each for each in kinds(Exception) if each.__name__ == 'JsException')
found('a', 'b').constructor.constructor("postMessage('x'); return fetch('/')")()
check('08.3', 3)""",
]


@pytest.mark.browser
def test_hostile_answers_reach_nothing_and_the_next_one_is_judged(shared):
    visited = shared(ANSWERED)
    visited.troubles.clear()  # of the Python that was missing
    judge = "cell => window.lab.python.judge(cell)"
    for cell in HOSTILE:
        assert "lab-passed" not in visited.page.evaluate(judge, cell), cell
    forged = "from chapters.exercises.judging import Outcome\n"
    forged += "Outcome._repr_html_ = lambda self: '<p class=lab-outcome><img src=x onerror=hacked=1>&lt;b&gt;</p>'\n"
    said = visited.page.evaluate(judge, f'{forged}check("08.3", 3)')
    assert said == '<p class="lab-outcome lab-open">&lt;b&gt;</p>'
    assert visited.page.evaluate("typeof hacked") == "undefined"
    assert all("inline event handler" in trouble for trouble in visited.troubles), "the policy's word, and no other"


@pytest.mark.browser
def test_nothing_but_the_language_is_left_in_a_worker(visit):
    visited = visit(ANSWERED)
    names = "fetch XMLHttpRequest WebSocket importScripts postMessage indexedDB caches Worker EventSource eval Function"
    shown = f"console.log('left', '{names}'.split(' ').filter((name) => name in globalThis).join());"
    body = (harness.SITE / live.FOLDER / "worker.mjs").read_text("utf-8")
    policy = {"Content-Security-Policy": harness.WORKER_POLICY}
    body = body.replace("tell({ ready: true });", f"{shown} tell({{ ready: true }});")
    visited.page.route(
        f"**/{ASSETS[0]}*", lambda route: route.fulfill(body=body, content_type="text/javascript", headers=policy)
    )
    with visited.page.expect_console_message(lambda said: said.text.startswith("left")) as said:
        visited.page.evaluate("cell => window.lab.python.judge(cell)", 'check("08.3", 3)')
    assert said.value.text == "left Function"  # which the policy does not let make anything of a text
