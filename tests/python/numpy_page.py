# SPDX-License-Identifier: BSD-3-Clause
"""The programs of docs/numpy.md run as they stand, and what the page says of arrays holds."""
import importlib.util
import unittest

import ranks
import tutti


@unittest.skipIf(importlib.util.find_spec("numpy") is None, "there is no numpy")
class Page(unittest.TestCase):
    def setUp(self):
        self.programs = ranks.page_programs("docs", "numpy.md")

    def test_first_steps(self):
        text = ranks.said_by(self, self.programs[0], "-n", "3")
        for rank in range(3):
            self.assertIn(f"[{rank}] rank {rank} of 3: [3.0, 3.0]\n", text)
            self.assertIn(f"[{rank}] rank {rank}: 3 8 50\n", text)
        self.assertIn("[0] rank 0 of 1: [0.0, 1.0]\n", ranks.said_by(self, self.programs[0], "-n", "1"))

    def test_data_in_shares(self):
        text = ranks.said_by(self, self.programs[1], "-n", "2", OPENBLAS_NUM_THREADS="1")
        self.assertEqual(text.count("2 ranks, weights found: True\n"), 2, text)

    def test_the_rest_goes_on(self):
        text = ranks.said_by(self, self.programs[2], "-n", "4", "--keep-going", status=1)
        self.assertEqual(text.count("3 ranks have done 10 steps\n"), 3, text)
        self.assertEqual(len(self.programs), 3)

    def test_arrays_are_refused_by_name(self):
        import numpy as np
        with tutti.init() as comm:
            for x, why in ((np.zeros((3, 2)).T, "contiguous"), (np.zeros((3, 2))[:, 0], "contiguous"),
                           (np.array([None]), "object"), (np.zeros(3, ">f4"), "byte-swapped")):
                with self.assertRaisesRegex(tutti.TuttiArgumentError, why):
                    comm.all_reduce(x)
            x = np.arange(12.0).reshape(6, 2)
            self.assertIsInstance(comm.all_reduce(x[2:5]), np.ndarray)
            comm.all_reduce(np.zeros(2, np.uint16), dtype="bfloat16")


if __name__ == "__main__":
    unittest.main()
