"""`/docs` in a browser: the interface described without anything from elsewhere."""

from playwright.sync_api import expect

from tests.support.servers.browser import VisitFn


def test_the_interface_is_described_offline(visit: VisitFn) -> None:
    """Swagger UI lists the endpoints and tries one out, and nothing leaves the origin or is refused."""
    page = visit("/docs")
    expect(page.get_by_role("heading", name="Akin")).to_be_visible()
    alive = page.locator("#operations-operations-livez_livez_get")
    alive.get_by_role("button").first.click()
    alive.get_by_role("button", name="Try it out").click()
    alive.get_by_role("button", name="Execute").click()
    expect(alive.locator(".live-responses-table")).to_contain_text("200")
