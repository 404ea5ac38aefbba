"""Take the pictures of docs/images anew: `python -m tests.page.screenshots`.

Those of the built-in model show what it said. One shows a text that is written down here, to have some of
everything; its caption says so.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from qanat.server.engine_client import EngineOptions
from qanat.server.local_engine import LocalEngine
from tests.page.conftest import ARGUMENTS
from tests.page.engine import Say, ScriptedEngine
from tests.page.talk import Talk
from tests.server.http.serving import served

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
DESK, PHONE = {"width": 1180, "height": 780}, {"width": 390, "height": 780}

SOME_OF_EVERYTHING = r"""A **qanat** carries water from an aquifer to the surface by gravity alone.
Too steep a slope, and the water digs into its bed. Manning's formula tells its speed,

$$
v = \frac{1}{n} R^{2/3} S^{1/2}
$$

with the hydraulic radius $R$ and the slope $S$:

```python
def velocity(radius: float, slope: float, n: float = 0.03) -> float:
    return radius ** (2 / 3) * slope**0.5 / n
```

| slope | speed at R = 0.2 m |
|---|--:|
| 1 : 1000 | 0.36 m/s |
| 1 : 1500 | 0.29 m/s |
"""


def main() -> None:
    from playwright.sync_api import sync_playwright

    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as driver:
        path = os.environ.get("CHROMIUM") or shutil.which("chromium")
        browser = driver.chromium.launch(executable_path=path, args=ARGUMENTS)
        with served(LocalEngine(EngineOptions())) as client:
            page = tab(browser, DESK, "light")
            page.goto(f"http://127.0.0.1:{client.port}/")
            converse(page)
            page.screenshot(path=IMAGES / "page.png")
            look_inside(page)
        engine = ScriptedEngine()
        with served(engine, names=("scripted/model",)) as client:
            for name, size, scheme in (("page-dark", DESK, "dark"), ("page-phone", PHONE, "light")):
                talk = Talk(tab(browser, size, scheme), engine, client.port)
                talk.open()
                thought = "The slope decides. I give the formula, and two numbers."
                say = Say(SOME_OF_EVERYTHING, thought=thought, pause=0.02)
                talk.ask("How steep may a qanat be?", say)
                talk.page.locator(".katex").first.wait_for()
                talk.page.wait_for_timeout(400)
                talk.page.screenshot(path=IMAGES / f"{name}.png")
        browser.close()


def tab(browser: Any, size: dict[str, int], scheme: str) -> Any:
    return browser.new_context(viewport=size, color_scheme=scheme, service_workers="block").new_page()


def converse(page: Any) -> None:
    """A few conversations with the built-in model; the last has a thought and a tool."""
    page.locator("#model", has_text="pocket").wait_for()
    for question in ("Tell me a story.", "What is the capital of Iran?"):
        say(page, question)
        page.keyboard.press("Alt+n")
    say(page, "My name is Ada.")
    say(page, "What is my name?")
    page.keyboard.press("Alt+s")
    page.check("#calculator")
    page.keyboard.press("Escape")
    page.click("#thinking")
    say(page, "What is 345 * 12?")
    page.locator("article.assistant", has_text="4140").wait_for()
    page.locator(".thought summary").last.click()
    page.wait_for_timeout(300)


def look_inside(page: Any) -> None:
    page.set_viewport_size({"width": 1180, "height": 1300})
    page.keyboard.press("Alt+n")
    page.keyboard.press("Alt+s")
    page.uncheck("#calculator")
    page.fill("#set-temperature", "1")
    page.press("#set-temperature", "Tab")
    page.fill("#set-seed", "3")
    page.press("#set-seed", "Tab")
    page.keyboard.press("Escape")
    page.click("#thinking")
    say(page, "Tell me a story.")
    page.keyboard.press("Alt+i")
    page.locator(".piece", has_text="story").click()
    unsure = page.locator(".token[data-sure='1'], .token[data-sure='2'], .token[data-sure='3']").nth(1)
    unsure.click()
    page.locator("#inside").evaluate("element => element.scrollTo(0, 0)")
    page.wait_for_timeout(300)
    page.screenshot(path=IMAGES / "page-inside.png")


def say(page: Any, text: str) -> None:
    before = page.locator("article.assistant .figures").count()
    page.fill("#draft", text)
    page.press("#draft", "Enter")
    page.locator("article.assistant .figures").nth(before).wait_for(state="attached")


if __name__ == "__main__":
    main()
