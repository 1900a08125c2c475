# SPDX-License-Identifier: BSD-3-Clause
"""The programs of docs/pytorch.md run as they stand, and the package's manual is whole."""
import inspect
import os
import pydoc
import re
import subprocess
import sys
import tempfile
import unittest

import ranks
import tutti.torch


class Page(unittest.TestCase):
    def setUp(self):
        with open(os.path.join(ranks.SOURCE, "docs", "pytorch.md")) as page:
            self.programs = re.findall(r"^```python\n(.*?)^```", page.read(), re.M | re.S)

    def said(self, program, *options, status=0):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write(program)
            file.flush()
            done = subprocess.run([os.path.join(ranks.BINARY, "bin", "tutti"), "run", *options, "--", sys.executable,
                                   file.name], env=ranks.environment(OMP_NUM_THREADS="1"), capture_output=True,
                                  text=True, timeout=400)
        self.assertEqual(done.returncode == 0, status == 0, done.stdout + done.stderr)
        return done.stdout

    def test_programs_run_as_they_stand(self):
        first, training, shrink = self.programs
        said = self.said(first, "-n", "2")
        for rank in range(2):
            self.assertIn(f"[{rank}] rank {rank} of 2: [1.0, 2.0]\n", said)
        said = self.said(training, "-n", "2")
        for rank in range(2):
            self.assertIn(f"[{rank}] rank {rank}: equal weights: True\n", said)
        said = self.said(shrink, "-n", "3", "--keep-going", status=1)
        self.assertEqual(said.count("2 ranks go on\n"), 2, said)
        self.assertRegex(said, "rank 1 .*")

    def test_the_manual_tells_everything_that_is_public(self):
        manual = pydoc.plain(pydoc.render_doc(tutti.torch))
        for name in tutti.torch.__all__:
            thing = getattr(tutti.torch, name)
            self.assertIn(name, manual)
            self.assertTrue(inspect.getdoc(thing), name)


if __name__ == "__main__":
    unittest.main()
