# SPDX-License-Identifier: BSD-3-Clause
"""Traces (TUTTI_TIMELINE): a row for each track of each rank, time from left to right."""
from pictures.style import BAND, GREY, HEAD, PAPER, SERIES, SLATE, SMALL, Nothing, Scale, Svg, time_text, width_of

ARROWS_MOST = 400  # more are not drawn


def kind_of(name):
    """AllReduce of "AllReduce 4 KiB, failed"."""
    return name.split(" ")[0].rstrip(":,")


class Trace:
    left, width, right, row = 250, 1000, 30, 24

    def __init__(self, events):
        self.ranks, self.tracks, self.spans, self.arrows = {}, {}, {}, {}
        for event in events:
            place = (event.get("pid"), event.get("tid"))
            if event["ph"] == "X":
                self.spans.setdefault(place, []).append(event)
            elif event["ph"] == "M" and event["name"] == "process_name":
                self.ranks[event["pid"]] = event["args"]["name"]
            elif event["ph"] == "M" and event["name"] == "thread_name":
                self.tracks[place] = event["args"]["name"]
            elif event["ph"] in ("s", "f"):
                self.arrows.setdefault(event["id"], {})[event["ph"]] = event
        if not self.spans:
            raise Nothing("there is no operation to draw in this trace")
        spans = [span for some in self.spans.values() for span in some]
        self.begin = min(span["ts"] for span in spans)
        end = max(span["ts"] + span["dur"] for span in spans)
        kinds = [kind_of(span["name"]) for span in spans if span.get("cat") != "internal"]
        self.kinds = sorted(set(kinds), key=kinds.count, reverse=True)
        note = f"{len(spans)} operations of {len(self.ranks)} rank{'s' * (len(self.ranks) > 1)} in " \
               f"{time_text(float(f'{end - self.begin:.3g}'))}"
        self.svg = Svg(self.left + self.width + self.right, "Time line", note)
        self.scale = Scale(0, max(end - self.begin, 1e-3), self.left, self.left + self.width, False)
        self.rows = {place: self.svg.top + 10 + at * self.row for at, place in enumerate(sorted(self.spans))}
        self.below = self.svg.top + 10 + len(self.rows) * self.row

    def x(self, us):
        return self.scale.at(us - self.begin)

    def colour(self, span):
        """What the library does for itself is grey."""
        return SLATE if span.get("cat") == "internal" else \
            SERIES[self.kinds.index(kind_of(span["name"])) % (len(SERIES) - 1)]

    def axis(self):
        before = None
        for (pid, _), y in self.rows.items():
            if pid != before and list(self.ranks).index(pid) % 2 == 0:
                rows = sum(place[0] == pid for place in self.rows)
                self.svg.box(8, y - 1, self.svg.width - 16, rows * self.row, BAND)
            before = pid
        for us in self.scale.ticks(90):
            x = self.scale.at(us)
            self.svg.line(f"M{x:.1f} {self.svg.top:.1f}V{self.below + 4:.1f}")
            self.svg.text(x, self.below + 18, time_text(us) if us else "0", SMALL, "middle", GREY)
        before = None
        for (pid, tid), y in self.rows.items():
            if pid != before:
                self.svg.text(14, y + 15, self.ranks.get(pid, str(pid)), HEAD)
            before = pid
            self.svg.text(self.left - 10, y + 15, self.tracks.get((pid, tid), "")[:30], SMALL, "end", GREY)

    def track(self, y, spans):
        """Spans inside of another one are lower; those too short to be told apart are one box."""
        around, last = [], {}
        for span in sorted(spans, key=lambda span: (span["ts"], -span["dur"])):
            while around and around[-1] <= span["ts"]:
                around.pop()
            depth, x, end = min(len(around), 4), self.x(span["ts"]), self.x(span["ts"] + span["dur"])
            around.append(span["ts"] + span["dur"])
            if end - last.get(depth, -1) < 0.4:
                continue
            last[depth] = end
            name = span["name"]
            self.svg.box(x, y + 2 + 3 * depth, max(end - x, 0.4), self.row - 5 - 3 * depth, self.colour(span),
                         f' stroke="{PAPER}" stroke-width="{0.5 if end - x > 3 else 0}"',
                         f"{name}: {time_text(round(span['dur'], 1))}")
            if end - x >= width_of(name, SMALL) + 6:
                self.svg.text((x + end) / 2, y + 16, name, SMALL, "middle", PAPER)

    def flows(self):
        """From the begin of the rank that came last to the others' end."""
        pairs = [pair for pair in self.arrows.values() if len(pair) == 2]
        for pair in pairs if len(pairs) <= ARROWS_MOST else []:
            (x, y), (x2, y2) = ((self.x(pair[end]["ts"]), self.rows[pair[end]["pid"], pair[end]["tid"]] + self.row / 2)
                                for end in "sf")
            self.svg.line(f"M{x:.1f} {y:.1f}L{x2:.1f} {y2:.1f}", GREY, ' stroke-width="0.9"')
            self.svg.add(f'<circle cx="{x2:.1f}" cy="{y2:.1f}" r="2" fill="{GREY}"/>')

    def legend(self):
        x, y = 14.0, self.below + 42
        has_own = any(span.get("cat") == "internal" for some in self.spans.values() for span in some)
        for name, colour in [(kind, SERIES[at % (len(SERIES) - 1)]) for at, kind in enumerate(self.kinds)] + \
                [("the library's own", SLATE)] * has_own:
            if x + width_of(name) + 30 > self.svg.width:
                x, y = 14.0, y + 18
            self.svg.box(x, y - 9, 12, 10, colour)
            self.svg.text(x + 18, y, name)
            x += 36 + width_of(name)
        self.svg.height = y + 16

    def drawn(self):
        self.axis()
        for place, y in self.rows.items():
            self.track(y, self.spans[place])
        self.flows()
        self.legend()
        return self.svg


def trace(events):
    return Trace(events).drawn()
