# SPDX-License-Identifier: BSD-3-Clause
"""The small examples in Python do what they say."""
import importlib.util
import os
import unittest

import ranks


def said_by(test, name, **variables):
    with open(os.path.join(ranks.SOURCE, "examples", "small", name)) as file:
        return ranks.said_by(test, file.read(), "-n", "2", **variables)


class Examples(unittest.TestCase):
    @unittest.skipIf(importlib.util.find_spec("numpy") is None, "there is no numpy")
    def test_numpy(self):
        text = said_by(self, "regression.py", OPENBLAS_NUM_THREADS="1")
        for rank in range(2):
            self.assertIn(f"[{rank}] rank {rank} of 2: weights [1. 2. 3. 4. 5.], the same on all: True, loss ", text)

    @unittest.skipIf(importlib.util.find_spec("torch") is None, "there is no torch")
    def test_torch(self):
        text = said_by(self, "ddp.py", OMP_NUM_THREADS="1")
        for rank in range(2):
            self.assertIn(f"[{rank}] rank {rank} of 2: loss halved: True, equal weights: True\n", text)


if __name__ == "__main__":
    unittest.main()
