# SPDX-License-Identifier: BSD-3-Clause
"""What the measuring programs of this folder share: sizes as text, the machine, progress, hosts that are namespaces,
and the measuring of all algorithms by bound_ranks."""
import argparse
import os
import re
import select
import signal
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
HOSTS = os.path.join(HERE, "hosts")
MIB = 1024 * 1024
CHOSEN = "chosen"  # the library's own choice, among the algorithms


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


def size_of(text):
    units = {"": 1, "K": 1024, "M": MIB, "G": 1024 * MIB}
    words = re.fullmatch(r"([0-9]+)|([0-9]+(?:\.[0-9]+)?)([KMG])(?:iB)?", text, re.IGNORECASE)
    size = int(words[1] or float(words[2]) * units[words[3].upper()]) if words else 0
    if size < 4:
        raise argparse.ArgumentTypeError(f'"{text}" is no size: give 4 bytes or more, as 1024, 64K or 16M')
    return size


def sizes_of(text):
    return sorted({size_of(word) // 4 * 4 for word in text.replace(",", " ").split()})


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


def rounds_text(number):
    return f"{number} interleaved round{'s' * (number > 1)}"


def machine_tell():
    """Date, machine, kernel, congestion control and load, as the heads of all tables have them."""
    with open("/proc/cpuinfo") as info:
        model = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), "unknown")
    with open("/proc/sys/net/ipv4/tcp_congestion_control") as file:
        control = file.read().strip()
    ours = os.environ.get("TUTTI_TCP_CONGESTION")
    control += f" (Tutti: {ours})" if ours else ""
    return f"{time.strftime('%Y-%m-%d')}, {model}, {len(os.sched_getaffinity(0))} cores, Linux {os.uname().release}, " \
           f"{control}, load before: {os.getloadavg()[0]:.1f}"


class Progress:
    """One line on stderr, rewritten where that is a terminal."""

    def __init__(self):
        self.began, self.is_terminal, self.told = time.monotonic(), sys.stderr.isatty(), 0

    def elapsed(self):
        return time.monotonic() - self.began

    def tell(self, text):
        now = time.monotonic()
        if now - self.told < (0.2 if self.is_terminal else 15):
            return
        self.told = now
        print(f"\r{text:<100}" if self.is_terminal else text, end="" if self.is_terminal else "\n", file=sys.stderr,
              flush=True)

    def clear(self):
        if self.is_terminal:
            print("\r" + " " * 100 + "\r", end="", file=sys.stderr, flush=True)


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

    def take(self, line):
        """Reads a line of bound_ranks; 1 if it was a measurement."""
        words = line.split()
        if words[0] == "limit":
            self.limits.append([float(word) for word in words[2:]])
        elif words[0] == "illegal":
            self.illegal.append(words[1])
        elif words[0] == "time":
            point = (words[2], int(words[3]))
            self.times.setdefault(point, []).append(float(words[5]))
            self.idle.setdefault(point, []).append(float(words[6]))
        return words[0] == "time"

    def measure(self, command, step):
        """Runs the ranks: step(line) is called for each measurement. False if they failed."""
        environment = dict(os.environ)
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
        return min((name for name, s in self.times if s == size and name != CHOSEN), default=None,
                   key=lambda name: self.us(name, size))
