"""The report as its reader sees it: in a browser without a network, by keyboard, on a phone.

The tests leave screenshots in target/page for people to look at.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parents[3]
SCREENS = ROOT / "target" / "page"
REMUDA = Path(os.environ.get("REMUDA_BIN", ROOT / "target" / "release" / "remuda"))
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 900}

SUITE = """
title = "For the page"
source = "this test"
[scenario]
duration_s = 30
links.down.queue = { kind = "droptail", limit_bdp = 1 }
links.down.delay_ms = 10
links.up.delay_ms = 10
flows = [{ driver = "tested" }]
[[families]]
name = "steady"
group = "A"
path = "wired"
expect = ["utilisation >= 0.95"]
scenario.links.down.rate_mbit_per_sec = 12
axes = [{ name = "queue_bdp", keys = ["links.down.queue.limit_bdp"], values = [0.5, 2, 8] }]
[[families]]
name = "cell"
group = "E"
path = "cellular"
scenario.links.down.queue = { kind = "infinite" }
scenario.links.down.generator = { kind = "markov", min_mbit_per_sec = 1, max_mbit_per_sec = 9 }
[[families]]
name = "<b>beside</b>"
group = "K"
path = "wired"
scenario.links.down.rate_mbit_per_sec = 12
scenario.flows = [{ driver = "cubic", name = "neighbour" }, { driver = "tested" }]
"""

AUTHOR = """
import remuda

class MyCca(remuda.Controller):
    def resume(self, path, now):
        self.window = {packets} * path.mss
        return remuda.Decision(self.window)

    def on_measurement(self, m, now):
        return remuda.Decision(self.window)

    def hand_off(self, path):
        pass
"""


def remuda(*arguments: str | Path) -> str:
    """Runs the command in the tests' Python and returns its output."""
    python = {"REMUDA_PYTHON": str(ROOT / "target" / "venv" / "bin" / "python")}
    done = subprocess.run(
        [REMUDA, *arguments],
        env=os.environ | python,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with all sections: series, and two matrices between which an author's arm changed."""
    at = tmp_path_factory.mktemp("page")
    suite = at / "page.toml"
    suite.write_text(SUITE)
    for folder, packets in (("before", 40), ("after", 4)):
        author = at / "my_cca.py"
        author.write_text(AUTHOR.format(packets=packets))
        arms = "my_cca,cubic,bbr,vegas,rein,reno,copa"
        matrix = ["matrix", "--suite", suite, "--author", author, "--arm", arms]
        remuda(*matrix, "--out", at / folder, "--quiet")
    page = at / "report.html"
    series = ["--series", "cell", "--suite", suite, "--author", author]
    remuda("report", at / "after", "--against", at / "before", *series, "--out", page)
    return page


@pytest.fixture(scope="session")
def policies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of two policies and two arms, with the policies' series."""
    at = tmp_path_factory.mktemp("policies")
    suite = at / "page.toml"
    suite.write_text(SUITE)
    arms = "linucb,epsilon_greedy,cubic,bbr"
    remuda("matrix", "--suite", suite, "--arm", arms, "--out", at / "table", "--quiet")
    page = at / "report.html"
    series = ["--series", "queue_bdp=0.5", "--suite", suite, "--arm", "linucb,epsilon_greedy"]
    remuda("report", at / "table", *series, "--out", page)
    return page


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        yield chromium
        chromium.close()


def opened(browser: Browser, report: Path, name: str, fragment: str = "", **how: object) -> Page:
    """Opens the page without a network and takes a screenshot of all of it."""
    context = browser.new_context(offline=True, **how)
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("console", lambda line: said.append(line.text))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report.as_uri() + fragment)
    assert said == []
    assert asked == [report.as_uri()], "the page asks for nothing but itself"
    SCREENS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENS / f"{name}.png", full_page=True)
    return page


def test_all_of_it_is_drawn(browser: Browser, report: Path) -> None:
    page = opened(browser, report, "desk", viewport=DESK)
    assert page.locator("#ranks tbody tr").count() == 7
    assert page.locator("#scatter-plot circle").count() == 7
    assert page.locator("#scatter-plot text.name").count() == 7, "no name is left out"
    # A rotated ellipse would rotate its own clip, so the clip must be on the group.
    assert page.locator("#scatter-plot g[clip-path] ellipse:not([clip-path])").count() == 5
    assert page.locator("#cdf-plot polyline").count() == 5
    assert page.locator("#groups tbody tr").count() == 7
    assert page.locator("#groups thead th").all_inner_texts() == ["arm", "A", "E", "K"]
    assert page.locator("#heat tbody tr").count() == 5
    assert page.locator("#series-plot svg").count() == 4, "goodput, round trip, window, queue"
    assert page.locator("#series-plot polyline").count() == 4 + 1
    assert page.locator("#series-plot svg polyline.limit").count() == 1
    assert "capacity of down" in page.locator("#series-plot").inner_text()
    assert "is best" in page.locator("#sentence").inner_text()
    names = page.locator("#heat tbody th").all_inner_texts()
    assert any("<b>beside</b>" in name for name in names), "a name is text, never markup"


def test_a_decision_says_why_by_hovering_by_a_click_and_as_text(
    browser: Browser, policies: Path
) -> None:
    page = opened(browser, policies, "decisions", viewport=DESK)
    runs = page.locator("#run option").all_inner_texts()
    page.locator("#run").select_option(next(it for it in runs if it.startswith("linucb")))
    marks = page.locator("#series-plot svg").first.locator(".hit")
    assert marks.count() > 1
    assert page.locator("#series-plot svg").first.locator(".decision").count() == marks.count()
    hovered = marks.first.locator("title").text_content()
    assert "has the highest bound" in hovered and "copa 0.000 +- " in hovered
    assert "reward " in hovered, "features too"
    assert page.locator("#decision").inner_text().startswith("Hover over a dashed line")
    marks.first.click()
    told = page.locator("#decision")
    assert "has the highest bound" in told.inner_text()
    assert told.locator("table").first.locator("tbody tr").count() == 10, "an arm each"
    assert told.locator("tr.chosen").count() == 1, "the arm that was picked"
    rows = page.locator("#decisions tbody tr")
    assert rows.count() == marks.count()
    assert "copa 0.000 +- " in rows.first.inner_text()
    page.locator("#run").select_option(next(it for it in runs if it.startswith("epsilon")))
    told = page.locator("#decision").inner_text()
    assert told.startswith("Hover"), "another run shows the hint again"


def test_a_policy_is_beside_each_other_driver(browser: Browser, policies: Path) -> None:
    page = opened(browser, policies, "versus", viewport=DESK)
    for name in ("linucb", "epsilon_greedy"):
        page.locator("#arm").select_option(name)
        said = page.locator("#versus-sentence").inner_text()
        assert said.startswith(f"{name} does better than ") and "of the 3 others" in said
        others = page.locator("#beside tbody th").all_inner_texts()
        assert sorted([*others, name]) == ["bbr", "cubic", "epsilon_greedy", "linucb"]
    lost = page.locator("#beside tbody tr").first.inner_text()
    assert "% to " in lost, "where it loses most"


COLOURS = """([plot, kind]) => [...document.querySelectorAll(`${plot} ${kind}`)].map((it) => {
  const { fill, stroke } = getComputedStyle(it);
  return kind === "polyline" ? stroke : fill;
})"""


def test_no_two_marked_arms_have_one_colour(browser: Browser, report: Path) -> None:
    page = opened(browser, report, "colours", viewport=DESK)
    arms = page.locator("#arm option").evaluate_all("all => all.map((it) => it.value)")
    for slice_ in ("all paths", "wired paths", "cellular paths"):
        page.locator("#slice").select_option(slice_)
        best = page.locator("#ranks tbody th").all_inner_texts()[:5]
        for arm in arms:
            page.locator("#arm").select_option(arm)
            marked = 5 if not arm or arm in best else 6
            lines = page.evaluate(COLOURS, ["#cdf-plot", "polyline"])
            assert len(lines) == len(set(lines)) == marked, f"{slice_}, {arm}"
            dots = page.evaluate(COLOURS, ["#scatter-plot", "circle"])
            grey = [it for it in dots if it not in lines]
            assert len(grey) == 7 - marked and len(set(grey)) == 1, f"{slice_}, {arm}"
            assert page.locator("#scatter-plot .name.other").count() == 7 - marked


def test_a_driver_that_starves_no_other_is_shown_with_those_it_meets(
    browser: Browser, report: Path
) -> None:
    page = opened(browser, report, "meetings", "#arm=vegas", viewport=DESK)
    said = page.locator("#starving-sentence").inner_text()
    none = "vegas meets these drivers and starves none of them (number of environments): "
    assert none + "cubic (1)." in said
    assert said.endswith("To see it beside others: remuda matrix --suite sharing.")


def test_a_change_and_what_it_did(browser: Browser, report: Path) -> None:
    page = opened(browser, report, "changed", viewport=DESK)
    section = page.locator("section", has=page.locator("#changed"))
    assert section.locator(".verdict").inner_text() == "FAIL"
    first = section.locator("tbody").first
    rows = {row.split("\t")[0]: row for row in first.inner_text().split("\n") if "\t" in row}
    assert "FAIL" in rows["my_cca"] and "PASS" in rows["cubic"]
    largest = section.locator("tbody").nth(1).locator("tr")
    assert all("my_cca" in row for row in largest.all_inner_texts())


def test_pass_and_fail_lines(browser: Browser, report: Path) -> None:
    page = opened(browser, report, "lines", viewport=DESK)
    assert "utilisation >= 0.95 (" in page.locator("#missed").inner_text()
    page.locator("#arm").select_option("cubic")
    shown = page.locator("#missed").inner_text()
    assert "my_cca" not in shown


def test_a_keyboard_is_enough(browser: Browser, report: Path) -> None:
    page = opened(browser, report, "keyboard", viewport=DESK)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.locator("#slice").focus()
    before = page.locator("#sentence").inner_text()
    # Typing selects the first option that begins so: cellular paths.
    page.keyboard.type("cell")
    after = page.locator("#sentence").inner_text()
    assert before.startswith("On all paths") and after.startswith("On cellular paths")
    assert page.locator("#heat tbody tr").count() == 1
    for region in page.locator("[role=region]").all():
        region.focus()
        assert region.evaluate("it => it === document.activeElement"), "it can take the focus"


def test_a_link_shows_what_its_sender_saw(browser: Browser, report: Path) -> None:
    page = opened(browser, report, "sender", viewport=DESK)
    assert page.url == report.as_uri(), "the address has no default choices"
    page.locator("#slice").select_option("wired paths")
    page.locator("#arm").select_option("bbr")
    page.locator("#metric").select_option("queueing-delay")
    page.locator("#order").select_option("worst")
    page.locator("#run").select_option(index=1)
    page.locator("nav").get_by_text("Distributions").click()
    page.wait_for_url("**#at=distributions*")
    fragment = "#" + page.url.partition("#")[2]
    for part in ("paths=wired+paths", "arm=bbr", "metric=queueing-delay", "at=distributions"):
        assert part in fragment
    other = opened(browser, report, "receiver", fragment, viewport=DESK)
    assert other.url == page.url
    assert other.locator("main").inner_text() == page.locator("main").inner_text()
    first = page.locator("#heat tbody tr").first.inner_text()
    assert "<b>beside</b>" in first, "where bbr is worst"
    # A full-page screenshot may scroll the page, so this page is opened without one.
    arrived = browser.new_context(offline=True, viewport=DESK).new_page()
    arrived.goto(page.url)
    assert 0 <= arrived.locator("#distributions").bounding_box()["y"] < 200
    # In the same tab, a link to a section keeps the choices; a link with choices replaces them.
    other.evaluate("location.hash = '#scatter'")
    other.wait_for_url("**#at=scatter&paths=wired+paths*")
    other.evaluate("location.hash = '#arm=cubic'")
    other.wait_for_url("**#arm=cubic")
    assert other.locator("#slice").input_value() == "all paths"
    section = opened(browser, report, "section", "#scatter", viewport=DESK)
    assert section.locator("#ranks tbody tr").count() == 7, "a section alone is a link too"


HOSTILE = (
    "#paths=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E&arm=__proto__&metric=constructor&order=%zz"
    "&run=-1&at=%22%5D%2Cscript&rows=1e9&toString=1"
)


def test_a_hostile_link_changes_nothing(browser: Browser, report: Path) -> None:
    plain = opened(browser, report, "plain", viewport=DESK)
    for fragment in (HOSTILE, "#%", "#" + "a=" * 50_000, "#at=data", "#slice"):
        page = opened(browser, report, "hostile", fragment, viewport=DESK)
        assert page.locator("main").inner_text() == plain.locator("main").inner_text()
        assert page.url == report.as_uri(), "the address has the choices that are shown"


def test_a_phone_needs_no_sideways_scrolling(browser: Browser, report: Path) -> None:
    page = opened(browser, report, "phone", viewport=PHONE)
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= PHONE["width"]
    letters = page.locator("#scatter-plot svg").evaluate(
        "it => it.getBoundingClientRect().width / it.viewBox.baseVal.width"
    )
    assert letters > 0.9, "the letters of a plot keep their size"


CONTRAST = """() => {
  const light = (colour) => {
    // color-mix() reports channels from 0 to 1, all other colours from 0 to 255.
    const most = colour.startsWith("color(") ? 1 : 255;
    const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).map((it) => {
      const share = it / most;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const page = light(getComputedStyle(document.body).backgroundColor);
  const fields = [...document.querySelectorAll("td.heat")].map((field) => {
    const { color, backgroundColor } = getComputedStyle(field);
    return contrast(light(color), light(backgroundColor));
  });
  const texts = ["p", "h2", "thead th", "dt", "a", ".fail", ".pass"].map((name) => {
    return contrast(light(getComputedStyle(document.querySelector(name)).color), page);
  });
  return [...texts, ...fields];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_by_day_and_by_night(browser: Browser, report: Path, scheme: str) -> None:
    page = opened(browser, report, scheme, viewport=DESK, color_scheme=scheme)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == {"light": "rgb(251, 251, 250)", "dark": "rgb(24, 24, 23)"}[scheme]
    least = min(page.evaluate(CONTRAST))
    assert least >= 4.5, "WCAG 2.2, 1.4.3"
