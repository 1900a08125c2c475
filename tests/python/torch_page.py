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

    def test_programs_run_as_they_stand(self):
        def said(programs, *options, status=0):
            """Of programs that end their groups, one after the other in the same ranks: torch takes long to load."""
            joined = "\n".join(f"exec(compile({text!r}, 'page', 'exec'), {{'__name__': '__main__'}})"
                               for text in programs)
            return ranks.said_by(self, joined, *options, status=status, OMP_NUM_THREADS="1")
        first, training, quorum, buckets, shrink = ranks.page_programs("docs", "pytorch.md")
        text = said([first, training, quorum.replace(", quorum=max(1, size - 1)", ""), buckets], "-n", "2")
        for rank in range(2):
            self.assertIn(f"[{rank}] rank {rank} of 2: [1.0, 2.0]\n", text)
            self.assertIn(f"[{rank}] rank {rank}: equal weights: True\n", text)
            self.assertRegex(text, rf"\[{rank}\] rank {rank}: 200 updates, error 0\.0000\d\d\n")
            self.assertIn(f"[{rank}] rank {rank}: buckets for 0.920 MiB\n", text)
        for size, programs in (1, [first, quorum]), (3, [quorum]):
            text = said(programs, "-n", str(size))
            self.assertEqual(len(set(re.findall(r"rank \d: (200 updates, error 0\.0000\d\d)\n", text))), 1, text)
            self.assertEqual(len(re.findall(r"rank \d: ", text)), size, text)
            self.assertEqual("rank 0 of 1: [0.0, 1.0]\n" in text, first in programs, text)
        text = said([shrink], "-n", "3", "--keep-going", status=1)
        self.assertEqual(text.count("2 ranks go on\n"), 2, text)
        self.assertRegex(text, "rank 1 .*")

    def test_the_change_from_gloo(self):
        change, = ranks.page_programs("docs", "from-gloo.md")
        ranks.said_by(self, change + "dist.barrier()\ndist.destroy_process_group()\n", "-n", "2")

    def test_under_tutti_run_ranks_also_meet_by_the_variables_of_torchrun(self):
        text = ranks.said_by(self, self.OWN_WAY, "-n", "2", OMP_NUM_THREADS="1", USE_LIBUV="0")
        for rank in range(2):
            self.assertIn(f"[{rank}] rank {rank} of 2, {rank} here: gloo 2, tutti 2\n", text)

    def test_the_manual_tells_everything_that_is_public(self):
        manual = pydoc.plain(pydoc.render_doc(tutti.torch))
        for name in tutti.torch.__all__:
            thing = getattr(tutti.torch, name)
            self.assertIn(name, manual)
            self.assertTrue(inspect.getdoc(thing), name)


if __name__ == "__main__":
    unittest.main()
