"""Debian's Chromium for tests of the console, and axe-core; a test without them says what is missing."""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any

import pytest
from gateways import RealGateway

sys.path.append(str(Path(__file__).parents[2] / "scripts"))
from vendor_browser_code import AXE, fetch

from depth import every
from testbed.debian_packages import CannotInstall, install

NAMES = ("chromium", "chromium-browser")
AXE_CACHE = Path(os.environ.get("HEADNODE_AXE", Path.home() / ".cache" / "headnode-axe"))
WIDTHS = (360, 900, 1600)  # pixels: a telephone, a small window, a large one
SCHEMES = ("light", "dark")  # colours


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield a browser of Playwright; skip without one."""
    program = _program()
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        try:
            yield browser
        finally:
            browser.close()


def _program() -> str:
    """Return the program of Chromium; root installs it if need be."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        try:
            install("chromium")
        except CannotInstall as why:
            pytest.skip(f"Chromium is missing: {why}")
    return found or str(shutil.which(NAMES[0]))


def axe_source() -> str:
    """Return the text of axe-core, fetched once from npm; skip without it."""
    path = AXE_CACHE / AXE.directory / "axe.min.js"
    if not path.exists():
        try:
            fetch(AXE, AXE_CACHE)
        except (OSError, CalledProcessError) as error:
            pytest.skip(f"axe-core is missing, and npm does not fetch it: {error}")
    return path.read_text()


@contextmanager
def window(
    browser: Any, gateway: RealGateway, width: int = 1600, tolerated: str = "status of 4", **options: Any
) -> Iterator[Any]:
    """Yield a page of a browser that has logged in; an error in its console fails the test.

    `tolerated`: words of an error that the test provokes.
    """
    context = browser.new_context(viewport={"width": width, "height": 900}, **options)
    page = context.new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda expected: troubles.append(expected.text) if expected.type == "error" else None)
    try:
        page.goto(gateway.control("login")["address"])
        yield page
        assert not [each for each in troubles if tolerated not in each], troubles
    finally:
        context.close()


def troubles_of_pages(
    page: Any, gateway: RealGateway, paths: Iterable[str], width: int
) -> dict[tuple[str, str], list[str]]:
    """Return what axe finds on pages in light or dark colours, which are wider than the window, what of their
    frames is printed, and what moves where motion is unwanted.

    A whole run looks at each page at each of `WIDTHS` in both colours, a quarter of it at one or two of these
    six looks.  A page is loaded once, then changes its colours and medium: to load it takes as long as axe.
    """
    axe, found = axe_source(), {}
    for number, path in enumerate(paths):
        if not (schemes := _schemes_of(number, width)):
            continue
        page.emulate_media(color_scheme=schemes[0])
        page.goto(gateway.address + path)
        page.evaluate(axe)
        for scheme in schemes:
            page.emulate_media(color_scheme=scheme)
            if troubles := _troubles_of_page(page):
                found[path, scheme] = troubles
        if troubles := _troubles_in_print(page):
            found[path, "print"] = troubles
    return found


def _schemes_of(number: int, width: int) -> list[str]:
    """Return the colours in which a page is looked at in a window of this width."""
    looks = [*product(WIDTHS, SCHEMES)]
    first = number * len(looks)
    return [scheme for at, (wide, scheme) in enumerate(looks, first) if wide == width and at % every() == 0]


def _troubles_in_print(page: Any) -> list[str]:
    """Return which parts of the frame are printed, whether the content is not, and what moves."""
    page.emulate_media(media="print", reduced_motion="reduce")
    troubles = [
        f"{part} is printed" for part in ("header.top", "nav.side") if page.locator(part).is_visible()
    ]
    if not page.locator("#content").is_visible():
        troubles.append("the content is not printed")
    moving = page.evaluate(
        "(() => { const one = document.createElement('p'); one.className = 'changed';"
        " document.body.append(one); const found = getComputedStyle(one).animationName;"
        " one.remove(); return found })()"
    )
    page.emulate_media(media="screen", reduced_motion="no-preference")
    return troubles if moving == "none" else [*troubles, f"{moving} moves"]


def _troubles_of_page(page: Any) -> list[str]:
    broken: list[str] = page.evaluate(
        "() => axe.run({ resultTypes: ['violations'] }).then(found => found.violations.map(one =>"
        " one.id + ': ' + one.nodes.slice(0, 3).map(node => node.html).join(' | ')))"
    )
    wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return [*broken, f"{wider} pixels too wide"] if broken or wider > 0 else []


def tab_to(page: Any, name: str, most: int = 120) -> None:
    """Press the tabulator until the element of a name has the focus."""
    for _ in range(most):
        page.keyboard.press("Tab")
        found = page.locator("html").evaluate(  # unlike that of a page, it gives up after 30 seconds
            "() => { const at = document.activeElement, own = at.labels && at.labels[0], said ="
            " at.getAttribute('aria-label') || (own && own.textContent) || at.textContent;"
            " return (said || '').trim() }"
        )
        if found == name:
            return
    raise AssertionError(f"no element {name!r} is reached by the keyboard")
