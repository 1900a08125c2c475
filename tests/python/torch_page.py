# SPDX-License-Identifier: BSD-3-Clause
"""The programs of docs/pytorch.md and docs/from-gloo.md run as they stand, and the package's manual is whole."""
import inspect
import pydoc
import re
import unittest

import ranks
import tutti.torch


class Page(unittest.TestCase):
    OWN_WAY = """if True:
        import os
        import torch
        import torch.distributed as dist
        import tutti.torch
        dist.init_process_group("gloo")
        sums = []
        for group in None, dist.new_group(backend="tutti"):
            x = torch.ones(1, dtype=torch.int64)
            dist.all_reduce(x, group=group)
            sums.append(x.item())
        print(f"rank {dist.get_rank()} of {dist.get_world_size()}, {os.environ['LOCAL_RANK']} here: "
              f"gloo {sums[0]}, tutti {sums[1]}")
        dist.destroy_process_group()
        """

    def said(self, programs, *options, status=0, **variables):
        """Of programs that end their groups, one after the other in the same ranks: torch takes long to load."""
        joined = "\n".join(f"exec(compile({text!r}, 'page', 'exec'), {{'__name__': '__main__'}})" for text in programs)
        return ranks.said_by(self, joined, *options, status=status, OMP_NUM_THREADS="1", **variables)

    def test_programs_run_as_they_stand_and_meet_by_the_variables_of_torchrun_too(self):
        first, training, quorum, buckets, shrink = ranks.page_programs("docs", "pytorch.md")
        change, = ranks.page_programs("docs", "from-gloo.md")
        for program in first, training, quorum, buckets, shrink, change:
            self.assertIn("import tutti.torch\n", program)  # an earlier one's would do
        change += "dist.barrier()\ndist.destroy_process_group()\n"
        every = quorum.replace(", quorum=max(1, size - 1)", "")
        text = self.said([change, first, training, every, buckets, self.OWN_WAY], "-n", "2", USE_LIBUV="0")
        for rank in range(2):
            self.assertIn(f"[{rank}] rank {rank} of 2: [1.0, 2.0]\n", text)
            self.assertIn(f"[{rank}] rank {rank}: equal weights: True\n", text)
            self.assertRegex(text, rf"\[{rank}\] rank {rank}: 200 updates, error 0\.0000\d\d\n")
            self.assertIn(f"[{rank}] rank {rank}: buckets for 0.920 MiB\n", text)
            self.assertIn(f"[{rank}] rank {rank} of 2, {rank} here: gloo 2, tutti 2\n", text)
        self.quorum_is_reached(self.said([first, quorum], "-n", "1"), 1)
        text = self.said([quorum, shrink], "-n", "3", "--keep-going", status=1)
        self.quorum_is_reached(text, 3)
        self.assertEqual(text.count("2 ranks go on\n"), 2, text)
        self.assertRegex(text, "rank 1 .*")

    def quorum_is_reached(self, text, size):
        self.assertEqual(len(set(re.findall(r"rank \d: (200 updates, error 0\.0000\d\d)\n", text))), 1, text)
        self.assertEqual(len(re.findall(r"rank \d: 200 updates, ", text)), size, text)
        self.assertEqual("rank 0 of 1: [0.0, 1.0]\n" in text, size == 1, text)

    def test_the_manual_tells_everything_that_is_public(self):
        manual = pydoc.plain(pydoc.render_doc(tutti.torch))
        for name in tutti.torch.__all__:
            thing = getattr(tutti.torch, name)
            self.assertIn(name, manual)
            self.assertTrue(inspect.getdoc(thing), name)


if __name__ == "__main__":
    unittest.main()
