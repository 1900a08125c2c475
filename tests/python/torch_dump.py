# SPDX-License-Identifier: BSD-3-Clause
"""torch's own analyzer of flight recorder dumps reads those of TUTTI_DUMP, and names the rank that was missing."""
import contextlib
import io
import json
import logging
import os
import subprocess
import sys
import tempfile
import unittest

import ranks

try:
    from torch.distributed.flight_recorder import fr_trace
except ImportError:
    print("skipped: this torch has no torch.distributed.flight_recorder")
    sys.exit(77)

# All collectives, then one that rank 2 is late for: the others end it by their time limit.
PROGRAM = """
import array, sys, time
import tutti

def floats(n):
    return array.array("f", [1] * n)

comm = tutti.init()
n, rank = comm.size, comm.rank
comm.split(0).close()
comm.barrier()
comm.all_reduce(floats(5))
comm.reduce(floats(5), 1)
comm.broadcast(floats(5), 1)
comm.all_gather(floats(2), floats(2 * n))
comm.reduce_scatter(floats(2 * n), floats(2))
comm.all_to_all(floats(2 * n), floats(2 * n))
comm.gather(floats(2), floats(2 * n), 1)
comm.scatter(floats(2 * n), floats(2), 1)
comm.all_gather(floats(rank), floats(3), counts=[0, 1, 2])
if sys.argv[1] == "late" and rank == 2:
    time.sleep(1.5)
    comm.close()
    sys.exit(0)
other = 1 if sys.argv[1] == "unlike" and rank == 2 else 0
try:
    comm.all_reduce(floats(7 + other))
except tutti.TuttiError as error:
    print(error, flush=True)
comm.abort()
"""


class Analyzer(unittest.TestCase):
    def analyzed(self, how):
        """What the ranks said, the reason in each dump, and what the analyzer says of the dumps."""
        with tempfile.TemporaryDirectory() as folder:
            job = [os.path.join(ranks.BINARY, "bin", "tutti"), "run", "-n", "3", "--grace", "30", "--", sys.executable,
                   "-c", PROGRAM, how]
            said = subprocess.run(job, env=ranks.environment(TUTTI_DUMP=os.path.join(folder, "dump.%r.json"),
                                                             TUTTI_TIMEOUT_MS="300"), capture_output=True, text=True,
                                  timeout=100, check=False)
            names = [os.path.join(folder, f"dump.{rank}.json") for rank in range(3)]
            reasons = []
            for name in names:
                with open(name, encoding="ascii") as file:
                    reasons.append(json.load(file)["failure"])
            flight = os.path.join(folder, "flight")
            converter, = ranks.page_programs("docs", "status-of-a-job.md")
            subprocess.run([sys.executable, "-c", converter, *names], cwd=folder, check=True, timeout=100)
            told = io.StringIO()
            handler = logging.StreamHandler(told)
            logging.getLogger("Flight Recorder").addHandler(handler)
            try:
                with contextlib.redirect_stdout(told):
                    fr_trace.main([flight])
            finally:
                logging.getLogger("Flight Recorder").removeHandler(handler)
        return said.stdout + said.stderr, reasons, told.getvalue()

    def test_a_rank_that_is_missing_is_named_by_both(self):
        said, reasons, told = self.analyzed("late")
        self.assertRegex(reasons[0], "rank 2 ")
        self.assertIn("Not all ranks joining collective, sequence number: 12\n", told, said)
        self.assertIn("missing ranks: {2}", told)
        self.assertEqual(told.count("collective: nccl:"), 1)

    def test_so_is_a_call_of_another_count(self):
        said, reasons, told = self.analyzed("unlike")
        self.assertRegex(reasons[0], "calls differ between ranks: ")
        self.assertIn("Collective sequence number: 12 has errors\n", told, said)
        self.assertRegex(told, r"SIZE_OR_SYNTAX_MISMATCH, .*\[\[[78]\]\].* does not match .*\[\[[78]\]\]")


if __name__ == "__main__":
    unittest.main()
