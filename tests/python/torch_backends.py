# SPDX-License-Identifier: BSD-3-Clause
"""The ways by which versions of torch find and take a backend: what this version lacks is skipped."""
import gc
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import torch
import torch.distributed as dist

import ranks
import tutti
import tutti.torch
from torch_ranks import run, values

BY_NAME = hasattr(dist.Backend, "_ensure_backend_registered")


class EntryPoint(unittest.TestCase):
    PROGRAM = """if True:
        import sys, torch, torch.distributed as dist
        dist.init_process_group("tutti", store=dist.HashStore(), rank=0, world_size=1)
        x = torch.ones(2)
        dist.all_reduce(x)
        dist.destroy_process_group()
        print(x.tolist(), dist.is_backend_available("tutti"), "tutti.torch" in sys.modules)
        """

    def installed(self, folder):
        """The package as pip leaves it: beside it are the facts of its project."""
        sys.path.insert(0, os.path.join(ranks.SOURCE, "python"))
        import build_tutti
        os.symlink(os.path.join(ranks.BINARY, "python", "tutti"), os.path.join(folder, "tutti"))
        facts = os.path.join(folder, f"tutti-{tutti.__version__}.dist-info")
        os.mkdir(facts)
        for name, text in (("METADATA", build_tutti._metadata()), ("entry_points.txt", build_tutti._entry_points())):
            with open(os.path.join(facts, name), "w") as file:
                file.write(text)

    @unittest.skipUnless(BY_NAME, "this torch does not look for backends")
    def test_the_name_is_enough(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        self.installed(folder)
        done = subprocess.run([sys.executable, "-c", self.PROGRAM], capture_output=True, text=True,
                              env=ranks.environment(PYTHONPATH=folder, TUTTI_LIBRARY=tutti.LIBRARY))
        self.assertEqual(done.stdout, "[1.0, 1.0] True True\n", done.stderr)

    def test_registering_again_changes_nothing(self):
        before = dist.Backend._plugins["TUTTI"]
        tutti.torch.register()
        self.assertIs(dist.Backend._plugins["TUTTI"], before)


class Classes(unittest.TestCase):
    def test_a_group_of_this_backend_alone_tells_all(self):
        def body(rank):
            group = dist.distributed_c10d._get_default_group()
            backend = group._get_backend(torch.device("cpu")) if hasattr(group, "_get_backend") else group
            assert type(backend) is tutti.torch.ProcessGroup, type(backend)
            assert dist.get_backend() == "tutti" and dist.get_rank() == rank == backend.rank()
            assert backend.size() == dist.get_world_size() == 2
        run(2, body)

    @unittest.skipUnless(hasattr(dist.ProcessGroup, "_get_backend"), "in this torch a group has one backend")
    def test_it_stands_beside_a_group_that_has_nothing_for_the_host(self):
        def body(rank):
            group, x = dist.new_group(backend="tutti"), torch.ones(1)
            dist.all_reduce(x, group=group)
            assert x.item() == 2
            try:
                tutti.torch.monitored_barrier()
            except tutti.TuttiArgumentError as why:
                assert "must be a process group of the backend tutti" in str(why), why
            else:
                raise AssertionError("the default group was taken")
        run(2, body, "cuda:gloo")

    @unittest.skipIf(tutti.torch.Backend is None, "in this torch only process groups can be written in Python")
    def test_it_stands_beside_another_backend_in_one_group(self):
        def body(rank):
            from torch.testing._internal.distributed import fake_pg  # noqa: F401 (makes its name known)
            dist.destroy_process_group()
            store = dist.FileStore(os.path.join(folder, "mixed"), 2)
            dist.init_process_group("cpu:tutti,meta:fake", store=store, rank=rank, world_size=2)
            x = values(rank, 9)
            dist.all_reduce(x)
            total = values(0, 9) + values(1, 9)
            assert torch.equal(x, total)
            work = dist.all_reduce(x, async_op=True)
            assert work.wait() and work.get_future().done() and torch.equal(x, 2 * total)
            gc.collect()
            part = dist.new_group([0, 1], backend="cpu:tutti,meta:fake")
            gc.collect()
            said = [None, None]
            dist.all_gather_object(said, rank, group=part)
            assert said == [0, 1]
            y = torch.zeros(9)
            batch = [dist.P2POp(dist.isend, x, 1 - rank), dist.P2POp(dist.irecv, y, 1 - rank)]
            for work in dist.batch_isend_irecv(batch):
                work.wait()
            assert torch.equal(x, y)
            assert tutti.torch.shrink(exclude=[1]).size() == 1 if rank == 0 else True
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        run(2, body)


if __name__ == "__main__":
    unittest.main()
