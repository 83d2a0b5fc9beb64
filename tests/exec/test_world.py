"""Ranks that do not answer are named, and the job ends: test_world.py WORLD_CHECK.

Who is named when, is tested without waiting in test_watch.c; here some are run over MPI."""

import re
import resource
import subprocess
import sys

import harness

harness.need_mpi()

CHECK = sys.argv.pop(1)
TIMEOUT = 3


def launch(ranks, *arguments):
    """Run on some ranks.  Returns (exit status, stderr and stdout)."""
    done = harness.execute(*harness.on_ranks(ranks, "--timeout", 1000, CHECK, *arguments), stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


class World(harness.Case):
    def failure(self, ranks, how, culprit):
        """What the job says when it ends, which it must, but not too early."""
        code, output = launch(ranks, how, TIMEOUT, culprit)
        self.assertEqual(code, 71, output)
        self.assertGreaterEqual(min(map(int, re.findall(r"(\d+) s(?: ago|\n)", output))), TIMEOUT)
        self.assertIn("foretrain-exec: the last checkpoint is intact\n", output)
        return output

    def test_calls_do_what_they_say(self):
        for ranks in 1, 2, 5:
            code, output = launch(ranks, "calls")
            self.assertEqual(code, 0, output)

    def test_names_a_rank_that_the_others_wait_for(self):
        output = self.failure(3, "hang", 1)
        self.assertRegex(output, r"rank 1 of 3 \(host \S+, pid \d+\) is alive but has not gone on "
                                 r"since step 4 bucket 0, \d+ s ago, while others wait for it\n")
        self.assertEqual(output.count("is alive"), 1)

    def test_names_a_rank_that_is_stuck_inside_mpi(self):
        output = self.failure(3, "busy", 2)
        self.assertRegex(output, r"rank 2 of 3 \(.*\) has (been inside one call of MPI for|"
                                 r"not answered)")

    def test_is_patient_with_a_rank_that_says_it_goes_on(self):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        code, output = launch(3, "patient", TIMEOUT, 1)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertEqual(code, 0, output)
        # Three ranks start and stop, and two of them wait: asleep, not spinning.
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"{cpu:.2f} s of the processors")
        self.assertLess(cpu, 0.5 * 2 * 2 * TIMEOUT)

    def test_one_rank_ends_all_with_its_exit_code(self):
        code, output = launch(3, "abort", 20 * TIMEOUT, 1)  # on a busy machine MPI may take its time to abort
        self.assertEqual(code, 70, output)

    def test_ranks_that_do_not_find_each_other_say_so(self):
        for variables in ({"OMPI_COMM_WORLD_SIZE": "2"}, {"SLURM_STEP_NUM_TASKS": "2"},
                          {"MASTER_ADDR": "here", "WORLD_SIZE": "2"}):
            done = self.execute(64, CHECK, "calls", environment=variables)
            self.assertIn("one of 2 ranks that do not find each other", done.stderr)
