# SPDX-License-Identifier: BSD-3-Clause
"""Measurements: lines over sizes or ranks, and tables of cells whose shade is their number. What is drawn is data:

{"picture": "lines", "title": ..., "note": lines of text: machine, date, command,
 "x": {"name": ..., "kind": "bytes" or "number"},
 "y": {"name": ..., "kind": "us" or "number", "log": true or false, "low" and "high": least bounds, or none},
 "columns": panels beside each other,
 "panels": [{"title": ..., "y": another than above, or none, "marks": [[y, text], ...],
   "series": [{"name": ..., "points": [[x, y] or [x, y, low, high], ...], "look": "strong", "dashed" or none,
               "curves": [[[x, y], ...], ...] instead of lines from point to point, or none}]}]}

{"picture": "table", "title": ..., "note": ..., "good": the number that is not shaded, "bad": the one that is most,
 "legend": what the number is, "panels": [{"title": ..., "columns": [...], "rows": [...],
   "cells": [[[number, text below it or none], or null], ...]}]}"""
from pictures.style import (GREY, HEAD, INK, ORANGE, SERIES, SMALL, TEXT, Scale, Svg, plain_text, safe, size_text,
                            spread, time_text, width_of)

MARKS = ["-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0", "-3 -3h6v6h-6", "-3.5 2.5h7l-3.5 -6",  # circle, square, triangle,
         "-3.5 0l3.5 -3.5 3.5 3.5 -3.5 3.5", "-3.5 -2.5h7l-3.5 6"]                    # diamond, triangle
TEXTS = {"bytes": size_text, "us": time_text, "number": plain_text}
TO_LABEL = 26  # pixels from the end of a plot to the names of its lines


class Panel:
    """One plot with the names of its lines at their ends."""

    def __init__(self, svg, data, panel, place):
        self.svg, self.panel, self.x_data, self.y_data = svg, panel, data["x"], panel.get("y", data["y"])
        self.left, self.top, self.width, self.height = place
        self.series = [series for series in panel["series"] if series["points"]]
        points = [point for series in self.series for point in series["points"]]
        values = [value for point in points for value in point[1:]]
        values += [y for series in self.series for curve in series.get("curves", []) for _, y in curve]
        values += [y for y, _ in panel.get("marks", [])]
        values += [self.y_data[key] for key in ("low", "high") if key in self.y_data]
        low, high, is_log = min(values), max(values), self.y_data["log"]
        room = (high / low) ** 0.04 if is_log else (high - low) * 0.05
        low, high = (low / room, high * room) if is_log else (min(low, 0) if low >= 0 else low - room, high + room)
        self.right, self.below = self.left + self.width, self.top + self.height
        self.x = Scale(min(point[0] for point in points), max(point[0] for point in points), self.left + 8,
                       self.right - 8, True)
        self.y = Scale(low, high, self.below, self.top, is_log)

    def axes(self, has_x_name):
        svg, below = self.svg, self.below
        if "title" in self.panel:
            svg.text(self.left, self.top - 26, self.panel["title"], HEAD, weight="bold")
        svg.text(self.left, self.top - 9, self.y_data["name"], TEXT, fill=GREY)
        for x in self.x.powers_of_two(58 if self.x_data["kind"] == "bytes" else 38):
            svg.line(f"M{self.x.at(x):.1f} {self.top}V{below}")
            svg.text(self.x.at(x), below + 16, TEXTS[self.x_data["kind"]](x), SMALL, "middle", GREY)
        for y in self.y.ticks(26):
            svg.line(f"M{self.left} {self.y.at(y):.1f}H{self.right}")
            svg.text(self.left - 8, self.y.at(y) + 4, TEXTS[self.y_data["kind"]](y), SMALL, "end", GREY)
        if has_x_name:
            svg.text(self.left + self.width / 2, below + 36, self.x_data["name"], TEXT, "middle", GREY)
        for y, _ in self.panel.get("marks", []):
            svg.line(f"M{self.left} {self.y.at(y):.1f}H{self.right}", INK, ' stroke-width="1.6"')

    def path(self, points):
        return "M" + "L".join(f"{self.x.at(point[0]):.1f} {self.y.at(point[1]):.1f}" for point in points)

    def line(self, series, colour, mark):
        look = series.get("look")
        more = f' stroke-width="{4 if look == "strong" else 1.5}" stroke-linejoin="round"'
        more += ' stroke-dasharray="5 4"' if look == "dashed" else ""
        for curve in series.get("curves", [series["points"]]):
            self.svg.line(self.path(curve), colour, more)
        for x, y, *range_ in series["points"]:
            if range_ and range_[0] < range_[1]:
                self.svg.line(f"M{self.x.at(x):.1f} {self.y.at(range_[0]):.1f}V{self.y.at(range_[1]):.1f}", colour)
            self.svg.add(f'<path d="M{self.x.at(x):.1f} {self.y.at(y):.1f}m{mark}z" fill="{colour}"><title>'
                         f'{safe(series["name"])}, {TEXTS[self.x_data["kind"]](x)}: {y:.4g}</title></path>')

    def names(self, colours):
        """At the end of each line, moved apart, and tied to it; marks have theirs too."""
        ends = [(series["name"], colour, self.x.at(series["points"][-1][0]), self.y.at(series["points"][-1][1]))
                for series, colour in zip(self.series, colours)]
        ends += [(text, INK, self.right, self.y.at(y)) for y, text in self.panel.get("marks", [])]
        places = spread([y for _, _, _, y in ends], 15, self.top + 4, self.below)
        x = self.right + TO_LABEL
        for (name, colour, end, y), place in zip(ends, places):
            self.svg.line(f"M{end + 4:.1f} {y:.1f}L{x - 4:.1f} {place:.1f}", colour, ' stroke-width="0.7"')
            self.svg.text(x, place + 4, name, SMALL, "start", colour)

    def drawn(self, colours, has_x_name):
        self.axes(has_x_name)
        for series, colour in sorted(zip(self.series, colours), key=lambda of: of[0].get("look") != "strong"):
            self.line(series, colour, MARKS[SERIES.index(colour) % len(MARKS)] if colour in SERIES else MARKS[0])
        self.names(colours)


def lines(data):
    """A name has the same colour in all panels."""
    columns, panels = data.get("columns", 1), data["panels"]
    names = list(dict.fromkeys(series["name"] for panel in panels for series in panel["series"]))
    marks = [text for panel in panels for _, text in panel.get("marks", [])]
    names_width = TO_LABEL + max(width_of(name, SMALL) for name in names + marks) + 16
    # Panels beside each other may have names that the others lack: then a colour is one of its panel.
    has_few = len(names) <= len(SERIES)
    width, height, left = {1: (640, 320), 2: (430, 300), 3: (270, 250)}[columns] + (76,)
    svg = Svg(columns * (left + width + names_width), data["title"], data["note"])
    top, rows = svg.top + (40 if any("title" in panel for panel in panels) else 24), -(-len(panels) // columns)
    for at, panel in enumerate(panels):
        row, column = divmod(at, columns)
        place = (left + column * (left + width + names_width), top + row * (height + 96), width, height)
        drawn = [series["name"] for series in panel["series"] if series["points"]]
        colours = [INK if series.get("look") == "strong" else SERIES[(names if has_few else drawn).index(series["name"])
                                                                     % len(SERIES)]
                   for series in panel["series"] if series["points"]]
        Panel(svg, data, panel, place).drawn(colours, at + columns >= len(panels))
    svg.height = top + rows * (height + 96) - 44
    return svg


def table(data):
    """Each number is in its cell: there is nothing to look up."""
    good, bad, panels = data["good"], data["bad"], data["panels"]
    left = 24 + max(width_of(row) for panel in panels for row in panel["rows"])
    columns = [column for panel in panels for column in panel["columns"]]
    width = max(62, 8 + max(width_of(column, SMALL) for column in columns))
    has_two = any(cell and cell[1] for panel in panels for row in panel["cells"] for cell in row)
    height = 36 if has_two else 24
    whole = left + width * max(len(panel["columns"]) for panel in panels) + 12
    beside = max(min(int(1120 // whole), len(panels)), 1)
    svg = Svg(max(beside * whole + 12, 640), data["title"], data["note"])
    below = y = svg.top
    for at, panel in enumerate(panels):
        if at % beside == 0:
            y = below
        x0, bottom = at % beside * whole, y + 40
        svg.text(x0 + 12, y + 14, panel["title"], HEAD, weight="bold")
        for c, column in enumerate(panel["columns"]):
            svg.text(x0 + left + (c + 0.5) * width, y + 32, column, SMALL, "middle", GREY)
        for row, cells in zip(panel["rows"], panel["cells"]):
            svg.text(x0 + left - 10, bottom + height / 2 + 4, row, TEXT, "end")
            for c, cell in enumerate(cells):
                x = x0 + left + c * width
                shade = min(max((cell[0] - good) / (bad - good), 0), 1) if cell else 0
                svg.box(x + 1, bottom + 1, width - 2, height - 2, ORANGE, f' fill-opacity="{0.06 + 0.6 * shade:.2f}"')
                if cell:
                    middle = bottom + height / 2
                    svg.text(x + width / 2, middle + (-3 if cell[1] else 4), f"{cell[0]:.2f}", TEXT, "middle")
                    svg.text(x + width / 2, middle + 11, cell[1] or "", SMALL, "middle")
            bottom += height
        below = max(below, bottom + 18)
    svg.text(12, below + 6, data["legend"], SMALL, "start", GREY)
    svg.height = below + 22
    return svg
