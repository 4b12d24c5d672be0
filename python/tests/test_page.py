"""The pages of ``mapper page`` and ``mapper compare``, as Chromium shows them."""

import subprocess
import sys
import unittest

from browser import Browser
from home import CHECKOUT, Home

RECORDING = CHECKOUT / "crates/pipeline/tests/data/version_1.jsonl"

PHONE = 390

#: The text of a part of the page.
HEAD = "document.querySelector('h1').textContent"


class Pages(unittest.TestCase):
    browser: Browser

    @classmethod
    def setUpClass(cls) -> None:
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.__exit__)

    def setUp(self) -> None:
        # The page of another test misses its server.
        self.browser.open("about:blank")
        self.browser.complaints.clear()
        self.browser.screen(1200)
        self.home = Home()
        self.addCleanup(self.home.__exit__)

    def serve(self, *options: str) -> str:
        """Serves a page until the end of the test; its address."""
        command = [str(self.home.bin / "mapper"), "page", *options]
        page = subprocess.Popen(
            command, env=self.home.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.addCleanup(page.wait)
        self.addCleanup(page.kill)
        assert page.stdout
        self.addCleanup(page.stdout.close)
        return page.stdout.readline().strip()

    def assert_readable(self) -> None:
        """It fits a phone, has other colours in the dark, and loads and executes nothing that it may not."""
        ground = "getComputedStyle(document.body).backgroundColor"
        light = self.browser.value(ground)
        self.browser.screen(PHONE, scheme="dark")
        self.assertEqual(self.browser.value("document.documentElement.scrollWidth"), PHONE)
        self.assertNotEqual(self.browser.value(ground), light)
        self.assertEqual(self.browser.complaints, [])

    def test_a_live_page_follows_what_runs(self) -> None:
        self.browser.open(self.serve())
        self.browser.until(f"{HEAD} === 'No daemon answers'")
        self.assertIn("mapper run -- ./program", self.browser.value("document.body.textContent"))
        busy = ["--", sys.executable, "-c", "while True: pass"]
        self.home.launch("--name", "first", *busy)
        self.browser.until("document.querySelector('article.program h3')?.textContent.includes('first')")
        self.assertTrue(self.browser.value(HEAD).startswith("1 program on "))
        self.browser.until("document.querySelectorAll('.cpu.c0').length > 0")
        self.browser.value("document.querySelector('summary').click()")
        self.browser.value("document.querySelector('article.program').focus()")
        self.home.launch("--name", "second", *busy)
        self.browser.until("document.querySelectorAll('article.program').length === 2")
        self.assertTrue(self.browser.value("document.querySelector('details').open"), "it stays open")
        focused = "document.activeElement.textContent.includes('%s')"
        self.assertTrue(self.browser.value(focused % "first"), "it keeps the focus")
        self.browser.press("ArrowRight")
        self.assertTrue(self.browser.value(focused % "second"))
        self.browser.press("Home")
        self.assertTrue(self.browser.value(focused % "first"))
        self.assert_readable()

    def test_the_page_of_a_recording_needs_nothing_else(self) -> None:
        out = self.home.folder / "page.html"
        command = [str(self.home.bin / "mapper"), "page", "--from", str(RECORDING), "--out", str(out)]
        subprocess.run(command, env=self.home.env, check=True)
        self.browser.open(out.as_uri())
        self.assertIn("2 programs on", self.browser.value(HEAD))
        self.assertGreater(self.browser.value("document.querySelectorAll('.holders rect').length"), 2)
        self.browser.press("Tab")
        self.assertTrue(self.browser.value("document.activeElement.matches('article.program')"))
        self.assert_readable()

    def test_the_page_of_a_comparison_has_every_run(self) -> None:
        out = self.home.folder / "page.html"
        command = [str(self.home.bin / "mapper"), "compare", "--page", str(out), "--", "true", "::", "sleep", "0.1"]
        done = subprocess.run(command, env=self.home.env, check=True, capture_output=True, text=True)
        self.assertIn(f"The page is {out}.", done.stdout)
        self.browser.open(out.as_uri())
        self.assertEqual(self.browser.value("document.querySelectorAll('circle').length"), 2 * 3 * 3)
        self.assert_readable()
