"""The advice as an HTML page in a browser: on a narrow screen, in both schemes, on paper."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.runner import run
from tests.cli.test_html import JOB
from tests.cli.test_logs import GPU, log, steps
from tests.cli.test_logs import JOB as LOGGED
from tests.docs.built import browser_program

pytestmark = pytest.mark.sampled(12)

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")

FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
OPTIONS = {"preload": False, "resultTypes": ["violations"]}  # nothing is fetched to be looked at
OPEN = "document.querySelectorAll('details').forEach(one => { one.open = true })"
WIDTH = "document.documentElement.scrollWidth"
HIDDEN = "[...document.querySelectorAll('details > *')].filter(one => !one.checkVisibility()).length"


@pytest.fixture(scope="module")
def browser() -> Iterator["playwright.Browser"]:
    program = browser_program()
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=program, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The page of a configuration in both languages, of a log, which has tables, and of other commands."""
    folder = tmp_path_factory.mktemp("pages")
    pages = {
        "en": run("advise", *JOB, "-f", "html"),
        "zh": run("--lang", "zh", "advise", *JOB, "-f", "html"),
        "plan": run("plan", *JOB, "--gpus-per-node", "8", "--nodes", "1,2", "-f", "html"),
        "diff": run("diff", JOB[0], JOB[0], "actor_rollout_ref.model.use_liger=True", *JOB[1:], "-f", "html"),
        "check": run("check", *JOB, "-f", "html"),
        "log": run("advise", "-", *GPU, "-f", "html", stdin=log("0.9.1", LOGGED, steps())),
    }
    for name, result in pages.items():
        (folder / f"{name}.html").write_text(result.out, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in pages}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["en", "zh", "log", "plan", "diff", "check"])
def test_a_narrow_screen_shows_the_page_to_everybody(
    browser: "playwright.Browser", files: dict[str, Path], name: str, scheme: str
) -> None:
    context = browser.new_context(viewport={"width": 320, "height": 800}, color_scheme=scheme)
    requests: list[str] = []
    context.on("request", lambda request: requests.append(request.url))
    page = context.new_page()
    page.goto(files[name].as_uri())
    page.evaluate(OPEN)
    assert page.evaluate(WIDTH) == 320
    assert axe.Axe().run(page, options=OPTIONS).response["violations"] == []
    assert requests == [files[name].as_uri()]
    context.close()


def test_what_is_folded_is_printed(browser: "playwright.Browser", files: dict[str, Path]) -> None:
    page = browser.new_page()
    page.goto(files["en"].as_uri())
    assert page.evaluate(HIDDEN) > page.evaluate("document.querySelectorAll('details').length")
    page.emulate_media(media="print")
    assert page.evaluate(HIDDEN) == 0
    page.close()
