# SPDX-License-Identifier: BSD-3-Clause
"""What the measuring programs of this folder share: sizes as text, the machine, progress, hosts that are namespaces,
and the measuring of all algorithms by bound_ranks."""
import argparse
import fractions
import json
import os
import re
import select
import signal
import statistics
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
HOSTS = os.path.join(HERE, "hosts")
DRAW = os.path.join(HERE, "..", "tools", "draw")
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
SIZE_MOST = 1 << 50  # as allreduce_perf and its like
MINUTES_MOST = 10000
MIB = 1024 * 1024
CHOSEN = "chosen"  # the library's own choice by predictions, among the algorithms
SETTLED = "settled"  # and after learning


def has_no_reader(stream):
    poll = select.poll()
    poll.register(stream.fileno(), 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def run(main):
    """Ends the program with what main returns; quietly, as if by SIGPIPE, where nobody reads on (`| head`)."""
    try:
        try:
            status = main()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        unread = [stream for stream in (sys.stdout, sys.stderr) if has_no_reader(stream)]
        if not unread:
            raise
        for stream in unread:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # for what is still in its buffer
        status = 128 + signal.SIGPIPE
    sys.exit(status)


# ---- arguments: for argparse's `type`; each refuses with what it takes ----

def refuse(text, wanted):
    raise argparse.ArgumentTypeError(f'"{text}": give {wanted}')


def bytes_of(text):
    """A size as tuttiReadSize takes it, or None: tests/unit/sizes.csv says what both take."""
    words = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(?:[eE]([+-]?[0-9]+))?(?:([KMGkmg])(?:iB)?|B)?", text, re.ASCII)
    if not words:
        return None
    whole, _, part = words[1].partition(".")
    digits, tens = (whole + part).lstrip("0"), int(words[2] or 0) - len(part)
    number = int(digits.rstrip("0") or "0")
    tens += len(digits) - len(digits.rstrip("0"))
    if number == 0 or number >= 10**19 or abs(tens) > 64:
        return 0 if number == 0 else None
    size = fractions.Fraction(number) * fractions.Fraction(10) ** tens * UNITS[(words[3] or "").upper()]
    return int(size) if size.denominator == 1 and size < 2**63 - 1 else None


def size_of(text):
    size = bytes_of(text)
    if size is None or not 4 <= size <= SIZE_MOST:
        refuse(text, f"a whole number of bytes from 4 to {SIZE_MOST}, such as 1024, 64K, 1.5M or 2GiB")
    return size


def words_of(text, read):
    """What `read` makes of each word, with commas or blanks between them."""
    found = [read(word) for word in text.replace(",", " ").split()]
    return found or refuse(text, "one or more, with commas or blanks between them")


def sizes_of(text):
    return sorted({size // 4 * 4 for size in words_of(text, size_of)})


def whole(low, high):
    def read(text):
        if not re.fullmatch("[0-9]{1,9}", text, re.ASCII) or not low <= int(text) <= high:
            refuse(text, f"a whole number from {low} to {high}")
        return int(text)
    return read


def wholes(low, high):
    return lambda text: words_of(text, whole(low, high))


def some_of(*names):
    def read(text):
        return text if text in names else refuse(text, f"some of {', '.join(names)}")
    return lambda text: words_of(text, read)


def decimal(low, high, wanted):
    """From low to high: what `wanted` says in words."""
    def read(text):
        if not re.fullmatch(r"[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?|\.[0-9]+", text, re.ASCII) or \
           not low <= float(text) <= high:
            refuse(text, wanted)
        return float(text)
    return read


minutes_of = decimal(1e-6, MINUTES_MOST, f"a number above 0, at most {MINUTES_MOST}")


def text_of(size):
    for unit, letter in ((1024 * MIB, "G"), (MIB, "M"), (1024, "K")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{letter}"
    return str(size)


def outputs_check(parser, options, *names):
    """Files that are written when all is measured: better now than then."""
    for name in names:
        path = getattr(options, name)
        place = path if path and os.path.exists(path) else os.path.dirname(path or "") or "."
        if path and (os.path.isdir(path) or not os.access(place, os.W_OK)):
            parser.error(f"--{name}: {path} cannot be written: give a file in a folder that is there")


def picture_write(path, **picture):
    """Draws lines or a table: tools/pictures/chart.py says of which data."""
    subprocess.run([sys.executable, DRAW, "-o", path], input=json.dumps(picture), text=True, check=True)


BYTES = {"name": "bytes of a vector", "kind": "bytes"}


def rounds_text(number):
    return f"{number} interleaved round{'s' * (number > 1)}"


def machine_tell():
    """Date, machine, kernel, congestion control and load, as the heads of all tables have them."""
    with open("/proc/cpuinfo") as info:
        model = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), "unknown")
    with open("/proc/sys/net/ipv4/tcp_congestion_control") as file:
        control = file.read().strip()
    ours = os.environ.get("TUTTI_TCP_CONGESTION", "cubic" if control.startswith("bbr") else "")
    control += f" (Tutti: {ours})" if ours else ""
    return f"{time.strftime('%Y-%m-%d')}, {model}, {len(os.sched_getaffinity(0))} cores, Linux {os.uname().release}, " \
           f"{control}, load before: {os.getloadavg()[0]:.1f}"


class Progress:
    """One line on stderr, rewritten where that is a terminal, with the seconds since it was new: those of a
    program that says nothing meanwhile."""

    def __init__(self):
        self.began, self.is_terminal, self.told = time.monotonic(), sys.stderr.isatty(), 0
        self.text, self.since, self.lock = "", 0, threading.Lock()
        if self.is_terminal:
            threading.Thread(target=self.tick, daemon=True).start()

    def tick(self):
        while True:
            time.sleep(1)
            with self.lock:
                seconds = time.monotonic() - self.since
                if self.text and seconds >= 2:
                    print(f"\r{self.text} ({seconds:.0f} s)\033[K", end="", file=sys.stderr, flush=True)

    def elapsed(self):
        return time.monotonic() - self.began

    def left(self, done, total):
        """In words, by how long that much took."""
        if not done:
            return "no estimate yet"
        seconds = self.elapsed() * (total - done) / done
        return f"about {seconds:.0f} s left" if seconds < 120 else f"about {seconds / 60:.0f} min left"

    def tell(self, text):
        now = time.monotonic()
        with self.lock:
            if text != self.text:
                self.since = now
            self.text = text
            if now - self.told < (0.2 if self.is_terminal else 15):
                return
            self.told = now
            print(f"\r{text}\033[K" if self.is_terminal else text, end="" if self.is_terminal else "\n",
                  file=sys.stderr, flush=True)

    def clear(self):
        with self.lock:
            self.text = ""
            if self.is_terminal:
                print("\r\033[K", end="", file=sys.stderr, flush=True)


def hosts_up(name, count, rate):
    """0, or the exit status of perf/hosts, which then said why."""
    return subprocess.run([HOSTS, "up", str(count), "--name", name, "--rate", rate], check=False).returncode


def hosts_down(name):
    subprocess.run([HOSTS, "down", "--name", name], check=False)


# ---- all algorithms ----

def algorithms_find(program, folder, wanted):
    """Of all-reduce, as TUTTI_ALGO names them: all, or those that are wanted."""
    told = subprocess.run([os.path.join(folder, "tutti"), "info"], check=True, capture_output=True, text=True)
    known = next((words[1:] for words in map(str.split, told.stdout.splitlines()) if words[:1] == ["all_reduce"]), [])
    if wanted == "all":
        return known
    names = wanted.replace(",", " ").split()
    for name in names:
        unknown = set(name.split("/")[0].split("+")) - set(known)
        if unknown:
            sys.exit(f"{program}: all_reduce has no algorithm \"{unknown.pop()}\": give all or some of "
                     f"{', '.join(known)}")
    return names


class Points:
    """What bound_ranks saw with one number of ranks."""

    def __init__(self, nranks):
        self.nranks = nranks
        self.limits = []  # [alpha us, beta us/MiB, the same with all links at once], one a round
        self.times = {}   # (algorithm, bytes) -> us, one a round
        self.idle = {}    # the same -> share of the cores' time
        self.illegal = []
        self.learnt = {}  # bytes -> (calls, seconds, 1 if they were enough): of calls that learn

    def take(self, line):
        """Reads a line of bound_ranks; 1 if it tells how far it is."""
        words = line.split()
        if words[0] == "limit":
            self.limits.append([float(word) for word in words[2:]])
        elif words[0] == "illegal":
            self.illegal.append(words[1])
        elif words[0] == "settled":
            self.learnt[int(words[1])] = (int(words[2]), float(words[3]), int(words[4]))
        elif words[0] == "time":
            point = (words[2], int(words[3]))
            self.times.setdefault(point, []).append(float(words[5]))
            self.idle.setdefault(point, []).append(float(words[6]))
        return words[0] in ("time", "settled")

    def measure(self, command, step, more=None):
        """Runs the ranks: step(line) is called for each line that tells how far it is. False if they failed. more:
        variables of their environment."""
        environment = dict(os.environ, **(more or {}))
        environment.setdefault("TUTTI_TIMEOUT_MS", "60000")  # nobody waits half an hour for a rank here
        ranks = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        try:
            for line in ranks.stdout:
                if self.take(line):
                    step(line)
            return ranks.wait() == 0
        finally:
            if ranks.poll() is None:
                ranks.terminate()
                ranks.wait()

    def us(self, algorithm, size):
        return statistics.median(self.times[algorithm, size])

    def sizes(self, algorithm=None):
        return sorted({size for name, size in self.times if algorithm in (None, name)})

    def best(self, size):
        return min((name for name, s in self.times if s == size and name not in (CHOSEN, SETTLED)), default=None,
                   key=lambda name: self.us(name, size))
