# SPDX-License-Identifier: BSD-3-Clause
"""Plans: a time line of backward, messages and the next forward."""
from pictures.style import (GREY, HEAD, ON_SCALE, PAPER, SMALL, Scale, Svg, ramp_colour, time_text,
                            width_of)


class Plan:
    left, width, right, row, bar = 118, 1100, 40, 58, 40

    def __init__(self, data):
        self.data = data
        iteration, exposed, bound = (f"{data[key] / 1000:.6g} ms" for key in ("iteration_us", "exposed_us", "bound_us"))
        cost = data["cost"].replace(" us", " \u00b5s")
        title = f"{data['policy']}: {iteration} an iteration, {exposed} of communication not hidden"
        note = (f"{data['layers']} layers, numbered in forward order; {data['groups']} groups in {data['sent']} "
                f"messages, {data['order']}; {cost}; no plan takes less than {bound}")
        self.svg = Svg(self.left + self.width + self.right, title, note)
        self.top = self.svg.top + 16
        self.scale = Scale(0, data["end_us"], self.left, self.left + self.width, False)

    def axis(self):
        y = self.top + 3 * self.row - 4
        for us in self.scale.ticks(80):
            self.svg.line(f"M{self.scale.at(us):.1f} {self.top - 8}V{y}")
            self.svg.text(self.scale.at(us), y + 14, time_text(us) if us else "0", SMALL, "middle", GREY)

    def bars(self, at, name, bars):
        """There is a label where there is room for it, for messages also above."""
        above, y, last = 0, self.top + self.row * at, max(self.data["layers"] - 1, 1)
        self.svg.text(self.left - 12, y + self.bar / 2 + 5, name, HEAD, "end")
        for label, layer, begin_us, end_us in bars:
            x, width = self.scale.at(begin_us), self.scale.at(end_us) - self.scale.at(begin_us)
            self.svg.box(x, y, max(width, 0.3), self.bar, ramp_colour((layer - 1) / last),
                         f' stroke="{PAPER}" stroke-width="{0.8 if width > 3 else 0}"',
                         f"{name} {label}: {time_text(begin_us)} to {time_text(end_us)}")
            if width >= width_of(label, SMALL) + 4:
                self.svg.text(x + width / 2, y + self.bar / 2 + 4, label, SMALL, "middle", ON_SCALE)
            elif at == 1 and x + width / 2 - width_of(label, SMALL) / 2 > above:
                self.svg.text(x + width / 2, y - 4, label, SMALL, "middle", GREY)
                above = x + width / 2 + width_of(label, SMALL) / 2

    def legend(self):
        y, layers = self.top + 3 * self.row + 36, self.data["layers"]
        first = "layer 1, whose gradient is ready last"
        self.svg.text(self.left + width_of(first, SMALL), y, first, SMALL, "end", GREY)
        x = self.left + width_of(first, SMALL) + 8
        for k in range(24):
            self.svg.box(x + 5 * k, y - 8, 5.2, 9, ramp_colour(k / 23))
        self.svg.text(x + 128, y, f"layer {layers}, ready first; a message has the colour of its last layer", SMALL,
                      "start", GREY)
        self.svg.height = y + 16

    def drawn(self):
        data = self.data
        self.axis()
        self.bars(0, "backward", ((str(layer), layer, begin, end) for layer, begin, end in data["backward"]))
        self.bars(1, "messages", ((str(first) if first == last else f"{first}..{last}", last, begin, end)
                                  for first, last, begin, end in data["messages"]))
        self.bars(2, "next forward", ((str(layer), layer, begin, end) for layer, begin, end in data["forward"]))
        self.legend()
        return self.svg


def plan(data):
    return Plan(data).drawn()
