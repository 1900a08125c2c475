# SPDX-License-Identifier: BSD-3-Clause
"""Points of perf/train_replay: a table by several policies, in one case of computation, on ranks or in the model."""
import csv
import json
import os
import re
import statistics
import subprocess
import sys

import measuring
from measuring import HOSTS, MIB

HERE = os.path.dirname(os.path.abspath(__file__))
TRACES = os.path.join(os.path.dirname(HERE), "traces")
TABLES = {"googlenet": "googlenet_b64", "resnet50": "resnet50_b32", "vgg19": "vgg19_b32", "sockeye": "sockeye_b32",
          "inception": "inception_v3_b32", "alexnet": "alexnet_b128"}
TIMES = {"vgg19": 0.2, "sockeye": 0.5, "alexnet": 0.5}  # where the start-up does not tell it
POINT = f"({'|'.join(TABLES)})-([0-9]+(?:[.][0-9]+)?)g(@[0-9]+)?"
GBIT, NODES = (0.001, 1e6), (2, 65536)  # of a point
STATE = "steps plans groups messages by_priority copied_bytes predicted_us exposed_us late_us idle".split()
SLICE = 50000          # elements, of p3 where it is not told
WARM = 12              # steps before any is told: plans are made from what was measured in steps 3, 6 and 10
ALPHA_US, NS_PER_BYTE = 45.26, 8.0  # MG-WFBP's start-up of a message between two ranks, and a byte at 1 Gbit/s
SHORT, LONG = 1024, 4 * MIB         # messages whose times make the line


def policy_scale(policy, factor):
    """The policy with its sizes multiplied."""
    kind, _, sizes = policy.partition(":")
    if factor == 1 or (kind not in ("p3", "fifo") and not sizes):
        return policy
    numbers = [measuring.bytes_of(size) for size in (sizes or str(SLICE)).split(",")]
    if None in numbers:
        return policy  # `tutti plan` says what is wrong with it
    return f"{kind}:{','.join(str(max(1, round(number * factor))) for number in numbers)}"


# ---- ranks ----

class Failed(Exception):
    """A program did not do what it should, and said why, or the text does."""


class Place:
    """Where ranks run."""

    def __init__(self, options):
        self.options, self.hosts = options, f"replay-{os.getpid()}"

    def up(self):
        if not self.options.hosts:
            return 0
        status = measuring.hosts_up(self.hosts, self.options.hosts, self.options.rate)
        if status:
            self.options.hosts = None
        return status

    def down(self):
        if self.options.hosts:
            measuring.hosts_down(self.hosts)

    def lines(self, arguments):
        """Of rank 0, split into words, as they come."""
        program = [os.path.join(self.options.bin, "train_replay")] + [str(word) for word in arguments]
        if self.options.hosts:
            command = [HOSTS, "run", "--name", self.hosts, "--"] + program
        else:
            command = [os.path.join(self.options.bin, "tutti"), "run", "-n", str(self.options.nranks), "--no-prefix",
                       "--"] + program
        ranks = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            for line in ranks.stdout:
                yield line.split()
            if ranks.wait():
                raise Failed("the ranks failed: see above")
        finally:
            if ranks.poll() is None:
                ranks.terminate()
                ranks.wait()

    def line(self):
        """(us of a short message, us of each further byte) of an all-reduce."""
        seen = {}
        for words in self.lines(["line", 9, SHORT, LONG]):
            seen.setdefault(int(words[2]), []).append(float(words[3]))
        # the lower quartile: what else the machine does only ever adds
        short, long = (statistics.quantiles(seen[size], n=4)[0] for size in (SHORT, LONG))
        return short, max(long - short, 0) / (LONG - SHORT)

    def tell(self):
        if self.options.hosts:
            return f"{self.options.hosts} hosts with links of {self.options.rate} each way"
        return f"{self.options.nranks} rank{'s' * (self.options.nranks > 1)} on one host"


# ---- how computation varies ----

class Case:
    """How computation varies: options of the programs train_replay and replay_model."""

    def __init__(self, name="constant", arguments=(), longer=1.0):
        self.name, self.arguments, self.longer = name, list(arguments), longer

    def varies(self):
        return bool(self.arguments)

    def label(self, point):
        return f"{point}+{self.name}" if self.varies() else point


def cases_of(options):
    """In the order of --help."""
    seed, cases = ["--seed", options.seed], []
    for percent in options.jitter:
        cases.append(Case(f"jitter{percent:g}", ["--jitter", percent] + seed, 1.1) if percent else Case())
    if options.slow:
        cases.append(Case(f"slow{options.slow}", ["--slow", options.slow] + seed, float(options.slow.split(":")[1])))
    if options.lengths:
        cases.append(Case("lengths", ["--lengths", options.lengths] + seed, 1.1))
    return cases or [Case()]


# ---- a point ----

class Point:
    """A table with its factors in one case, and what was seen of it."""
    is_measured = True

    def __init__(self, options, place, name, case, line):
        self.options, self.place, self.case, self.line = options, place, case, line
        self.net = name or os.path.splitext(os.path.basename(options.table))[0]
        self.name = case.label(self.net)
        self.nranks = options.nranks
        self.params, self.time, self.table = options.params or 1, options.time or 1, options.table
        if name:
            net, gbit, nodes = re.fullmatch(POINT, name).groups()
            self.table = os.path.join(TRACES, TABLES[net] + ".csv")
            self.fit(net, float(gbit), nodes)
        self.steps = {}     # (policy, round) -> lists of us, one a rank
        self.told = {}      # policy -> states, of each round
        self.modelled = {}  # (policy or "bound", round) -> us of a step, where computation varies
        self.planned, self.bound = {}, 0.0
        self.names = {policy_scale(policy, self.params): policy for policy in options.policies}

    @staticmethod
    def paper_line(nranks, gbit):
        """us of a message and of a byte of it, as the MG-WFBP paper has them."""
        return 2 * (nranks - 1) * ALPHA_US, 2 * (nranks - 1) / nranks * NS_PER_BYTE / 1000 / gbit

    def fit(self, net, gbit, nodes):
        if self.line[1] == 0:
            raise Failed("long messages took no longer than short ones: the machine is too busy to measure")
        a, b = self.paper_line(int(nodes[1:]) if nodes else self.nranks, gbit)
        self.time = self.options.time or (None if nodes else TIMES.get(net)) or float(f"{self.line[0] / a:.2g}")
        self.params = float(f"{self.time * b / self.line[1]:.3g}")

    def scale(self, folder):
        """Writes the table that is played; reads its sums."""
        self.played = os.path.join(folder, self.name + ".csv")
        with open(self.table, newline="") as file, open(self.played, "w", newline="") as out:
            rows = csv.DictReader(file)
            lacking = {"layer_index", "params", "bwd_time_us", "fwd_time_us"} - set(rows.fieldnames or ())
            if lacking:
                raise Failed(f"{self.table}: no column {lacking.pop()}")
            write = csv.writer(out, lineterminator="\n").writerow
            write("layer_index name params bwd_time_us fwd_time_us".split())
            self.elements, self.backward, self.forward = 0, 0.0, 0.0
            for row in rows:
                count = int(row["params"])
                count = max(1, round(count * self.params)) if count else 0
                backward, forward = (round(float(row[way + "_time_us"]) * self.time, 3) for way in ("bwd", "fwd"))
                name = (row.get("name") or f"layer {row['layer_index']}").replace(",", ";")[:127]
                write([row["layer_index"], name, count, f"{backward:.3f}", f"{forward:.3f}"])
                self.elements += count
                self.backward += backward
                self.forward += forward

    def gap(self):
        return [] if self.options.gap is None else ["--gap", str(self.options.gap)]

    def plan(self):
        """What `tutti plan` says."""
        cost = ["--cost", f"{self.line[0]:.3f},{self.line[1]:.9f}"]
        if self.options.profile:
            cost = ["--ranks", str(self.options.nranks)] + ([] if self.options.hosts else ["--nodes", "1"])
        cost += self.gap()
        for policy, name in self.names.items():
            command = [os.path.join(self.options.bin, "tutti"), "plan", self.played, "--json", "--policy", policy]
            answer = subprocess.run(command + cost, capture_output=True, text=True, check=False)
            if answer.returncode:
                raise Failed(answer.stderr.strip())
            plan = json.loads(answer.stdout)
            self.planned[name], self.bound = plan["iteration_us"], plan["bound_us"]

    def model(self, rounds, steps):
        """What the model says of these very steps, if they vary."""
        if not self.case.varies():
            return
        words = [os.path.join(self.options.bin, "replay_model")] + self.case.arguments + self.gap()
        words += [self.played, self.nranks, self.line[0], self.line[1], rounds, steps, "bound"] + list(self.names)
        answer = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
        if answer.returncode:
            raise Failed(answer.stderr.strip())
        names = dict(self.names, bound="bound")
        for _, number, policy, us in (line.split() for line in answer.stdout.splitlines()):
            self.modelled[names[policy], int(number)] = float(us)
        numbers = range(1, rounds + 1)
        self.bound = statistics.median(self.modelled["bound", number] for number in numbers)
        for name in self.planned:
            self.planned[name] = statistics.median(self.modelled[name, number] for number in numbers)

    def step_s(self):
        """About what a step of each policy takes together."""
        return sum(self.planned.values()) * 1.1e-6 * self.case.longer

    def play(self, rounds, steps, progress, share):
        """share: (number of this point, of how many)."""
        self.rounds, self.steps_a_round = rounds, steps
        each, seen = (rounds + 1) * len(self.names), set()
        arguments = ["--wire", self.options.wire] if self.options.wire else []
        arguments += ["--together"] if self.options.together else []
        arguments += self.case.arguments
        for words in self.place.lines(arguments + [self.played, WARM, rounds, steps] + list(self.names)):
            name = self.names[words[2]]
            if words[0] == "steps":
                self.steps.setdefault((name, int(words[1])), []).append([float(word) for word in words[4:]])
            elif int(words[1]):
                self.told.setdefault(name, []).append(dict(zip(STATE, map(float, words[3:]))))
            seen.add((words[1], name))
            progress.tell(f"{self.name}: round {words[1]} of {rounds}, after {name}; " +
                          progress.left(share[0] * each + len(seen), share[1] * each))

    # ---- what came out; us ----

    def round_us(self, policy, number):
        """A step of the slowest rank: the median, or the mean where each step is another one."""
        middle = statistics.fmean if self.case.varies() else statistics.median
        return max(middle(steps) for steps in self.steps[policy, number])

    def bound_us(self, number):
        return self.modelled.get(("bound", number), self.bound)

    def iteration(self, policy):
        numbers = range(1, self.rounds + 1)
        if self.case.varies():
            return statistics.median(self.round_us(policy, number) for number in numbers)
        ranks = zip(*(self.steps[policy, number] for number in numbers))
        return max(statistics.median(sum(rank, [])) for rank in ranks)

    def ratio(self, policy, other):
        return statistics.median(self.round_us(policy, number) / self.round_us(other, number)
                                 for number in range(1, self.rounds + 1))

    def over_bound(self, policy):
        return statistics.median(self.round_us(policy, number) / self.bound_us(number)
                                 for number in range(1, self.rounds + 1))

    def state(self, policy):
        """Of the round whose prediction is the median."""
        states = sorted(self.told[policy], key=lambda state: state["predicted_us"])
        return states[(len(states) - 1) // 2]

    def median(self, policy, what):
        return statistics.median(state[what] for state in self.told[policy])

    def error(self, policy):
        return self.state(policy)["predicted_us"] / self.iteration(policy) - 1

    def row(self, policy):
        state, iteration, compute = self.state(policy), self.iteration(policy), self.backward + self.forward
        every = [self.round_us(policy, number) for number in range(1, self.rounds + 1)]
        us = {"iteration_us": iteration, "not_hidden_us": iteration - compute, "predicted_us": state["predicted_us"],
              "planned_us": self.planned[policy], "bound_us": self.bound, "least_round_us": min(every),
              "longest_round_us": max(every),
              "backward_us": self.backward, "forward_us": self.forward,
              "late_us": self.median(policy, "late_us")}
        return {"point": self.net, "case": self.case.name, "ranks": self.nranks,
                "rate": self.options.rate if self.options.hosts else "", "policy": policy,
                **{name: round(value, 1) for name, value in us.items()},
                "over_auto": round(self.ratio(policy, "auto"), 4) if "auto" in self.planned else "",
                "over_bound": round(self.over_bound(policy), 4),
                **{name: int(state[name]) for name in ("groups", "messages", "by_priority", "copied_bytes")},
                "plans": int(self.told[policy][-1]["plans"]),
                "idle": round(self.median(policy, "idle"), 3), "params_factor": self.params,
                "time_factor": self.time, "elements": self.elements, "rounds": self.rounds,
                "steps": self.steps_a_round}

    def head(self):
        return f"{self.name}: {self.elements} parameters (table x {self.params:g}), backward " \
               f"{self.backward / 1000:.1f} ms, forward {self.forward / 1000:.1f} ms (table x {self.time:g}); " \
               f"{self.rounds} rounds of {self.steps_a_round} steps"

    def table_print(self):
        print(f"\n{self.head()}\n{'':20}{'iteration':>10} {'not hidden':>10} {'predicted':>10} {'off':>6} "
              f"{'alone':>9} {'/ auto':>7} {'/ bound':>7} {'messages':>9} {'late':>7} {'idle':>5}")
        for policy in self.planned:
            row = self.row(policy)
            over = f"{row['over_auto']:.3f}" if row["over_auto"] else "-"
            print(f"{policy:20}{row['iteration_us'] / 1000:7.2f} ms {row['not_hidden_us'] / 1000:7.2f} ms "
                  f"{row['predicted_us'] / 1000:7.2f} ms {self.error(policy):+6.1%} {row['planned_us'] / 1000:6.1f} ms "
                  f"{over:>7} {row['over_bound']:7.3f} {row['messages']:8}{'!' if row['by_priority'] else ' '} "
                  f"{row['late_us'] / 1000:4.2f} ms {row['idle']:5.0%}")
        for sentence in self.sentences():
            print(f"  {sentence}")
        sys.stdout.flush()

    def best(self, policies):
        return min(policies, default=None, key=self.iteration)

    def sentences(self):
        """The comparisons that count."""
        least = "nobody who knew these steps would take less than" if self.case.varies() else "no plan takes less than"
        yield f"{least} {self.bound / 1000:.2f} ms, at the costs of \"alone\""
        first = self.best([policy for policy in self.planned if not self.state(policy)["by_priority"]])
        urgent = self.best([policy for policy in self.planned if self.state(policy)["by_priority"]])
        other = self.best([policy for policy in self.planned if policy != "auto"])
        if "auto" in self.planned and other:
            yield f"auto / the best other one ({other}): {1 / self.ratio(other, 'auto'):.3f}"
        if first and urgent:
            yield f"first come, first served ({first}) / by priority ({urgent}): {self.ratio(first, urgent):.3f}"


class Simulated(Point):
    """The same in the model, at the papers' own scale."""
    is_measured = False

    def fit(self, net, gbit, nodes):
        self.nranks = int(nodes[1:]) if nodes else self.nranks
        self.line = self.paper_line(self.nranks, gbit)

    def play(self, rounds, steps, progress, share):
        self.rounds, self.steps_a_round = rounds, steps

    def round_us(self, policy, number):
        return self.modelled.get((policy, number), self.planned[policy])

    def sum_us(self, us_of):
        return sum(us_of(number) for number in range(1, self.rounds + 1))

    def iteration(self, policy):
        return self.sum_us(lambda number: self.round_us(policy, number)) / self.rounds

    def ratio(self, policy, other):
        return self.iteration(policy) / self.iteration(other)

    def over_bound(self, policy):
        return self.iteration(policy) * self.rounds / self.sum_us(self.bound_us)

    def worst(self, policy):
        return max(self.round_us(policy, number) / self.bound_us(number) for number in range(1, self.rounds + 1))

    def row(self, policy):
        return {"point": self.net, "case": self.case.name, "ranks": self.nranks, "policy": policy,
                "iteration_us": round(self.iteration(policy), 1),
                "bound_us": round(self.sum_us(self.bound_us) / self.rounds, 1),
                "over_bound": round(self.over_bound(policy), 4),
                "worst_over_bound": round(self.worst(policy), 4),
                "over_auto": round(self.ratio(policy, "auto"), 4) if "auto" in self.planned else "",
                "rounds": self.rounds, "steps": self.steps_a_round}

    def table_print(self):
        print(f"\n{self.name}: {self.nranks} ranks, a message takes {self.line[0]:.2f} us + "
              f"{self.line[1] * 1000:.3g} ns a byte; {self.rounds} draws of {self.steps_a_round} steps\n"
              f"{'':20}{'iteration':>10} {'/ bound':>8} {'/ auto':>7} {'worst draw / bound':>20}")
        for policy in self.planned:
            row = self.row(policy)
            over = f"{row['over_auto']:.3f}" if row["over_auto"] else "-"
            print(f"{policy:20}{row['iteration_us'] / 1000:7.2f} ms {row['over_bound']:8.4f} {over:>7} "
                  f"{row['worst_over_bound']:20.4f}")
