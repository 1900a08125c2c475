# SPDX-License-Identifier: BSD-3-Clause
"""A dead rank, a late rank, calls that differ: each raises on the others with a sentence that names it; those that are
left go on; torchrun starts all of them again."""
import glob
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist

import ranks
import tutti
import tutti.torch
from torch_ranks import die, run
from tutti.torch import _rendezvous
from tutti.torch._group import _create, found
from tutti.torch._rendezvous import _store, share_store


def raised(kind, call):
    """The sentence that a call raises."""
    try:
        call()
    except kind as why:
        return str(why)
    raise AssertionError("nothing was raised")


class Deaths(unittest.TestCase):
    def test_a_dead_rank_is_named_by_every_kind_of_call_and_the_rest_goes_on(self):
        def body(rank):
            x = torch.ones(4)
            dist.all_reduce(x)
            if rank == 1:
                die()
            work, future = dist.all_reduce(x, async_op=True), dist.all_reduce(x, async_op=True).get_future()
            said = [raised(tutti.TuttiRemoteError, work.wait), raised(RuntimeError, future.wait),
                    raised(tutti.TuttiRemoteError, lambda: dist.all_reduce(x)),
                    raised(tutti.TuttiRemoteError, lambda: dist.recv(x, 1)),
                    raised(tutti.TuttiRemoteError, tutti.torch.monitored_barrier)]
            for sentence in said:
                assert "rank 1" in sentence, sentence
            group = tutti.torch.shrink()
            y = torch.ones(1)
            dist.all_reduce(y, group=group)
            dist.broadcast(y, 2, group=group)
            assert y.item() == 2 and dist.get_world_size(group) == 2
            if rank == 0:
                dist.send(y, 2, group=group)
            else:
                dist.recv(y, 0, group=group)
            dist.destroy_process_group(group)
        run(3, body, dies=[1])

    def test_the_rest_goes_on_when_the_rank_that_held_the_store_is_dead(self):
        def body(rank):
            number, timeout = dist.distributed_c10d._get_default_store(), timedelta(seconds=60)
            if rank == 0:
                store = _store("127.0.0.1", 0, 4, True, timeout)
                number.set("port", str(store.port))
            else:
                store = _store("127.0.0.1", int(number.get("port")), 4, False, timeout)
            dist.destroy_process_group()
            dist.init_process_group("tutti", store=store, rank=rank, world_size=4, timeout=timeout)
            x, group = torch.ones(1), None
            dist.barrier()
            for dead in (0, 1):
                if rank == dead:
                    die()
                raised(tutti.TuttiRemoteError, lambda: [dist.all_reduce(x, group=group) for _ in range(9)])
                group = tutti.torch.shrink(group)
                tutti.torch.monitored_barrier(group)
                for tag in (0, 1):
                    y = torch.full((1,), float(rank))
                    if rank == 2:
                        dist.send(y, 3, group=group, tag=tag)
                    elif rank == 3:
                        dist.recv(y, 2, group=group, tag=tag)
                        assert y.item() == 2
                dist.barrier(group=group)
            y = torch.ones(1)
            dist.all_reduce(y, group=group)
            assert y.item() == 2
        run(4, body, dies=[0, 1])

    def test_a_new_group_is_not_waited_for_whose_member_is_dead(self):
        def body(rank):
            if rank == 0:
                die()
            sentence = raised(tutti.TuttiRemoteError, lambda: dist.new_group([0, 1, 2]))
            assert "rank 0 has failed or left" in sentence, sentence
        run(3, body, dies=[0])

    def test_a_thread_that_waits_for_a_message_ends_when_the_group_is_aborted(self):
        def body(rank):
            x, store, said = torch.zeros(1), dist.distributed_c10d._get_default_store(), []
            if rank == 0:
                dist.recv(x, 1)
                thread = threading.Thread(target=lambda: said.append(raised(tutti.TuttiError, lambda: dist.recv(x, 1))))
                thread.start()
                time.sleep(0.1)  # most likely it waits by now
                dist.group.WORLD.abort()
                thread.join()
                assert len(said) == 1
                store.set("done", "1")
            else:
                dist.send(x, 0)
                store.wait(["done"])
        run(2, body)

    def test_a_rank_that_dies_before_its_first_message_is_named(self):
        def body(rank):
            if rank == 1:
                die()
            for call in (lambda: dist.recv(torch.zeros(1), 1), lambda: dist.send(torch.zeros(1), 1),
                         dist.irecv(torch.zeros(1), 1, tag=1).wait):
                assert "rank 1 " in raised(tutti.TuttiRemoteError, call)
        run(2, body, dies=[1])

    def test_the_backward_pass_of_ddp_raises(self):
        def body(rank):
            model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
            model(torch.ones(2)).sum().backward()
            if rank == 1:
                die()
            loss = model(torch.ones(2)).sum()
            assert "rank 1" in raised(RuntimeError, loss.backward)
        run(2, body, dies=[1])


class Lateness(unittest.TestCase):
    def test_a_late_rank_is_an_error_after_the_group_s_timeout(self):
        def body(rank):
            store = dist.distributed_c10d._get_default_store()
            if rank == 0:
                sentence = raised(tutti.TuttiRemoteError, lambda: dist.all_reduce(torch.ones(1)))
                assert "rank 1" in sentence, sentence
                store.set("over", "1")
            else:
                store.wait(["over"])
        run(2, body, timeout=timedelta(milliseconds=300), pg_options={"init_timeout_ms": 60000})

    def test_a_new_group_is_waited_for_no_longer_than_its_timeout(self):
        def body(rank):
            store = dist.distributed_c10d._get_default_store()
            if rank == 1:
                sentence = raised(tutti.TuttiRemoteError, lambda: dist.new_group(timeout=timedelta(milliseconds=200)))
                assert "was not made in 0.2 s" in sentence, sentence
                store.set("over", "1")
            else:
                store.wait(["over"])
        run(2, body)

    def test_the_monitored_barrier_names_all_that_are_missing(self):
        def body(rank):
            tutti.torch.monitored_barrier()
            if rank in (1, 3):
                dist.distributed_c10d._get_default_store().wait(["over"])
                return
            sentence = raised(tutti.TuttiRemoteError,
                              lambda: tutti.torch.monitored_barrier(timeout=timedelta(milliseconds=200)))
            assert sentence == "monitored barrier: ranks 1 and 3 did not come in 0.2 s", sentence
            dist.distributed_c10d._get_default_store().set("over", "1")
        run(4, body)


class Again(unittest.TestCase):
    @unittest.skipIf(torch.__version__.startswith("1."), "torch 1 counts the ranks of both groups as those of one")
    def test_a_store_serves_one_group_after_another(self):
        with tempfile.TemporaryDirectory() as folder:
            def body(rank):
                dist.destroy_process_group()
                store = dist.FileStore(os.path.join(folder, "again"), 2)
                for turn in range(3):
                    dist.init_process_group("tutti", store=store, rank=rank, world_size=2,
                                            timeout=timedelta(seconds=60))
                    x, y = torch.full((1,), float(rank + turn)), torch.zeros(1)
                    dist.all_reduce(x)
                    tutti.torch.monitored_barrier()
                    part = dist.new_group([0, 1])
                    for group in (None, part):
                        works = [dist.isend(x + turn, 1 - rank, group=group), dist.irecv(y, 1 - rank, group=group)]
                        for work in works:
                            work.wait()
                        assert y.item() == 1 + 3 * turn, (turn, y)
                    if turn < 2:
                        dist.destroy_process_group()
            run(2, body)


    def test_after_an_attempt_that_failed_the_ranks_meet_in_the_next_one(self):
        def body(_):
            store, made = dist.HashStore(), {}

            def create(rank, patience=60):
                made[rank] = _create(types.SimpleNamespace(
                    group_rank=rank, group_size=2, timeout=timedelta(seconds=patience), group_id="again",
                    global_ranks_in_group=[], store=store))
            assert "within 0.2 s" in raised(tutti.TuttiRemoteError, lambda: create(0, 0.2))
            other = threading.Thread(target=create, args=(1,))
            other.start()
            time.sleep(0.1)  # most likely it has looked for the id by now
            create(0)
            other.join()
            assert sorted(made) == [0, 1]
            for group in made.values():
                group.abort()
        run(1, body)  # a parent that has used the library could fork no more ranks

    def test_a_store_is_reached_from_hosts_that_do_not_know_the_name(self):
        def body(rank):
            _rendezvous._network = lambda: f"of-{rank}"
            socket.gethostname = lambda: "no-such-host.invalid"
            store = share_store(found(None)._comm, timedelta(seconds=20))
            assert store.add("ranks", 1) <= 2
            dist.barrier()
            assert store.add("ranks", 0) == 2
            dist.barrier()
        run(2, body)


class Differences(unittest.TestCase):
    def test_calls_that_differ_are_both_told(self):
        def body(rank):
            sentence = raised(tutti.TuttiUsageError, lambda: dist.all_reduce(torch.ones(2 + rank)))
            assert all(part in sentence for part in ("rank 0", "rank 1", "count 2", "count 3")), sentence
        run(2, body)


# The torchrun of 1.13 fails with Python 3.11 where it has to find out that nothing is redirected.
LOGS = ["--redirects", "1", "--tee", "1", "--log_dir"]


def elastic(folder):
    """A worker: in the first round of the job rank 1 dies in the middle."""
    dist.init_process_group("tutti")
    rank, is_first = dist.get_rank(), os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    for step in range(3):
        x = torch.ones(2)
        if is_first and rank == 1 and step == 1:
            die()
        try:
            dist.all_reduce(x)
        except tutti.TuttiRemoteError as why:
            with open(os.path.join(folder, f"told{rank}"), "w") as file:
                file.write(str(why))
            raise
        assert x.tolist() == [2, 2]
    with open(os.path.join(folder, f"done{rank}"), "w") as file:
        file.write(os.environ["TORCHELASTIC_RESTART_COUNT"])


def has_libuv():
    """Whether torch has what its torchrun needs in newer versions."""
    try:
        dist.TCPStore("127.0.0.1", 0, 1, True, wait_for_workers=False)
    except RuntimeError as why:
        return "libuv" not in str(why)
    return True


class Elastic(unittest.TestCase):
    @unittest.skipUnless(has_libuv(), "this torch was built without libuv, so its torchrun cannot start")
    def test_torchrun_starts_again_what_a_dead_rank_has_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", *LOGS,
                 os.path.join(folder, "logs"), "--max_restarts", "3", "--monitor_interval", "0.2", __file__, "elastic",
                 folder],
                env=ranks.environment(OMP_NUM_THREADS="1", USE_LIBUV="0"), capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            read = {}
            for path in glob.glob(os.path.join(folder, "*[0-9]")):
                with open(path) as file:
                    read[os.path.basename(path)] = file.read()
        # Torchrun gives a round a port that was free, and another program may have taken it: then one more is needed.
        self.assertIn(read["done0"], ("1", "2", "3"))
        self.assertEqual(read["done0"], read["done1"])
        self.assertIn("rank 1", read.get("told0", "rank 1"))  # the agent may have ended it before


if __name__ == "__main__":
    if sys.argv[1:2] == ["elastic"]:
        elastic(sys.argv[2])
    else:
        unittest.main()
