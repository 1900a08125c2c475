# SPDX-License-Identifier: BSD-3-Clause
"""Ranks for the tests of the package: processes under `tutti run`, or threads of this process; and encoded numbers."""
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

import tutti

BINARY = os.environ["TESTED_BINARY"]
SOURCE = os.environ["TESTED_SOURCE"]
PROGRAM = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='ranks_of_a_test')[sys.argv[2]]()"


def environment(**changes):
    """This process's environment, without a folder of measurements."""
    return {**os.environ, "TUTTI_CACHE": "none", "PYTHONUNBUFFERED": "1", **changes}


def alone(file, function, limit, **variables):
    """Runs function() of a test file in a process without a launcher, which must end within `limit` seconds."""
    return subprocess.run([sys.executable, "-c", PROGRAM, file, function], env=environment(**variables),
                          capture_output=True, text=True, timeout=limit)


def processes(size, file, function, *options, **variables):
    """Runs function(comm) of a test file in `size` ranks; returns what `tutti run` ended with and said."""
    command = [os.path.join(BINARY, "bin", "tutti"), "run", "-n", str(size), *options, "--", sys.executable, "-c",
               PROGRAM, file, function]
    return subprocess.run(command, env=environment(**variables), capture_output=True, text=True, timeout=400)


def page_programs(*path):
    """The programs of a page, in its order."""
    with open(os.path.join(SOURCE, *path)) as page:
        return re.findall(r"^```python\n(.*?)^```", page.read(), re.M | re.S)


def said_by(test, program, *options, status=0, **variables):
    """What a program of a page writes under `tutti run`, which ends with status 0, or with another one if asked so."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(program)
        file.flush()
        done = subprocess.run([os.path.join(BINARY, "bin", "tutti"), "run", *options, "--", sys.executable, file.name],
                              env=environment(**variables), capture_output=True, text=True, timeout=400)
    test.assertEqual(done.returncode == 0, status == 0, done.stdout + done.stderr)
    return done.stdout


def succeed(test, size, file, function, *options, **variables):
    """The function returns on all ranks."""
    done = processes(size, file, function, *options, **variables)
    test.assertEqual(done.returncode, 0, f"{size} ranks, {function}:\n{done.stdout}{done.stderr}")
    return done


def threads(size, body, **options):
    """Calls body(comm) in `size` threads, one a rank; raises the first exception of one."""
    unique, wrong = tutti.unique_id(), []

    def rank(number):
        try:
            with tutti.init(id=unique, rank=number, size=size, **options) as comm:
                body(comm)
        except BaseException as why:  # told by the caller
            wrong.append(why)

    all_of_them = [threading.Thread(target=rank, args=(number,)) for number in range(size)]
    for thread in all_of_them:
        thread.start()
    for thread in all_of_them:
        thread.join()
    if wrong:
        raise wrong[0]


def once_inside(name, *functions):
    """Another thread, returned, calls the functions when this one has been in the package's function `name` for a
    while."""
    waiter = threading.get_ident()

    def look():
        while sys._current_frames()[waiter].f_code.co_name != name:
            time.sleep(0.01)
        time.sleep(0.05)
        for function in functions:
            function()
    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    return thread


def interrupted_at(stop, names, function, *arguments):
    """Calls the function; a KeyboardInterrupt comes before the stop-th line in functions with these names. Whether it
    came. (At the line of a `with`, where a real one does not come, it would leave a lock held.)"""
    lines = 0

    def trace(frame, event, _):
        nonlocal lines
        if frame.f_code.co_name not in names:
            return None
        lines += event == "line"
        if event == "line" and lines == stop:
            raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        function(*arguments)
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False


_FORMATS = {"int8": "b", "uint8": "B", "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q", "float32": "f",
            "float64": "d", "int16": "h", "uint16": "H"}
_SMALL = {"float16": (10, 15, "H"), "bfloat16": (7, 127, "H"), "float8_e4m3fn": (3, 7, "B"),
          "float8_e5m2": (2, 15, "B")}  # bits of the fraction, bias of the exponent


def _bits(value, mantissa, bias):
    """A number that has exact bits in a small float."""
    if value == 0:
        return 0
    exponent = 0
    while value >= 2:
        value, exponent = value / 2, exponent + 1
    fraction = (value - 1) * 2**mantissa
    assert fraction == int(fraction)
    return ((exponent + bias) << mantissa) + int(fraction)


def _number(bits, mantissa, bias):
    if bits == 0:
        return 0
    return (1 + (bits & (2**mantissa - 1)) / 2**mantissa) * 2.0**((bits >> mantissa) - bias)


# The types of numbers; the others are bool and complex.
NUMBERS = [name for name in tutti.TYPES if name in _FORMATS or name in _SMALL]


class Numbers:
    """A type of elements: memory with given numbers, and the numbers in memory, without numpy."""

    def __init__(self, name):
        self.name, self.small = name, _SMALL.get(name)
        self.is_float = "float" in name
        self.format = self.small[2] if self.small else _FORMATS[name]

    def make(self, values):
        """A memoryview of a new bytearray; call with dtype=self.dtype."""
        values = list(values)
        size = {"b": 1, "B": 1, "h": 2, "H": 2}.get(self.format, 4 if self.format in "iIf" else 8)
        view = memoryview(bytearray(size * len(values))).cast(self.format)
        for i, value in enumerate(values):
            view[i] = _bits(value, *self.small[:2]) if self.small else value
        return view

    def read(self, view):
        return [_number(bits, *self.small[:2]) for bits in view] if self.small else list(view)

    @property
    def dtype(self):
        """For dtype= of a call: None where the memoryview says it itself."""
        return self.name if self.small else None
