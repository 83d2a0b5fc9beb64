"""A build without MPI trains on one rank, and says so when it is asked for more."""
import harness

TRAIN = ("train", harness.TOY, "--device", "cpu-naive")


class WithoutMpi(harness.Case):
    def test_several_ranks_are_refused(self):
        for words in (), ("--dry-run",), ("-n", "4"):
            said = self.refused(69, *TRAIN, *words)
            self.assertIn("built without MPI", said)
            self.assertIn("use -n 1", said)

    def test_one_rank_trains(self):
        told = harness.answer(*TRAIN, "-n", "1", "--set", "allreduce.grid=null", "--steps", "2")
        self.assertIn("loss", told["step"][0])
