"""A real browser for tests of the page: one Chromium for all tests, and one tab for their plain visits.

The program is, in this order, the path in ``AKIN_CHROMIUM`` or the system's Chromium or Chrome. Without one,
these tests are skipped, or fail if ``CI`` is set. A test also fails if its pages sent a request to another
origin, broke their Content-Security-Policy or left an exception uncaught.

Browser and service are closed before the next test elsewhere: no other event loop can run in the thread with
that of Playwright, and background work of the service would run with the patches of other tests. Opening a
tab costs more than loading a page, so the first plain visit of every test uses the same tab. Tests that
change more than their page (the clock, permissions, the length of the history) use ``visit_at``.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copytree
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    Route,
    expect,
    sync_playwright,
)

from service.app import create_app
from service.cache.store import open_cache
from service.collection.generations import open_warm_engine
from service.settings import Settings
from tests.support.servers.loopback import served

HOW_TO_GET_ONE = "no browser: apt-get install chromium, or name the program in AKIN_CHROMIUM"
# Without the browser's own traffic (updates, pings, HTTP/3), which would hide that of the page.
_ARGUMENTS = (
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
# WCAG 2.2 at level AA, and the good practice of axe-core.
_RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
_AXE = Axe()
_PATIENCE_MS = 60_000  # enough on a busy machine


def find_chromium() -> str | None:
    """Return the path of the browser to test with, or ``None``."""
    return os.environ.get("AKIN_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)


def launch_arguments() -> list[str]:
    """Return the browser's arguments; root must run it without the sandbox."""
    return [*_ARGUMENTS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]


class Shared:
    """The service, browser and tab shared by tests, started when first needed, and again after ``close``."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._site: str | None = None
        self._browser: Browser | None = None
        self._tab: Tab | None = None

    def site(self, data: Path, folders: pytest.TempPathFactory) -> str:
        """Return the address of a service over a copy of ``data``, including the catalog."""
        if self._site is None:
            copy = copytree(data, folders.mktemp("site") / "data")
            self._site = self._open.enter_context(served_collection(copy))
        return self._site

    def browser(self) -> Browser:
        """Return a running browser; without a program, skip the test, or fail in CI."""
        if self._browser is None:
            program = find_chromium()
            if program is None:
                if os.environ.get("CI"):
                    pytest.fail(HOW_TO_GET_ONE)
                pytest.skip(HOW_TO_GET_ONE)
            expect.set_options(timeout=_PATIENCE_MS)
            playwright = self._open.enter_context(sync_playwright())
            self._browser = playwright.chromium.launch(executable_path=program, args=launch_arguments())
            self._open.callback(self._browser.close)
        return self._browser

    def tab(self, origin: str) -> "Tab":
        """Return the tab for visits to the service over the demo corpus."""
        if self._tab is None:
            context = self.browser().new_context(base_url=origin, reduced_motion="reduce")
            context.set_default_timeout(_PATIENCE_MS)
            self._tab = Tab(context.new_page(), Watched(origin))
            self._tab.watched.follow(context)
        return self._tab

    def close(self) -> None:
        """Close everything that is open."""
        self._site = self._browser = self._tab = None
        self._open.close()


SHARED = Shared()


@pytest.fixture
def chromium() -> Browser:
    """A running browser."""
    return SHARED.browser()


@dataclass
class Watched:
    """The faults of the pages of a browser context."""

    origin: str
    faults: list[str] = field(default_factory=list)

    def request(self, request: Request) -> None:
        """Record a request to another origin."""
        if not request.url.startswith((f"{self.origin}/", "data:", f"blob:{self.origin}/")):
            self.faults.append(f"asked another origin: {request.url}")

    def console(self, message: ConsoleMessage) -> None:
        """Record a violation of the Content-Security-Policy."""
        if "Content Security Policy" in message.text:
            self.faults.append(f"broke the policy: {message.text}")

    def follow(self, context: BrowserContext) -> None:
        """Watch every page of ``context``, including pages opened later."""
        context.on("request", self.request)
        context.on("console", self.console)
        context.on("weberror", lambda error: self.faults.append(f"uncaught: {error.error}"))


VisitFn = Callable[..., Page]


@pytest.fixture
def visit_at(chromium: Browser) -> Iterator[VisitFn]:
    """A function that opens a path of an origin in a new context, with Playwright's context options."""
    opened: list[tuple[BrowserContext, Watched]] = []

    def visit(origin: str, path: str, **options: object) -> Page:
        context = chromium.new_context(base_url=origin, **{"reduced_motion": "reduce", **options})
        context.set_default_timeout(_PATIENCE_MS)
        watched = Watched(origin)
        watched.follow(context)
        opened.append((context, watched))
        page = context.new_page()
        page.goto(path)
        return page

    yield visit
    faults = [fault for _, watched in opened for fault in watched.faults]
    for context, _ in opened:
        context.close()
    assert [] == faults


@dataclass
class Tab:
    """A browser tab that tests use one after another, with the faults of its pages."""

    page: Page
    watched: Watched
    is_taken: bool = False

    def open(self, path: str) -> Page:
        """Open a path, with the mouse in the corner."""
        self.is_taken = True
        self.page.mouse.move(0, 0)
        self.page.goto(path)
        return self.page

    def give_back(self) -> list[str]:
        """Remove the routes of a test and return the faults of its pages."""
        self.page.unroute_all(behavior="ignoreErrors")
        faults, self.watched.faults, self.is_taken = self.watched.faults, [], False
        return faults


@pytest.fixture
def tab(site: str) -> Tab:
    """A tab for visits to the service over the demo corpus."""
    return SHARED.tab(site)


@pytest.fixture
def visit(visit_at: VisitFn, tab: Tab, site: str) -> Iterator[VisitFn]:
    """A function that opens a path of the demo service, in a new context with options or if called again."""
    yield (
        lambda path, **options: visit_at(site, path, **options) if options or tab.is_taken else tab.open(path)
    )
    assert [] == tab.give_back()


@pytest.fixture
def site(hashed_data: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a service over the demo corpus."""
    return SHARED.site(hashed_data, tmp_path_factory)


@contextmanager
def served_collection(data: Path) -> Iterator[str]:
    """Yield the address of a service over a collection, which it may write to."""
    settings = Settings(data=data, device="cpu")
    cache = open_cache(settings)
    with served(create_app(settings, open_warm_engine(settings, cache), cache=cache)) as address:
        yield address


def held_requests(page: Page, pattern: str) -> list[Route]:
    """Hold the requests of a page to addresses like ``pattern``; return those that wait, as they come."""
    held: list[Route] = []

    def hold(route: Route) -> None:  # a list's own append cannot be inspected for its parameters
        held.append(route)

    page.route(pattern, hold)
    return held


def barriers(page: Page, *, of: Literal["all", "colours", "layout"] = "all") -> list[str]:
    """Return the accessibility problems of a page by axe-core's rules: rule, place, finding.

    The contrast of every text takes two thirds of the time. ``"colours"`` checks only the contrast, for a
    page already checked in another colour scheme; ``"layout"`` the rest, for one checked in another width.
    """
    options: dict[str, object] = {
        "runOnly": ["color-contrast"] if of == "colours" else list(_RULES),
        "preload": False,
    }
    if of == "layout":
        options["rules"] = {"color-contrast": {"enabled": False}}
    found = _AXE.run(page, options={**options, "resultTypes": ["violations"]})
    return [
        f"{violation['id']} at {' '.join(map(str, node['target']))}: {node['failureSummary']}"
        for violation in found.response["violations"]
        for node in violation["nodes"]
    ]
