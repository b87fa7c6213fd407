"""The browser, and a service for it over the demo corpus."""

from tests.support.servers.browser import chromium, site, tab, visit, visit_at

__all__ = ["chromium", "site", "tab", "visit", "visit_at"]
