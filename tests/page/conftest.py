"""A browser, and a page of a server whose engine says what a test wrote down.

Debian's chromium, driven by playwright (`make page-test`). Where one of them is missing these are skipped.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.page.engine import ScriptedEngine
from tests.page.talk import Talk
from tests.server.http.serving import served

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """A chromium for these tests, and only while they run: playwright keeps an event loop in their thread."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if path is None:
        pytest.skip("there is no chromium on the path")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def scripted() -> Iterator[tuple[ScriptedEngine, int]]:
    """One server for all tests."""
    engine = ScriptedEngine()
    with served(engine, names=("scripted/model",)) as client:
        yield engine, client.port


@pytest.fixture
def talk(browser: Any, scripted: tuple[ScriptedEngine, int]) -> Iterator[Talk]:
    """A fresh browser profile with the page open. Whatever a test does, the page may throw no error."""
    engine, port = scripted
    engine.replies.clear()
    engine.requests.clear()
    engine.cancelled = 0
    context = browser.new_context(viewport={"width": 1200, "height": 800}, service_workers="block")
    context.set_default_timeout(5000)
    opened = Talk(context.new_page(), engine, port)
    opened.open()
    yield opened
    context.close()
    assert opened.faults == []
