# SPDX-License-Identifier: BSD-3-Clause
"""Traces (TUTTI_TIMELINE): a row for each track of each rank, time from left to right."""
from pictures.style import BAND, GREY, HEAD, PAPER, SERIES, SLATE, SMALL, Nothing, Scale, Svg, time_text, width_of

ARROWS_MOST = 200  # more are not drawn


class Trace:
    left, width, right, row = 250, 1000, 30, 24

    def __init__(self, events):
        self.ranks, self.tracks, self.spans, self.arrows, self.names, hosts = {}, {}, {}, {}, [], []
        for event in events:
            place = (event.get("pid"), event.get("tid"))
            if event["ph"] == "X":
                self.spans.setdefault(place, []).append(event)
            elif event["ph"] == "M" and event["name"] == "process_name":
                self.ranks[event["pid"]] = event["args"]["name"]
            elif event["ph"] == "M" and event["name"] == "process_labels":
                hosts.append(event["args"]["labels"])
            elif event["ph"] == "M" and event["name"] == "thread_name":
                self.tracks[place] = event["args"]["name"]
            elif event["ph"] in ("s", "f"):
                self.arrows.setdefault(event["id"], {})[event["ph"]] = event
        if not self.spans:
            raise Nothing("there is no operation to draw in this trace")
        spans = [span for some in self.spans.values() for span in some]
        self.begin = min(span["ts"] for span in spans)
        end = max(span["ts"] + span["dur"] for span in spans)
        kinds = [self.kind(span) for span in spans if span.get("cat") != "internal"]
        self.kinds = sorted(set(kinds), key=kinds.count, reverse=True)
        note = f"{len(spans)} operations of {len(self.ranks)} rank{'s' * (len(self.ranks) > 1)} in " \
               f"{time_text(float(f'{end - self.begin:.3g}'))}{' on ' + ', '.join(sorted(set(hosts))) if hosts else ''}"
        self.svg = Svg(self.left + self.width + self.right, "Time line", note)
        self.scale = Scale(0, max(end - self.begin, 1e-3), self.left, self.left + self.width, False)
        self.rows = {place: self.svg.top + 10 + at * self.row for at, place in enumerate(sorted(self.spans))}
        self.below = self.svg.top + 10 + len(self.rows) * self.row

    def x(self, us):
        return self.scale.at(us - self.begin)

    def kind(self, span):
        """AllReduce of "AllReduce 4 KiB, failed"; what a fusion does is of the kind of its track."""
        if span.get("cat") == "fusion":
            return self.tracks.get((span["pid"], span["tid"]), "").split(": ")[-1].split(" ")[0]
        return span["name"].split(" ")[0]

    def colour(self, span):
        """What is not the program's is grey."""
        return SLATE if span.get("cat") == "internal" else \
            SERIES[self.kinds.index(self.kind(span)) % (len(SERIES) - 1)]

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
                self.names.append(((x + end) / 2, y + 16, name, SMALL, "middle", PAPER))

    def flows(self):
        """From the begin of the rank that came last, or that sent, to the end of one that waited. Names lie above."""
        pairs = [pair for pair in self.arrows.values() if len(pair) == 2]
        self.pairs = pairs if len(pairs) <= ARROWS_MOST else []
        for pair in self.pairs:
            (x, y), (x2, y2) = ((self.x(pair[end]["ts"]), self.rows[pair[end]["pid"], pair[end]["tid"]] + self.row / 2)
                                for end in "sf")
            self.svg.line(f"M{x:.1f} {y:.1f}L{x2:.1f} {y2:.1f}", GREY, ' stroke-width="0.9"')
            self.svg.add(f'<circle cx="{x2:.1f}" cy="{y2:.1f}" r="2" fill="{GREY}"/>')
        for name in self.names:
            self.svg.text(*name)

    def legend(self):
        x, y = 14.0, self.below + 42
        has_own = any(span.get("cat") == "internal" for some in self.spans.values() for span in some)
        for name, colour in [(kind, SERIES[at % (len(SERIES) - 1)]) for at, kind in enumerate(self.kinds)] + \
                [("internal", SLATE)] * has_own:
            if x + width_of(name) + 30 > self.svg.width:
                x, y = 14.0, y + 18
            self.svg.box(x, y - 9, 12, 10, colour)
            self.svg.text(x + 18, y, name)
            x += 36 + width_of(name)
        if self.pairs:
            words = "from the rank that began last, or sent, to one that waited for it"
            x, y = (14.0, y + 18) if x + width_of(words) + 50 > self.svg.width else (x, y)
            self.svg.line(f"M{x:.1f} {y - 4:.1f}h24", GREY, ' stroke-width="0.9"')
            self.svg.add(f'<circle cx="{x + 24:.1f}" cy="{y - 4:.1f}" r="2" fill="{GREY}"/>')
            self.svg.text(x + 34, y, words)
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
