# SPDX-License-Identifier: BSD-3-Clause
"""The one style of all pictures: colours for light and dark, type, scales, and the elements of SVG."""
import math
from xml.sax.saxutils import escape

FONT = "Helvetica, Arial, 'DejaVu Sans', sans-serif"
TITLE, NOTE, HEAD, TEXT, SMALL = 18, 13, 13, 12, 11  # sizes of type in pixels

# Each colour of a light page is the name of its pair: what it is on a dark page.
INK, GREY, PALE, GRID, BAND, PAPER = "#1f2933", "#52606d", "#6b7785", "#dde3e9", "#edf2f7", "#ffffff"
BLUE, ORANGE, GREEN, PURPLE = "#0b5fa5", "#c44a12", "#0f7b62", "#97378f"
GOLD, CYAN, RED, SLATE, SUN = "#8a6d00", "#2183ae", "#b3243b", "#4a5763", "#ffd766"
DARK = {INK: "#e6edf3", GREY: "#a9b5c1", PALE: "#8d99a6", GRID: "#2c343e", BAND: "#1a212b", PAPER: "#0d1117",
        BLUE: "#6cb2f5", ORANGE: "#ff9b63", GREEN: "#4fd0ae", PURPLE: "#e29adf", GOLD: "#e5c04b", CYAN: "#7fd8f7",
        RED: "#ff8090", SLATE: "#b4c0cc", SUN: "#a87a10"}
SERIES = [BLUE, ORANGE, GREEN, PURPLE, GOLD, CYAN, RED, SLATE]
ON_SCALE = "#15202b"  # type on the colours of a scale, which are the same on both pages


def circle_colour(at):
    """Of a place from 0 to 1 on the circle of colours."""
    return "#" + "".join(f"{int(125 + 88 * math.cos(2 * math.pi * (at - k / 3)) - (22 if k == 1 else 0)):02x}"
                         for k in range(3))


def ramp_colour(part):
    """From blue (0) to orange (1)."""
    return f"#{int(96 + part * 138):02x}{int(158 + part * 10):02x}{int(214 - part * 126):02x}"


def width_of(words, size=TEXT):
    """In pixels, at most, of type whose font is not known here."""
    return 0.6 * size * len(words)


class Nothing(Exception):
    """There is nothing to draw."""


# ---- scales ----

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size_text(size):
    unit = max((u for u in UNITS if size >= UNITS[u]), key=UNITS.get, default="")
    return f"{size / UNITS.get(unit, 1):g} {unit and unit + 'i'}B"


def time_text(us):
    for unit, name in (1e6, "s"), (1e3, "ms"):
        if us >= unit:
            return f"{us / unit:g} {name}"
    return f"{us:g} \u00b5s"


def plain_text(number):
    return f"{number:g}"


class Scale:
    """Of numbers to pixels, linear or logarithmic, with its ticks."""

    def __init__(self, low, high, begin, end, is_log):
        if high <= low:
            low, high = (low / 1.5, low * 1.5) if is_log and low > 0 else (low, low + 1)
        self.low, self.high, self.begin, self.end, self.is_log = low, high, begin, end, is_log

    def at(self, number):
        part = math.log(number / self.low) / math.log(self.high / self.low) if self.is_log else \
            (number - self.low) / (self.high - self.low)
        return self.begin + part * (self.end - self.begin)

    def holds(self, number):
        return self.low * (1 - 1e-9) <= number <= self.high * (1 + 1e-9)

    def thinned(self, ticks, apart):
        """Every so many-th, at least `apart` pixels from the next."""
        for every in range(1, len(ticks) + 1):
            some = ticks[::every]
            if all(abs(self.at(b) - self.at(a)) >= apart for a, b in zip(some, some[1:])):
                return some
        return ticks[:1]

    def powers_of_two(self, apart):
        first, last = math.ceil(math.log2(self.low) - 1e-9), math.floor(math.log2(self.high) + 1e-9)
        return self.thinned([2.0 ** k for k in range(first, last + 1)], apart)

    def ticks(self, apart):
        if not self.is_log:
            step = 10 ** math.floor(math.log10(self.high - self.low))
            steps = [step * k for k in (0.1, 0.2, 0.5, 1, 2, 5)]
            step = next((s for s in steps if abs(self.at(s) - self.at(0)) >= apart), steps[-1])
            return [k * step for k in range(math.ceil(self.low / step - 1e-9), int(self.high / step + 1e-9) + 1)]
        for digits in ((1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.75, 2, 2.5, 3, 4, 5, 6, 8), (1, 1.25, 1.5, 2, 3, 4, 6, 8),
                       (1, 1.5, 2, 3, 5), (1, 2, 5), (1,)):
            tens = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            ticks = [d * 10.0 ** k for k in tens for d in digits if self.holds(d * 10.0 ** k)]
            if all(abs(self.at(b) - self.at(a)) >= apart for a, b in zip(ticks, ticks[1:])):
                return ticks
        return self.thinned(ticks, apart)


def spread(places, gap, low, high):
    """Places as near to the given ones as may be, at least `gap` apart in the same order, from low to high."""
    order = sorted(range(len(places)), key=lambda k: places[k])
    spread_ = [0.0] * len(places)
    last = low - gap
    for k in order:
        last = spread_[k] = max(places[k], last + gap)
    last = high + gap
    for k in reversed(order):
        last = spread_[k] = min(spread_[k], last - gap)
    return spread_


# ---- elements ----

def safe(words):
    """As the text of an element: without characters that XML has not."""
    return escape("".join(c if " " <= c < "\ud800" or "\ue000" <= c < "\ufffe" or c > "\uffff" else " " for c in words))


class Svg:
    """Elements, one a line; lengths are in pixels. `top` is where the drawing begins, below title and note."""

    def __init__(self, width, title, note):
        self.width, self.height, self.lines = width, 0, []
        self.title, self.note = title, note
        self.text(12, 28, title, size=TITLE, weight="bold")
        self.top = 50
        for part in note.split("\n") if note else []:
            for line in self.wrapped(part):
                self.text(12, self.top, line, size=NOTE, fill=GREY)
                self.top += 18
        self.top += 8

    def wrapped(self, words):
        line = ""
        for word in words.split():
            if line and width_of(f"{line} {word}", NOTE) > self.width - 24:
                yield line
                line = ""
            line = f"{line} {word}" if line else word
        if line:
            yield line

    def add(self, line):
        self.lines.append(line)

    def text(self, x, y, words, size=TEXT, anchor="start", fill=INK, weight="normal", more=""):
        self.add(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{fill}" '
                 f'font-weight="{weight}"{more}>{safe(words)}</text>')

    def line(self, path, stroke=GRID, more=""):
        self.add(f'<path d="{path}" stroke="{stroke}" fill="none"{more}/>')

    def box(self, x, y, width, height, fill, more="", tip=""):
        end = f"><title>{safe(tip)}</title></rect>" if tip else "/>"
        self.add(f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" fill="{fill}"{more}{end}')

    def whole(self):
        paper = f'<rect width="100%" height="100%" fill="{PAPER}"/>'
        body = "\n".join([paper, *self.lines])
        dark = "".join(f'[fill="{light}"]{{fill:{dark}}}[stroke="{light}"]{{stroke:{dark}}}'
                       for light, dark in DARK.items() if f'"{light}"' in body)
        return "\n".join([
            '<?xml version="1.0" encoding="UTF-8"?>',
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width:.0f}" height="{self.height:.0f}" '
            f'viewBox="0 0 {self.width:.0f} {self.height:.0f}" font-family="{FONT}" role="img">',
            f"<title>{safe(self.title)}</title>", f"<desc>{safe(self.note or self.title)}</desc>",
            f"<style>@media (prefers-color-scheme: dark){{{dark}}}</style>", body, "</svg>", ""])
