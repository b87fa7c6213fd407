"""The web page: time to first paint and of interactions, in a real Chromium on loopback.

python -m benchmarks.serving.page DATA [--papers 20]

First paint is measured in a browser with an empty cache. Interactions that need no answer of the service
(pointing at sentences, the focus, typing) are timed by the browser itself, from the event until the result is
painted (Event Timing, steps of 8 ms, 16 at least); others from the click until the results are in place and
painted.
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Browser, Page, sync_playwright

from indexer.snapshot.opening import open_snapshot
from tests.support.servers.browser import HOW_TO_GET_ONE, find_chromium, launch_arguments
from tests.support.servers.processes import akin_process

MIN_MS = 16.0  # shorter events are not reported
SIZE = {"width": 1280, "height": 860}
WATCH = """() => {
    window.slow = [];
    new PerformanceObserver((list) => {
        for (const { name, startTime, duration } of list.getEntries()) {
            window.slow.push([name, startTime, duration]);
        }
    }).observe({ type: "event", durationThreshold: 16 });
}"""
PAINT = """() => new Promise((done) => new PerformanceObserver((list) => {
    const entry = list.getEntriesByName("first-contentful-paint")[0];
    if (entry) done(entry.startTime);
}).observe({ type: "paint", buffered: true }))"""
SHIFT = """() => new Promise((done) => {
    let sum = 0;
    new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) if (!entry.hadRecentInput) sum += entry.value;
    }).observe({ type: "layout-shift", buffered: true });
    setTimeout(() => done(sum), 300);
})"""
# From a click until other cards are present and the next frame is painted.
CLICK = """(link) => new Promise((done) => {
    const before = document.querySelector(".cards"), started = performance.now();
    const look = () => {
        const now = document.querySelector(".cards");
        if (now && now !== before) requestAnimationFrame(() => done(performance.now() - started));
        else requestAnimationFrame(look);
    };
    link.click();
    look();
})"""


def show(label: str, times: Sequence[float], *, most: float) -> None:
    """Print number, median, 95th percentile, maximum, and whether the percentile exceeds ``most``."""
    p95 = statistics.quantiles(times, n=20, method="inclusive")[-1]
    verdict = "" if p95 < most else f"  more than {most:.0f}"
    print(f"{label:44}{len(times):6}{statistics.median(times):9.0f}{p95:8.0f}{max(times):8.0f} ms{verdict}")


def first_paints(browser: Browser, address: str, paths: Sequence[str]) -> tuple[list[float], float]:
    """Return the times to first paint of each path without a cache, and the largest layout shift."""
    times, shift = [], 0.0
    for path in paths:
        context = browser.new_context(base_url=address, viewport=SIZE)
        page = context.new_page()
        page.goto(path)
        times.append(page.evaluate(PAINT))
        shift = max(shift, page.evaluate(SHIFT))
        context.close()
    return times, shift


def durations(page: Page, kinds: set[str], n_done: int) -> list[float]:
    """Return how long ``n_done`` interactions took; those the browser does not report count as short."""
    page.wait_for_timeout(200)
    by_start: dict[float, float] = {}
    for name, start, duration in page.evaluate("window.slow.splice(0)"):
        if name in kinds:
            by_start[round(start)] = max(duration, by_start.get(round(start), 0.0))
    longest = sorted(by_start.values(), reverse=True)[:n_done]
    return longest + [MIN_MS] * (n_done - len(longest))


def pointed(page: Page) -> list[float]:
    """Point at sentences of the query and of cards, one after the other."""
    sentences = [*page.locator(".choice .text").all(), *page.locator(".card .sentence").all()[:20]]
    for sentence in sentences:
        sentence.hover()
    return durations(page, {"pointerover", "mouseover", "pointerenter", "mouseenter"}, len(sentences))


def focused(page: Page) -> list[float]:
    """Go through the page by Tab."""
    page.locator("a.name").focus()
    for _ in range(40):
        page.keyboard.press("Tab")
    return durations(page, {"keydown", "keyup"}, 40)


def typed(page: Page, text: str) -> list[float]:
    """Type into the title box, which shows suggestions meanwhile."""
    page.locator("#find").press_sequentially(text, delay=60)
    times = durations(page, {"keydown", "keypress", "keyup", "beforeinput", "input"}, len(text))
    page.keyboard.press("Escape")
    return times


def clicked(page: Page) -> list[float]:
    """Choose each facet of the query, and then the whole query again."""
    n_chips = page.locator("#query .chips").first.locator("a.chip").count()
    chips = page.locator("#query .chips").first.locator("a.chip")
    return [chips.nth(number).evaluate(CLICK) for number in [*range(1, n_chips), 0]]


def measure(browser: Browser, address: str, papers: Sequence[tuple[str, str]]) -> None:
    """Measure paints and interactions for ``papers``, (id, title) each."""
    paths = [f"/?paper={quote(name)}" for name, _ in papers]
    for label, opened in (("first paint, empty page", ["/"] * len(paths)), ("first paint, results", paths)):
        times, shift = first_paints(browser, address, opened)
        show(f"{label} (layout shift {shift:.3f})", times, most=1000)
    page = browser.new_context(base_url=address, viewport=SIZE).new_page()
    done: dict[str, list[float]] = {"pointing": [], "Tab": [], "typing": [], "a facet's results": []}
    for path, (_, title) in zip(paths, papers, strict=True):
        page.goto(path)
        page.evaluate(WATCH)
        done["pointing"] += pointed(page)
        done["Tab"] += focused(page)
        done["typing"] += typed(page, title[:12])
        done["a facet's results"] += clicked(page)
    for label, times in done.items():
        show(label, times, most=100)


def main() -> None:
    """Serve a collection, and measure its page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--papers", type=int, default=20)
    given = parser.parse_args()
    program = find_chromium()
    if program is None:
        sys.exit(HOW_TO_GET_ONE)
    snapshot = open_snapshot(given.data)
    step = max(1, len(snapshot) // given.papers)
    papers = [snapshot.paper(place) for place in range(0, len(snapshot), step)][: given.papers]
    serve = ("serve", "--data", str(given.data), "--port", "0", "--device", "cpu")
    with (
        akin_process(*serve, ready="Serving", AKIN_RATE="0", AKIN_LOG_LEVEL="error") as (_, line),
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=program, args=launch_arguments())
        print(f"{len(snapshot):,} papers{'':33}{'n':>6}{'median':>9}{'p95':>8}{'max':>8}")
        address = f"http://{line.split('http://')[1].split()[0]}"
        measure(browser, address, [(paper.id, paper.title) for paper in papers])
        browser.close()


if __name__ == "__main__":
    main()
