#!/usr/bin/env python3
"""Makes the pictures of pages in the book.

    docs/pictures/pages.py FOLDER docs/book/src/run

FOLDER has the programs of mapper (target/release). Two programs run under a daemon of their own while its page is
looked at; then both are compared. Needs Chromium and gcc.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT / "python/tests"))

from browser import Browser  # noqa: E402

#: Pages of their own settle within a second.
SETTLED_S = 2.0


def keep(picture: bytes, file: Path) -> None:
    file.write_bytes(picture)
    print(f"{file}: {len(picture) / 1000:.0f} kB")


def main() -> None:
    programs, out = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as name, Browser() as browser:
        folder = Path(name)
        os.chmod(folder, 0o700)
        for program in ("md", "cg"):
            source = CHECKOUT / f"benches/workloads/{program}.c"
            subprocess.run(["gcc", "-O2", "-fopenmp", str(source), "-o", str(folder / program), "-lm"], check=True)
        env = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": name, "XDG_RUNTIME_DIR": name, "LANG": "C.UTF-8"}

        def start(*words: str) -> subprocess.Popen[str]:
            return subprocess.Popen(words, env=env, cwd=folder, stdout=subprocess.PIPE, text=True)

        brief = start("mapper", "run", "--quiet", "--name", "warm-up", "--", "./md", "--steps", "2000")
        page = start("mapper", "page")
        assert page.stdout
        browser.screen(1200)
        browser.open(page.stdout.readline().strip())
        brief.wait()
        running = [start("mapper", "run", "--quiet", "--", "./md", "--steps", "1000000")]
        time.sleep(8)
        running.append(start("mapper", "run", "--quiet", "--", "./cg", "--steps", "100000"))
        time.sleep(40)
        for shot, width, scheme in (("light", 1200, "light"), ("dark", 1200, "dark"), ("phone", 390, "light")):
            browser.screen(width, scheme=scheme)
            browser.value("document.querySelector('details').open = true")
            time.sleep(SETTLED_S)
            keep(browser.picture(), out / f"page-{shot}.webp")
        for process in (*running, page):
            process.terminate()
            process.wait()
        compared = start(
            *"mapper compare --page compare.html -- ./md --steps 3000 :: ./cg --steps 12".split(),
        )
        print(compared.communicate()[0])
        browser.screen(1200)
        browser.open((folder / "compare.html").as_uri())
        time.sleep(SETTLED_S)
        keep(browser.picture(), out / "compare-page.webp")
        subprocess.run(["mapper", "stop"], env=env, check=True)


if __name__ == "__main__":
    main()
