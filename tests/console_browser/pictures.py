"""Screens of `popmq demo` as pictures: `python -m console_browser.pictures FOLDER [SECONDS]`."""

import asyncio
import json
import subprocess
import sys
import urllib.parse
from pathlib import Path

from console_browser.conftest import CHROMIUM
from harness.processes import POPMQ
from playwright.async_api import Page, ViewportSize, async_playwright

SIZE: ViewportSize = {"width": 1_120, "height": 760}
PICTURES = {
    "overview": "/",
    "topic": "/topics/orders",
    "group-dark": "/groups/billing",
    "dead-letters": "/dead-letters/billing",
    "cluster": "/cluster",
}


async def take(url: str, folder: Path, seconds: float) -> None:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        looking = await (await browser.new_context(viewport=SIZE)).new_page()
        await looking.goto(url)  # the chart shows what came while somebody looked
        await asyncio.sleep(seconds)
        for name, path in PICTURES.items():
            context = await browser.new_context(
                viewport=SIZE, color_scheme="dark" if name.endswith("dark") else "light"
            )
            page = looking if path == "/" else await context.new_page()
            await page.goto(url + path)
            await shoot(page, folder / f"{name}.png")
            if name == "dead-letters":
                await page.locator("a.id").first.click()
                await page.wait_for_load_state("load")
                await shoot(page, folder / "message.png")
        await browser.close()


async def shoot(page: Page, file: Path) -> None:
    await page.wait_for_timeout(1_000)
    await page.screenshot(path=file)
    print(f"{file}: {urllib.parse.urlparse(page.url).path}")


def main(folder: str, seconds: str = "90") -> None:
    words = [POPMQ, "demo", "--console-port", "0", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as demo:
        try:
            assert demo.stdout is not None
            url = json.loads(demo.stdout.readline())["console"].rstrip("/")
            asyncio.run(take(url, Path(folder), float(seconds)))
        finally:
            demo.terminate()


if __name__ == "__main__":
    main(*sys.argv[1:])
