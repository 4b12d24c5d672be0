#!/usr/bin/env python3
"""Records the first minute with mapper as an animated SVG.

    docs/pictures/first_minute.py FOLDER docs/book/src/run/first-minute.svg

FOLDER has the programs of mapper (target/release). They run in a terminal of tmux that is looked at several times a
second. Needs tmux and gcc; starts a daemon of its own and stops it at the end.
"""

import html
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
COLUMNS, LINES = 92, 25
FRAME_S = 0.12
KEY_S = 0.035
#: Pauses are cut to this, as asciinema does.
PAUSE_S = 2.0
#: The last picture stays for so long.
REST_S = 4.0
CELL, LINE, MARGIN, SIZE = 8.0, 18, 14, 13.3

#: What is typed, and for how long its effect is watched.
SCENE = [
    ("mapper run -- ./md --steps 500000 > md.txt &", 1.5),
    ("", 1.0),
    ("mapper run -- ./cg --steps 2000 > cg.txt &", 12.0),
    ("mapper status", 4.5),
    ("mapper top", 6.0),
    ("q", 1.0),
    ("mapper explain cg", 5.0),
]

COLOURS = ["#3b4048", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#dcdfe4"]
BRIGHT = ["#6f7680", "#ff8f98", "#b5e08f", "#ffd890", "#82c4ff", "#e29af5", "#78d6e0", "#ffffff"]
GROUND, INK = "#1b1f24", "#dcdfe4"


class Terminal:
    def __init__(self, folder: Path, programs: Path) -> None:
        self._socket = str(folder / "tmux")
        env = {
            "PATH": f"{programs}:/usr/bin:/bin",
            "HOME": str(folder),
            "XDG_RUNTIME_DIR": str(folder),
            "LANG": "C.UTF-8",
            "PS1": "$ ",
            "HISTFILE": "/dev/null",
        }
        shell = ["env", "-i", "TERM=screen-256color", *(f"{k}={v}" for k, v in env.items())]
        size = ["-x", str(COLUMNS), "-y", str(LINES)]
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, *shell, "bash", "--norc", "--noprofile")
        self._tmux("set", "-g", "status", "off")

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-S", self._socket, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    def enter(self) -> None:
        self._tmux("send-keys", "Enter")

    def interrupt(self) -> None:
        self._tmux("send-keys", "C-c")

    def lines(self) -> list[str]:
        lines, open_style = [], ""
        for line in self._tmux("capture-pane", "-e", "-p").split("\n")[:LINES]:
            lines.append(open_style + line)
            # A style may continue in the next line.
            for code in re.findall(r"\x1b\[[0-9;]*m", line):
                open_style = code if re.match(r"\x1b\[0?[;m]", code) else open_style + code
        return lines

    def end(self) -> None:
        self._tmux("kill-server")


class Recording:
    """For each line of the terminal what it showed from when on."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self.shown: list[list[tuple[float, str]]] = [[] for _ in range(LINES)]
        self._typed: set[float] = set()

    def look(self, terminal: Terminal, typing: bool = False) -> None:
        now = time.monotonic() - self._begun
        if typing:
            self._typed.add(now)
        for shown, text in zip(self.shown, terminal.lines()):
            if not shown or shown[-1][1] != text:
                shown.append((now, text))

    def watch(self, terminal: Terminal, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.look(terminal)
            time.sleep(FRAME_S)

    def without_pauses(self) -> float:
        """Cuts pauses; how long the rest takes."""
        changes = sorted({at for shown in self.shown for at, _ in shown})
        cut, before, moved = 0.0, changes[0], {}
        for at in changes:
            longest = 2 * KEY_S if at in self._typed else PAUSE_S
            cut += max(at - before - longest, 0)
            moved[at], before = at - cut, at
        self.shown = [[(moved[at], text) for at, text in shown] for shown in self.shown]
        return moved[before] + REST_S


def record(folder: Path, programs: Path) -> Recording:
    for name in ("md", "cg"):
        source = CHECKOUT / f"benches/workloads/{name}.c"
        subprocess.run(["gcc", "-O2", "-fopenmp", str(source), "-o", str(folder / name), "-lm"], check=True)
    terminal = Terminal(folder, programs)
    try:
        return play(terminal, folder)
    finally:
        terminal.interrupt()
        terminal.type("kill $(jobs -p); mapper stop")
        terminal.enter()
        time.sleep(2)
        terminal.end()


def play(terminal: Terminal, folder: Path) -> Recording:
    terminal.type(f"cd {folder}; clear")
    terminal.enter()
    time.sleep(1)
    recording = Recording()
    for text, seconds in SCENE:
        for key in text:
            terminal.type(key)
            time.sleep(KEY_S)
            recording.look(terminal, typing=True)
        if text != "q":
            terminal.enter()
        recording.watch(terminal, seconds)
    return recording


def style(codes: list[int], now: dict[str, str]) -> dict[str, str]:
    """The style after a sequence of SGR codes."""
    while codes:
        code = codes.pop(0)
        if code == 0:
            now = {}
        elif code == 1:
            now = {**now, "font-weight": "bold"}
        elif code == 2:
            now = {**now, "opacity": ".65"}
        elif code == 7:
            now = {**now, "fill": now.get("ground", GROUND), "ground": now.get("fill", INK)}
        elif 30 <= code <= 37 or 90 <= code <= 97:
            now = {**now, "fill": (COLOURS if code < 40 else BRIGHT)[code % 10]}
        elif 40 <= code <= 47 or 100 <= code <= 107:
            now = {**now, "ground": (COLOURS if code < 50 else BRIGHT)[code % 10]}
        elif code in (38, 48) and codes[:1] == [5]:
            number = codes[1]
            del codes[:2]
            if number < 16:
                now = {**now, "fill" if code == 38 else "ground": (COLOURS + BRIGHT)[number]}
        elif code in (39, 49):
            now = {name: value for name, value in now.items() if name != ("fill" if code == 39 else "ground")}
    return now


def drawn(text: str, y: float) -> str:
    """A line of the terminal as SVG."""
    parts, column, now = [], 0, {}
    for piece in re.split(r"(\x1b\[[0-9;]*m)", text):
        if piece.startswith("\x1b"):
            now = style([int(code or 0) for code in piece[2:-1].split(";")], now)
            continue
        # Charsets and other sequences that tmux may add.
        piece = re.sub(r"\x1b.|[\x0e\x0f]", "", piece)
        x, width = MARGIN + column * CELL, len(piece) * CELL
        column += len(piece)
        if "ground" in now and piece:
            parts.append(f'<rect x="{x:g}" y="{y - 13:g}" width="{width:g}" height="{LINE}" fill="{now["ground"]}"/>')
        if piece.strip():
            more = "".join(f' {name}="{value}"' for name, value in now.items() if name != "ground")
            # Renderers take several spaces for one.
            shown = html.escape(piece).replace(" ", "\u00a0")
            parts.append(f'<text x="{x:g}" y="{y:g}" textLength="{width:g}"{more}>{shown}</text>')
    return "".join(parts)


def svg(recording: Recording) -> str:
    length = recording.without_pauses()
    width, height = COLUMNS * CELL + 2 * MARGIN, LINES * LINE + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" fill="{INK}" font-size="{SIZE}" '
        'font-family="ui-monospace, Menlo, Consolas, \'DejaVu Sans Mono\', monospace">',
        "<title>The first minute with mapper, without its pauses</title>",
        f'<rect width="100%" height="100%" rx="8" fill="{GROUND}">'
        f'<animate id="loop" attributeName="x" values="0;0" dur="{length:.2f}s" begin="0s;loop.end"/></rect>',
    ]
    for place, shown in enumerate(recording.shown):
        y = MARGIN + place * LINE + 13
        for (begin, text), (end, _) in zip(shown, [*shown[1:], (length, "")]):
            line = drawn(text, y)
            if not line:
                continue
            if end == length:
                # The last picture is what is seen where nothing moves.
                change = f'<set attributeName="visibility" to="hidden" begin="loop.begin" dur="{begin:.2f}s"/>'
                parts.append(f"<g>{line}{change if begin > 0.01 else ''}</g>")
            else:
                change = (
                    f'<set attributeName="visibility" to="visible" begin="loop.begin+{begin:.2f}s" '
                    f'dur="{end - begin:.2f}s"/>'
                )
                parts.append(f'<g visibility="hidden">{line}{change}</g>')
    return "\n".join([*parts, "</svg>\n"])


def main() -> None:
    programs, out = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    # Its daemon may still be stopping.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o700)
        out.write_text(svg(record(Path(folder), programs)))
    print(f"{out}: {out.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
