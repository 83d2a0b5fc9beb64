#!/usr/bin/python3
"""Ranks that do not answer are named, and the job ends: test_world.py WORLD_CHECK [START_RANKS].

Over MPI; or with START_RANKS over sockets."""

import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

PROGRAM = ""
START_RANKS = ""  # "": mpirun
HERE = os.path.dirname(os.path.abspath(__file__))
TIMEOUT = 3


def launch(ranks, *arguments):
    """Run on some ranks.  Returns (exit status, stderr and stdout, seconds)."""
    start = time.monotonic()
    starter = [START_RANKS, str(ranks)] if START_RANKS else [
        sys.executable, os.path.join(HERE, "mpirun.py"), str(ranks), "--timeout", "60"]
    done = subprocess.run([*starter, PROGRAM, *map(str, arguments)], check=False, timeout=90,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
    return done.returncode, done.stdout, time.monotonic() - start


class World(unittest.TestCase):
    def failure(self, ranks, how, culprit):
        """What the job says when it ends, which it must soon."""
        code, output, seconds = launch(ranks, how, TIMEOUT, culprit)
        self.assertEqual(code, 71, output)
        self.assertLess(seconds, 30)
        self.assertGreater(seconds, TIMEOUT)
        self.assertIn("foretrain-exec: the last checkpoint is intact\n", output)
        return output

    def test_calls_do_what_they_say(self):
        for ranks in 1, 2, 5:
            code, output, _ = launch(ranks, "calls")
            self.assertEqual(code, 0, output)

    def test_names_a_rank_that_was_stopped(self):
        output = self.failure(4, "stop", 2)
        self.assertRegex(output, r"foretrain-exec: rank 2 of 4 \(host \S+, pid \d+\) has not "
                                 r"answered since step \d bucket 0, \d+ s ago\n")
        self.assertEqual(output.count("has not answered"), 1)

    def test_names_rank_0_when_it_was_stopped(self):
        output = self.failure(4, "stop", 0)
        self.assertRegex(output, r"rank 0 of 4 \(host \S+, pid \d+\) has not answered since step ")
        self.assertEqual(output.count("has not answered"), 1)

    def test_names_a_rank_that_the_others_wait_for(self):
        output = self.failure(3, "hang", 1)
        self.assertRegex(output, r"rank 1 of 3 \(host \S+, pid \d+\) is alive but has not gone on "
                                 r"since step 4 bucket 0, \d+ s ago, while others wait for it\n")
        self.assertEqual(output.count("is alive"), 1)

    def test_names_all_ranks_that_wait_for_each_other(self):
        output = self.failure(3, "deadlock", 0)
        self.assertEqual(output.count("all ranks wait for each other"), 3)

    def test_names_a_rank_that_is_stuck_inside_mpi(self):
        output = self.failure(3, "busy", 2)
        self.assertRegex(output, r"rank 2 of 3 \(.*\) has (been inside one call of (MPI|the "
                                 r"control plane) for|not answered)")

    def test_is_patient_with_a_rank_that_says_it_goes_on(self):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        code, output, seconds = launch(3, "patient", TIMEOUT, 1)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertEqual(code, 0, output)
        self.assertGreater(seconds, 2 * TIMEOUT)
        # Three ranks start and stop, and two of them wait: asleep, not spinning.
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        self.assertLess(cpu, 0.5 * 2 * 2 * TIMEOUT)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@unittest.skipUnless(START_RANKS or len(sys.argv) > 2, "mpirun does this")
class Sockets(unittest.TestCase):
    """Ranks started one by one, as torchrun or a user would."""

    def setUp(self):
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.ranks = []

    def tearDown(self):
        for rank in self.ranks:
            rank.kill()
            rank.communicate()

    def start(self, arguments=("calls",), **environment):
        """One process with these variables."""
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith(("FORETRAIN_", "RANK", "WORLD", "LOCAL", "MASTER"))}
        environment = {name: str(value) for name, value in environment.items()}
        self.ranks.append(subprocess.Popen([PROGRAM, *arguments], stdout=subprocess.PIPE,
                                           stderr=subprocess.STDOUT, encoding="utf-8",
                                           env={**clean, **environment}))
        return self.ranks[-1]

    def rank(self, rank, ranks, address=None, seconds=20, arguments=("calls",)):
        return self.start(arguments, FORETRAIN_RANK=rank, FORETRAIN_RANKS=ranks,
                          FORETRAIN_ADDRESS=address or self.address,
                          FORETRAIN_START_TIMEOUT=seconds)

    def end(self, process, code):
        output = process.communicate(timeout=60)[0]
        self.assertEqual(process.returncode, code, output)
        return output

    def test_ranks_meet_in_any_order(self):
        for rank in (2, 0, 1):
            self.rank(rank, 3)
            time.sleep(0.3)
        for process in self.ranks:
            self.end(process, 0)

    def test_torchruns_variables_will_do(self):
        for store, ranks in ("False", 2), ("True", 3):
            self.ranks.clear()
            for rank in range(ranks):
                self.start(RANK=rank, WORLD_SIZE=ranks, LOCAL_RANK=rank, LOCAL_WORLD_SIZE=ranks,
                           MASTER_ADDR="127.0.0.1", MASTER_PORT=self.port,
                           TORCHELASTIC_USE_AGENT_STORE=store)
            for process in self.ranks:
                self.end(process, 0)

    def test_without_variables_there_is_one_rank(self):
        self.end(self.start(), 0)

    def test_strangers_hold_nobody_up(self):
        first = self.rank(0, 2)
        strangers = []
        for talk in (b"", b"GET / HTTP/1.0\r\n\r\n" * 20):
            for _ in range(100):
                try:
                    strangers.append(socket.create_connection(("127.0.0.1", self.port)))
                    break
                except OSError:
                    time.sleep(0.05)
            strangers[-1].sendall(talk)
        other = self.rank(1, 2)
        self.end(other, 0)
        self.end(first, 0)
        for stranger in strangers:
            stranger.close()

    def test_a_missing_rank_is_named(self):
        first, other = self.rank(0, 4, seconds=2), self.rank(2, 4, seconds=2)
        self.assertIn(f"rank 1, 3 of 4 did not come to {self.address} within 2 s",
                      self.end(first, 69))
        self.assertIn("went away before all 4 ranks had come", self.end(other, 69))

    def test_a_wrong_address_is_named(self):
        output = self.end(self.rank(1, 2, seconds=1), 69)
        self.assertIn(f"rank 1 of 2 cannot reach rank 0 at {self.address} within 1 s: "
                      "Connection refused", output)
        output = self.end(self.rank(1, 2, "no-such-host.invalid:80", 1), 69)
        self.assertIn("cannot reach rank 0 at no-such-host.invalid:80", output)

    def test_a_port_that_is_taken_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", self.port))
            taken.listen()
            self.assertIn(f"cannot listen at {self.address}: Address already in use",
                          self.end(self.rank(0, 2), 69))

    def test_two_processes_with_one_number(self):
        self.rank(0, 3)
        self.rank(1, 3)
        time.sleep(0.5)
        self.assertIn("two processes with FORETRAIN_RANK=1", self.end(self.rank(1, 3), 64))
        self.rank(2, 3)
        for process in (self.ranks[0], self.ranks[1], self.ranks[3]):
            self.end(process, 0)

    def test_jobs_of_other_sizes_do_not_mix(self):
        self.rank(0, 2)
        self.assertIn("is not of a job of 3 ranks", self.end(self.rank(1, 3), 64))
        self.rank(1, 2)
        self.end(self.ranks[0], 0)

    def test_wrong_variables_are_refused(self):
        self.assertIn("FORETRAIN_RANK: expected a whole number, 0 to 1, got '2'",
                      self.end(self.rank(2, 2), 64))
        self.assertIn("RANK: expected a whole number", self.end(
            self.start(RANK="x", WORLD_SIZE=2), 64))
        self.assertIn("set FORETRAIN_RANK", self.end(self.start(FORETRAIN_RANKS=2), 64))
        self.assertIn("set FORETRAIN_ADDRESS", self.end(
            self.start(FORETRAIN_RANKS=2, FORETRAIN_RANK=0), 64))
        for address in ("nowhere", ":80", "host:0", "host:65536"):
            self.assertIn("FORETRAIN_ADDRESS=host:port", self.end(self.rank(0, 2, address), 64))

    def check_death(self, culprit, timeout):
        """All end soon when one is killed, and somebody names it."""
        begin = time.monotonic()
        for rank in range(3):
            self.rank(rank, 3, arguments=("die", str(timeout), str(culprit)))
        output = ""
        for rank, process in enumerate(self.ranks):
            output += self.end(process, -9 if rank == culprit else 71)
        self.assertLess(time.monotonic() - begin, 15)
        self.assertRegex(output, rf"rank {culprit} of 3 \(host \S+, pid "
                                 rf"{self.ranks[culprit].pid}\) has ended or was killed")
        return output

    def test_a_killed_rank_is_named_with_its_place(self):
        for culprit in 2, 0:
            self.ranks.clear()
            self.port = free_port()
            self.address = f"127.0.0.1:{self.port}"
            self.assertRegex(self.check_death(culprit, 20),
                             r"; its last sign of life was at step \d bucket 0, \d+ s ago\n")

    def test_a_killed_rank_is_named_without_heartbeats(self):
        output = self.check_death(1, 0)
        self.assertEqual(output.count("has ended or was killed"), 1)

    def test_one_rank_ends_all_with_its_exit_code(self):
        for rank in range(3):
            self.rank(rank, 3, arguments=("abort", "20", "1"))
        for process in self.ranks:
            self.end(process, 70)

    def test_the_starter_ends_all_with_the_code_of_the_first(self):
        begin = time.monotonic()
        code, output, _ = launch(3, "die", 20, 1)
        self.assertEqual(code, 128 + 9, output)
        self.assertIn("was killed by signal 9", output)
        self.assertLess(time.monotonic() - begin, 15)

    def test_the_starter_passes_signals_on(self):
        for number in signal.SIGTERM, signal.SIGUSR1:
            script = "trap 'exit 75' TERM USR1; echo ready; for i in $(seq 600); do sleep 0.1; done"
            starter = subprocess.Popen([START_RANKS, "3", "sh", "-c", script], encoding="utf-8",
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for _ in range(3):
                self.assertEqual(starter.stdout.readline(), "ready\n")
            starter.send_signal(number)
            starter.communicate(timeout=30)
            self.assertEqual(starter.returncode, 75)

    def test_ranks_end_with_their_starter(self):
        starter = subprocess.Popen([START_RANKS, "2", "sh", "-c", "echo $$; exec sleep 60"],
                                   stdout=subprocess.PIPE, encoding="utf-8")
        ranks = [int(starter.stdout.readline()) for _ in range(2)]
        starter.kill()
        starter.communicate()
        for _ in range(100):
            if not any(os.path.exists(f"/proc/{rank}") for rank in ranks):
                return
            time.sleep(0.1)
        self.fail("ranks live on")


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    START_RANKS = sys.argv.pop(1) if len(sys.argv) > 1 else ""
    if not START_RANKS and not shutil.which("mpirun"):
        print("mpirun (package openmpi-bin) is not installed")
        sys.exit(77)
    unittest.main(verbosity=2)
