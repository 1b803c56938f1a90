"""Does each screen fit, in each width, dark and light, without anything that a browser reports?"""

import pytest
from axe_playwright_python.async_playwright import Axe
from console_browser.conftest import SCHEMES, WIDTHS, opened
from playwright.async_api import Browser

from popmq import Client

LONG = "a-topic-with-a-rather-long-name-as-teams-like-them_with_more_parts-production-eu-central-1"
SCREENS = [
    "/",
    "/topics",
    f"/topics/{LONG}",
    "/groups",
    f"/groups/{LONG}",
    f"/groups/{LONG}/reset?topic={LONG}&to=earliest",
    f"/groups/{LONG}/delete",
    "/dead-letters",
    f"/dead-letters/{LONG}",
    "/later",
    "/cluster",
    "/audit",
    "/access",
    "/search?q=a-topic",
    "/login",
]
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
UNREADABLE = """
() => {
  const parse = (c) => (c.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => {
    const f = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
    return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b);
  };
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const e of document.querySelectorAll("a, td, th, p, span, strong, button, h1, h2, label")) {
    const text = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!text || !e.getClientRects().length) continue;
    const [a, b] = [light(parse(getComputedStyle(e).color)), light(ground(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const what = `${e.tagName} ${e.className} ${e.textContent.trim().slice(0, 30)}`;
    if (ratio < 4.5) found.push(`${what} ${ratio.toFixed(2)}`);
  }
  return [...new Set(found)];
}
"""
UNLABELLED = """
() => [...document.querySelectorAll("input:not([type=hidden]), select, textarea")]
  .filter((e) => !e.labels.length && !e.getAttribute("aria-label"))
  .map((e) => e.outerHTML.slice(0, 80))
"""


@pytest.fixture
async def filled(client: Client) -> None:
    await client.admin.create_topic(LONG, queues=4)
    await client.admin.create_group(LONG, start="first", max_attempts=1)
    for number in range(30):
        await client.send(LONG, b'{"order": %d, "text": "%s"}' % (number, b"x" * 300), keys=["k"])
    for number, message in enumerate(await client.receive(LONG, LONG, wait_s=2)):
        if number % 2:
            await client.nack(message, reason="why " * 40)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
async def test_screens_fit_and_can_be_read(
    chromium: Browser, url: str, filled: None, width: int, scheme: str
) -> None:
    async with opened(chromium, width=width, scheme=scheme) as page:
        for screen in SCREENS:
            response = await page.goto(f"{url}{screen}")
            assert response is not None
            assert response.status == 200, screen
            assert await page.evaluate(OVERFLOW) <= 0, screen
            assert await page.evaluate(UNREADABLE) == [], screen
            assert await page.evaluate(UNLABELLED) == [], screen


SERIOUS = ("serious", "critical")


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_axe_finds_no_serious_fault(
    chromium: Browser, url: str, filled: None, scheme: str
) -> None:
    """https://github.com/dequelabs/axe-core, all of its rules."""
    async with opened(chromium, width=1_440, scheme=scheme) as page:
        for screen in SCREENS:
            await page.goto(f"{url}{screen}")
            found = await Axe().run(page)
            told = [
                (one["id"], node["html"][:200])
                for one in found.response["violations"]
                if one["impact"] in SERIOUS
                for node in one["nodes"]
            ]
            assert told == [], screen


async def test_without_its_script_a_page_still_tells(
    chromium: Browser, url: str, filled: None
) -> None:
    context = await chromium.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(f"{url}/topics")
    await page.get_by_role("link", name=LONG).click()
    assert await page.locator("tbody tr").count() > 5
    assert "20" in await page.locator("time").first.inner_text()
    await context.close()
