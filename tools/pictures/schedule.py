# SPDX-License-Identifier: BSD-3-Clause
"""Schedules: ranks from top to bottom, rounds from left to right; messages are arrows, or many ranks cells."""
import math

from pictures.style import (BAND, BLUE, GREY, INK, PALE, PAPER, SLATE, SMALL, SUN, TEXT, Svg, circle_colour,
                            width_of)

ROOMY = 20    # ranks that far apart have full marks and labels
LABELS = 260  # more arrows than that get no numbers
WHOLE = SLATE  # a message of all blocks
MOST = 1 << 20  # ranks, and rounds: schedules have fewer


def elements_text(number):
    return f"{number} element{'' if number == '1' else 's'}"


class Arrows:
    left, right = 84, 40

    def __init__(self, data):
        self.data, ranks, rounds = data, data["ranks"], max(data["shown"], 1)
        self.row = 56 if ranks <= 8 else 40 if ranks <= 16 else 26
        self.column = min(max(1040 / rounds, 46), 340)
        self.svg = Svg(max(self.left + rounds * self.column + self.right, 640), data["title"], data["note"])
        self.top = self.svg.top + 44
        self.below = self.top + ranks * self.row
        self.groups = {}  # messages of a round from one rank to another are one arrow
        for arrow in data["arrows"]:
            self.groups.setdefault(tuple(arrow[:3]), []).append(arrow[3:])
        self.counts = [{len(of) for key, of in self.groups.items() if key[0] == k} for k in range(data["shown"])]

    def x(self, round_):
        return self.left + round_ * self.column

    def y(self, rank):
        return self.top + (rank + 0.5) * self.row

    def bands(self):
        """Every other run of ranks of one group is a band."""
        group, first, is_dark, width = self.data["group"], 0, True, self.x(self.data["shown"]) - self.left + 96
        while first < len(group):
            end = first
            while end < len(group) and group[end] == group[first]:
                end += 1
            if is_dark:
                self.svg.box(self.left - 76, self.y(first - 0.5), width, (end - first) * self.row, BAND)
            first, is_dark = end, not is_dark

    def ranks(self):
        for rank in range(self.data["ranks"]):
            self.svg.line(f"M{self.left} {self.y(rank):.1f}H{self.x(self.data['shown']):.1f}")
            self.svg.text(self.left - 14, self.y(rank) + 4, f"rank {rank}", TEXT, "end")

    def rounds(self):
        """Their numbers, and below how many elements a message has, and how many go along each arrow."""
        is_wide, spans = self.column >= 80, self.data["spans"]
        for round_ in range(self.data["shown"] + 1):
            self.svg.line(f"M{self.x(round_):.1f} {self.top - 8}V{self.below + 6:.1f}", more=' stroke-dasharray="2 3"')
        if any(messages for messages, _, _ in spans):
            self.svg.text(self.left - 14, self.top - 30, "round", SMALL, "end", PALE)
            self.svg.text(self.left - 14, self.top - 15, "elements", SMALL, "end", PALE)
        for round_, (messages, fewest, most) in enumerate(spans):
            x, size = self.x(round_ + 0.5), TEXT if is_wide else SMALL
            self.svg.text(x, self.top - 30, f"{'round ' if is_wide else ''}{round_ + 1}", size, "middle", PALE)
            several = "" if fewest == most else f" to {most}" if is_wide else ".."
            if messages:
                along = max(self.counts[round_]) if len(self.counts[round_]) == 1 else 1
                times = f"{along} \u00d7 " if along > 1 else ""
                self.svg.text(x, self.top - 15, f"{times}{fewest}{several}", size, "middle", GREY)

    def colour(self, first, blocks):
        """Of the middle of its blocks; whole vectors are grey."""
        total = self.data["blocks"]
        return WHOLE if blocks == total else circle_colour((first + 0.5 * blocks) / total % 1)

    def arrow(self, round_, rank, to, messages, stroke_most):
        """From the sender's mark to the receiver's."""
        x, y, dx, dy = self.x(round_), self.y(rank), self.column, self.y(to) - self.y(rank)
        length, gap, head = math.hypot(dx, dy), 3 if self.row < ROOMY else 9, 5 if self.row < ROOMY else 9
        dx, dy, half = dx / length, dy / length, head * 0.38
        x2, y2 = x + (length - gap) * dx, y + (length - gap) * dy
        blocks, elements = sum(message[1] for message in messages), sum(message[2] for message in messages)
        colour = self.colour(messages[0][0], min(blocks, self.data["blocks"]))
        width = stroke_most * (0.4 + 0.6 * math.sqrt(min(elements / max(self.data["most"], 1), 1)))
        tip = "; ".join(f"blocks [{first},{first + n}), {elements_text(str(of))}" for first, n, of in messages)
        self.svg.add(
            f'<g stroke="{colour}" fill="{colour}"><title>round {round_ + 1}: rank {rank} to rank {to}, '
            f'{f"{len(messages)} messages: " if len(messages) > 1 else ""}{tip}</title><path '
            f'stroke-width="{width:.1f}" d="M{x + gap * dx:.1f} {y + gap * dy:.1f}L{x2 - 3 * dx:.1f} {y2 - 3 * dy:.1f}"'
            f'/><path stroke="none" d="M{x2:.1f} {y2:.1f}L{x2 - head * dx - half * dy:.1f} '
            f'{y2 - head * dy + half * dx:.1f}L{x2 - head * dx + half * dy:.1f} {y2 - head * dy - half * dx:.1f}Z"/>'
            '</g>')

    def label(self, round_, rank, to, messages):
        """The number of elements, near the tail, where arrows that cross have not crossed yet, at another distance for
        each of a rank's arrows; none where the head of the round says enough. Several messages are told: 4 x 10."""
        _, fewest, most = self.data["spans"][round_]
        if most - fewest < 2 and len(self.counts[round_]) == 1:
            return
        lengths = [message[2] for message in messages]
        words = str(lengths[0]) if len(messages) == 1 else \
            f"{len(messages)} \u00d7 {lengths[0]}" if min(lengths) == max(lengths) else " + ".join(map(str, lengths))
        beside = [key[2] for key in self.groups if key[:2] == (round_, rank)]
        at = 0.2 + 0.22 * (beside.index(to) % 3)
        self.svg.add(f'<text x="{self.x(round_) + at * self.column:.1f}" '
                     f'y="{self.y(rank) + at * (self.y(to) - self.y(rank)) + 4:.1f}">{words}</text>')

    def arrows(self):
        is_few = len(self.groups) <= LABELS
        for key, messages in self.groups.items():
            self.arrow(*key, messages, 2.6 if is_few else 1.4)
        if is_few:
            self.svg.add(f'<g text-anchor="middle" font-size="{SMALL}" fill="{INK}" stroke="{PAPER}" stroke-width="4" '
                         'stroke-linejoin="round" paint-order="stroke">')
            for key, messages in self.groups.items():
                self.label(*key, messages)
            self.svg.add("</g>")

    def mark(self, x, y, kind, sources):
        """What a rank does between two rounds."""
        if kind == "copy":
            self.svg.box(x - 3.5, y - 3.5, 7, 7, PAPER)
        elif kind == "receive":
            self.svg.add(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{PAPER}"/>')
        else:
            several = f'<text x="{x + 9:.1f}" y="{y - 6:.1f}" font-size="{SMALL}" stroke="none" fill="{INK}">{sources}'
            self.svg.add(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="7" fill="{SUN}"/>'
                         f'<path d="M{x - 4:.1f} {y:.1f}h8m-4 -4v8"/>{several + "</text>" if sources > 1 else ""}')

    def marks(self):
        self.svg.add(f'<g stroke="{INK}" stroke-width="1.3">')
        for round_, rank, kind, sources in self.data["marks"]:
            self.mark(self.x(round_), self.y(rank), kind, sources)
        self.svg.add("</g>")

    def legend(self):
        """Only what occurs."""
        x, y, marks = 12.0, self.below + 34, self.data["marks"]
        several = any(sources > 1 for _, _, _, sources in marks)
        words = {"reduce": "combines" + (", the number says how many messages at once" if several else ""),
                 "receive": "receives", "copy": "copies"}
        for kind in words:
            if any(mark[2] == kind for mark in marks):
                self.svg.add(f'<g stroke="{INK}" stroke-width="1.3">')
                self.mark(x + 8, y - 4, kind, 1)
                self.svg.add("</g>")
                self.svg.text(x + 22, y, words[kind])
                x += 40 + width_of(words[kind])
        blocks = [arrow[4] for arrow in self.data["arrows"]]
        if self.data["blocks"] in blocks:
            self.svg.line(f"M{x:.1f} {y - 4:.1f}h26", WHOLE, ' stroke-width="2.6"')
            self.svg.text(x + 32, y, "whole vector")
            x += 50 + width_of("whole vector")
        if any(n < self.data["blocks"] for n in blocks):
            words = "part of the vector, from its begin to its end"
            for k in range(24):
                self.svg.box(x + 4 * k, y - 7, 4.3, 5, circle_colour((k + 0.5) / 24))
            self.svg.text(x + 104, y, words)
            x += 122 + width_of(words)
        if self.data["group"]:
            y, x = (y + 20, 12.0) if x + 120 > self.svg.width else (y, x)
            self.svg.box(x, y - 11, 26, 14, BAND)
            self.svg.text(x + 32, y, "a group")
        self.svg.width, self.svg.height = max(self.svg.width, x + 12), y + 18

    def remarks(self):
        data, words = self.data, ""
        if not data["messages"]:
            words = "There are no messages."
        elif data["shown"] < data["rounds"]:
            words = f"The first {data['shown']} of {data['rounds']} rounds are shown."
        if words:
            self.svg.text(12, self.svg.height + 2, words)
            self.svg.height += 20

    def drawn(self):
        for part in self.bands, self.ranks, self.rounds, self.arrows, self.marks, self.legend, self.remarks:
            part()
        return self.svg


class Cells:
    """The stronger the colour, the more elements a rank sends in a round."""
    left, right, most_width, shades = 84, 40, 960, 24

    def __init__(self, data):
        self.data, rows, columns = data, len(data["cells"]), max(len(data["cells"][0]), 1)
        self.row, self.column = max(560 / rows, 5), min(max(self.most_width / columns, 4), 120)
        self.svg = Svg(max(self.left + columns * self.column + self.right, 640), data["title"], data["note"])
        self.top = self.svg.top + 30
        self.each = data["row_ranks"] * data["column_rounds"]

    def cells(self):
        """Neighbours of one shade in a row are one box; its tip says what they have, each."""
        most = max(max(row, default=0) for row in self.data["cells"]) or 1
        self.svg.add('<g shape-rendering="crispEdges">')
        for r, row in enumerate(self.data["cells"]):
            begin = 0
            for c in range(1, len(row) + 1):
                if c < len(row) and row[c] == row[begin]:
                    continue
                if row[begin]:
                    shade = math.ceil(self.shades * math.sqrt(row[begin] / most)) / self.shades
                    each = elements_text(f"{row[begin] / self.each:g}")
                    rank, round_ = r * self.data["row_ranks"], begin * self.data["column_rounds"]
                    self.svg.box(self.left + begin * self.column, self.top + r * self.row, (c - begin) * self.column,
                                 self.row, BLUE, f' fill-opacity="{shade:.2f}"',
                                 f"from rank {rank}, round {round_ + 1}: {each}")
                begin = c
        self.svg.add("</g>")
        return most / self.each

    def axes(self):
        data, columns = self.data, len(self.data["cells"][0])
        below, right = self.top + len(data["cells"]) * self.row, self.left + columns * self.column
        self.svg.line(f"M{self.left - 1} {self.top - 1:.1f}V{below + 1:.1f}H{right + 1:.1f}V{self.top - 1:.1f}z")
        every = 1
        while every * self.row / data["row_ranks"] < 15:
            every *= 2
        for rank in range(0, data["ranks"], every):
            self.svg.text(self.left - 10, self.top + (rank / data["row_ranks"] + 0.5) * self.row + 4, f"rank {rank}",
                          SMALL, "end", GREY)
        every = 1
        while every * self.column / data["column_rounds"] < 34:
            every *= 2
        for round_ in range(0, data["rounds"], every):
            x = self.left + (round_ / data["column_rounds"] + 0.5) * self.column
            self.svg.text(x, self.top - 8, str(round_ + 1), SMALL, "middle", GREY)
        self.svg.text(self.left - 10, self.top - 8, "round", SMALL, "end", PALE)
        return below

    def drawn(self):
        most = self.cells()
        below, data = self.axes(), self.data
        for k in range(self.shades):
            self.svg.box(12 + 4 * k, below + 22, 4, 10, BLUE, f' fill-opacity="{(k + 1) / self.shades:.2f}"')
        words = f"elements that a rank sends in a round, up to {most:g}"
        if data["row_ranks"] > 1:
            words += f"; a row is {data['row_ranks']} ranks"
        if data["column_rounds"] > 1:
            words += f"; a column is {data['column_rounds']} rounds"
        self.svg.text(20 + 4 * self.shades, below + 31, words)
        self.svg.height = below + 50
        return self.svg


def schedule(data):
    numbers = [data[key] for key in ("ranks", "rounds", "shown", "row_ranks", "column_rounds") if key in data]
    if not all(isinstance(number, int) and 0 <= number <= MOST for number in numbers):
        raise ValueError("more than can be drawn")
    return (Cells if "cells" in data else Arrows)(data).drawn()
