"""Tests of `/docs` in a browser: the API is described without resources from elsewhere."""

from playwright.sync_api import Page, expect

from tests.support.servers.browser import VisitFn

# Whether the text colour of an element, as rgb(r, g, b), is bright or not.
BRIGHT = """([part, bright]) => {
    const [red, green, blue] = getComputedStyle(document.querySelector(part)).color.match(/[0-9]+/g);
    return bright === (Number(red) + Number(green) + Number(blue) > 3 * 128);
}"""


def test_the_interface_is_described_offline(visit: VisitFn) -> None:
    """Swagger UI lists the endpoints, tries one and follows the theme, without other origins."""
    page = visit("/docs")
    expect(page.get_by_role("heading", name="Akin 0")).to_be_visible()
    expect(page.get_by_role("heading", name="saved queries Queries saved")).to_be_visible()
    expect(page.get_by_text("Start with POST /v1/search")).to_be_visible()
    expect(page.get_by_role("link", name="Akin: find papers on the page")).to_have_attribute("href", "/")
    # The background of code covers no neighbouring line.
    line, code = page.locator(".info li").first.evaluate(
        "each => [parseFloat(getComputedStyle(each).lineHeight),"
        " each.querySelector('code').getClientRects()[0].height]"
    )
    assert line >= code
    search = page.locator("#operations-search-search_v1_search_post")
    search.get_by_role("button").first.click()
    expect(search.get_by_role("option", name="The same method, another problem")).to_be_attached()
    alive = page.locator("#operations-operations-livez_livez_get")
    alive.get_by_role("button").first.click()
    alive.get_by_role("button", name="Try it out").click()
    alive.get_by_role("button", name="Execute").click()
    expect(alive.locator(".live-responses-table")).to_contain_text("200")
    follows_the_theme(page)


def follows_the_theme(page: Page) -> None:
    """Check that the theme follows the system at the start and after changes, with readable links."""
    page.emulate_media(color_scheme="dark")
    page.reload()
    expect(page.get_by_role("heading", name="Akin 0")).to_be_visible()
    for is_dark in (True, False, True):
        page.emulate_media(color_scheme="dark" if is_dark else "light")
        expect(page.locator("html")).to_have_class("dark-mode" if is_dark else "")
        for part in (".info .title", "nav a"):
            page.wait_for_function(BRIGHT, arg=[part, is_dark])  # Swagger UI fades some colours
