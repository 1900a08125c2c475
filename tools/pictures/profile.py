# SPDX-License-Identifier: BSD-3-Clause
"""Profiles: time and bandwidth against bytes, a column for each transport."""
import math
import re

from pictures.chart import lines
from pictures.style import UNITS, Nothing


def bytes_of(text):
    return math.inf if text == "inf" else int(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else int(text)


def curves_of(points, links):
    """The lines of a flow as far as it has points; they are no straight ones on these scales."""
    for begin, end, alpha, beta in links:
        begin, end = max(begin, points[0][0]), min(end, points[-1][0])
        if begin < end:
            steps = int(math.log(end / begin) / math.log(1.09)) + 1
            sizes = [begin * (end / begin) ** (k / steps) for k in range(steps + 1)]
            yield [(size, max(alpha + beta * size, 1e-6)) for size in sizes]


def read(text):
    """The machine's keys, the words of `measured`, and flow -> its points and its lines."""
    flows, machine, measured = {}, {}, []
    for line in text.splitlines():
        words = [word.strip('"') for word in re.findall(r'"[^"]*"|[^\s"#]+|#.*', line) if word[0] != "#"]
        keys = dict(zip(words[1::2], words[2::2]))
        if words[:1] == ["machine"]:
            machine = keys
        elif words[:1] == ["measured"]:
            measured.append(keys)
        elif words[:1] in (["point"], ["link"]):
            flow = tuple(keys[key] for key in ("kind", "transport", "interface", "ways", "flows"))
            points, links = flows.setdefault(flow, ([], []))
            if words[0] == "link":
                links.append((bytes_of(keys["from"]), bytes_of(keys["to"]), float(keys["alpha_us"]),
                              float(keys["beta_us_per_mib"]) / (1 << 20)))
            elif keys["bytes"] != "0":  # there is no place for 0 bytes
                points.append((bytes_of(keys["bytes"]), *(float(keys[key]) for key in ("us", "low_us", "high_us"))))
    return machine, measured, {flow: (sorted(points), links) for flow, (points, links) in flows.items() if points}


def name_of(flow):
    kind, _, interface, ways, flows = flow
    return f"{kind}{' on ' + interface if interface else ''}, {flows} pair{'' if flows == '1' else 's'}, " \
           f"{'one way' if ways == '1' else 'both ways'}"


def rate(size, us):
    """10^9 bytes a second."""
    return size / us / 1000


def panels_of(transport, flows):
    times, rates = [], []
    for flow, (points, links) in flows.items():
        curves = list(curves_of(points, links))
        times.append({"name": name_of(flow), "points": points, "curves": curves})
        rates.append({"name": name_of(flow),
                      "points": [(size, rate(size, us), rate(size, high), rate(size, low))
                                 for size, us, low, high in points],
                      "curves": [[(size, rate(size, us)) for size, us in curve] for curve in curves]})
    return ({"title": f"{transport}: time of a message", "series": times},
            {"title": f"{transport}: bandwidth", "series": rates,
             "y": {"name": "GB/s, each way of a pair", "kind": "number", "log": False}})


def profile(text):
    machine, measured, flows = read(text)
    if not flows:
        raise Nothing("there are no measured points to draw: have them measured by tutti tune")
    transports = list(dict.fromkeys(flow[1] for flow in flows if flow[0] != "self")) or ["self"]
    pairs = [panels_of(transport, {flow: of for flow, of in flows.items() if flow[1] == transport})
             for transport in transports]
    where = ", ".join(word for word in (machine.get("host"), machine.get("cpu")) if word) or "a profile"
    when = ", ".join(dict.fromkeys(f"{keys['date'][:10]} by Tutti {keys['version']}" for keys in measured
                                   if "date" in keys and "version" in keys))
    return lines({
        "title": "Messages between ranks: time and bandwidth", "columns": min(len(pairs), 3),
        "note": f"{where}{'; ' + when if when else ''}\nPoints: medians, and a quarter of the samples below and above; "
                "lines: fitted",
        "x": {"name": "bytes of a message", "kind": "bytes"}, "y": {"name": "time", "kind": "us", "log": True},
        "panels": [pair[k] for start in range(0, len(pairs), 3) for k in (0, 1) for pair in pairs[start:start + 3]]})
