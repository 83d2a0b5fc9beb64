#!/usr/bin/python3
"""`collective` against the closed form, and its options."""
import math
import pathlib
import shlex

import support
from support import answer, good, has_simulator, run

SIZE = 100_000_000
LEAFSPINE = str(support.ROOT / "platforms" / "lab" / "leafspine-16-4to1.yaml")


def dgx_h100_seconds(size, nodes):
    """torus2d by grid, worked out from platforms/dgx-h100.yaml: a hop over NVLink at 82.4 % of 450 GB/s
    and 1.9 us, one over the network at 96 % of 50 GB/s, 4 us and twice 195 ns, a card per device."""
    inside = lambda part: 1.9e-6 + part / (0.824 * 450e9)
    between = lambda part: 4e-6 + 2 * 195e-9 + part / (0.96 * 50e9)
    side = math.isqrt(8 * nodes)
    assert side * side == 8 * nodes and side % 8 == 0
    return {(8, nodes): 14 * inside(size / 8) + 2 * (nodes - 1) * between(size / 8 / nodes),
            (side, side): 2 * (side - 1) * (between(size / side) + between(size / side / side))}


def tree_seconds(size, nodes, chunks):
    """A tree on dgx-h100 message by message.  In turn t, pairs of level k exchange for k = 0, 1, ...:
    chunk t goes up, chunk t - (levels - k) down; who exchanges waits for the other."""
    ranks = 8 * nodes
    levels = (ranks - 1).bit_length()
    part = size / chunks
    ready = [0.0] * ranks
    for turn in range(chunks + levels):
        for level in range(levels):
            if turn >= chunks and not 0 <= turn - (levels - level) < chunks:
                continue
            for child in range(1 << level, ranks, 2 << level):
                parent = child - (1 << level)
                hop = (1.9e-6 + part / (0.824 * 450e9) if child // 8 == parent // 8
                       else 4e-6 + 2 * 195e-9 + part / 48e9)
                if turn < chunks or 0 <= turn - (levels - level) < chunks:
                    ready[child] = ready[parent] = max(ready[child], ready[parent]) + hop
    return max(ready)


class Collective(support.Case):
    """One all-reduce."""

    def ways(self, full):
        """Back end and grain, as options."""
        yield "--backend=analytic",
        if has_simulator():
            yield "--backend=sim", "--grain=folded"
            if full:
                yield "--backend=sim", "--grain=full"

    def test_handing_over_shortens_uneven_rows_only(self):
        """Two cards a node: half of a row's ranks receive from beside themselves, so they are done
        one message of 2 MB over 6 cards of 12.4 MB/s earlier, and so begin their column; on a switch
        all ranks are alike."""
        if not has_simulator():
            self.skipTest("built without SimGrid")
        gain = {}
        for name, grid in (("abci-mini", "6x4"), ("flat-16", "4x4")):
            path = support.ROOT / "platforms" / "lab" / (name + ".yaml")
            text = path.read_text(encoding="utf-8")
            other = self.write(name + ".yaml", text.replace("eager: {value: 4 MiB",
                                                            "eager: {value: 0 B"))
            both = [answer("collective", "--platform", file, f"--grid={grid}", "--grain=full",
                           "--algorithm=torus2d", "--bytes=2MB")["rows"][0]["time_s"]
                    for file in (path, other)]
            gain[name] = both[1] - both[0]
        self.assertEqual(gain["flat-16"], 0)
        self.assertGreater(gain["abci-mini"], 0.2 * 2e6 / 6 / 12.4e6)
        self.assertLess(gain["abci-mini"], 2e6 / 6 / 12.4e6)

    def test_the_grid_follows_bytes_and_nodes(self):
        for nodes in (32, 200, 512):
            for size in (1_000_000, 8_000_000, 51_000_000, 1_000_000_000):
                seconds = dgx_h100_seconds(size, nodes)
                best = min(seconds, key=seconds.get)
                for way in self.ways(full=False):
                    result = answer("collective", "--platform=dgx-h100", f"--nodes={nodes}",
                                    "--algorithm=torus2d", f"--bytes={size}B", *way)
                    self.assertEqual((result["grid"]["columns"], result["grid"]["rows"]), best)
                    self.assertEqual(result["grid"]["why"], "a row is a node" if best[0] == 8
                                     else "nearest to a square")
                    self.assertTrue(math.isclose(result["rows"][0]["time_s"], seconds[best],
                                                 rel_tol=1e-6), (nodes, size, way, result))

    def test_every_command_chooses_the_same_grid(self):
        """Of 51,114,064 B, ResNet-50's gradients in fp16, and of buckets of 1 MiB."""
        text = ("version: 1\nmodel: {network: resnet50, precision: {compute: fp16, gradients: fp16}}\n"
                "cluster: {platform: dgx-h100, nodes: 200}\n"
                "training: {dataset: imagenet, phases: [{epochs: 90, batch_per_device: 32}]}\n"
                "allreduce: {algorithm: torus2d}\n")
        for size, more in (("51114064B", ()), ("1MiB", ("--set=allreduce.bucket=1 MiB",))):
            seconds = dgx_h100_seconds(1 << 20 if more else 51_114_064, 200)
            grid = "{} x {}: ".format(*min(seconds, key=seconds.get))
            path = self.write("job.yaml", text)
            for words in (("predict", path, "--backend=analytic", *more), ("show", "job", path, *more),
                          ("collective", "--platform=dgx-h100", "--nodes=200", "--algorithm=torus2d",
                           f"--bytes={size}", "--backend=analytic")):
                self.assertIn(grid, run(*words).stdout, words)

    def test_in_column_order_a_column_is_a_node(self):
        result = answer("collective", "--platform=dgx-h100", "--nodes=32", "--algorithm=torus2d",
                        "--order=column", "--backend=analytic", "--bytes=1GB")
        self.assertEqual(result["grid"],
                         {"columns": 32, "rows": 8, "why": "a column is a node"})

    def test_a_grid_is_shown_where_it_means_something(self):
        for words, shown in ((("--platform=abci", "--algorithm=torus2d"), " as 4 x 4;"),
                             (("--platform=abci", "--algorithm=torus2d", "--order=column"), " as 4 x 4,"),
                             (("--platform=t1-torus", "--algorithm=ring", "--grid=4x4"), " as 4 x 4;"),
                             (("--platform=abci", "--algorithm=ring"), ";"),
                             (("--platform=abci", "--algorithm=hierarchical"), ";"),
                             (("--platform=abci", "--algorithm=nccl"), ";"),
                             (("--platform=abci", "--algorithm=ring", "--grid=4x4"), ";")):
            words = ("collective", *words, *([] if "--grid=4x4" in words else ["--nodes=4"]), "-banalytic")
            self.assertIn("16 ranks" + shown, run(*words).stdout, words)
            side = 4 if "4" in shown else None
            grid = answer(*words)["grid"]
            self.assertEqual((grid["columns"], grid["rows"]), (side, side))

    def test_rings_side_by_side_use_a_card_each(self):
        """dgx-h100: a round lasts as long as its hop over the network, which carries one ring."""
        size = 1_000_000_000
        for nodes in (2, 32):
            for channels, rings in (("1", 1), ("2", 2), ("5", 5), ("8", 8), ("all", 8)):
                ranks = 8 * nodes
                seconds = 2 * (ranks - 1) * (4e-6 + 2 * 195e-9 + size / rings / ranks / 48e9)
                for way in self.ways(full=nodes == 2):
                    result = answer("collective", "--platform=dgx-h100", f"--nodes={nodes}",
                                    f"--channels={channels}", f"--bytes={size}B", *way)
                    self.assertTrue(math.isclose(result["rows"][0]["time_s"], seconds,
                                                 rel_tol=1e-6), (nodes, channels, way, result))
                    self.assertEqual(result["cards"], f"{rings} ring{'s' * (rings > 1)}: {rings} of 8 "
                                     f"network cards of a node send{'s' * (rings == 1)}")

    def test_rings_share_what_is_narrower_than_their_cards(self):
        """With NVLink at 30 GB/s the 7 of 8 rings that pass from a device to the next share it."""
        path = support.ROOT / "platforms" / "dgx-h100.yaml"
        text = path.read_text(encoding="utf-8").replace("value: 450 GB/s", "value: 30 GB/s")
        size, ranks = 1_000_000_000, 32
        seconds = 2 * (ranks - 1) * 7 * size / 8 / ranks / (0.824 * 30e9)
        narrow = self.write("narrow.yaml", text.replace("\ndevice: ", f"\ndevice: {path.parent}/devices/")
                            .replace("devices/h100-sxm5-80gb", "devices/h100-sxm5-80gb.yaml"))
        for way in self.ways(full=True):
            row, = answer("collective", "--platform", narrow, "--nodes=4", "--channels=all",
                          f"--bytes={size}B", *way)["rows"]
            self.assertGreater(row["time_s"], seconds * (1 - 1e-9))
            self.assertLess(row["time_s"], seconds + 2 * (ranks - 1) * 4.4e-6)

    def test_rings_use_all_links_of_a_mesh(self):
        """Eight MI300X have 56 links one way, of 75 % of 64 GB/s, which are seven rings without a common one; four have 12,
        and only two such rings.  Between nodes eight rings have a card each, and in a node the links are as many."""
        rings = "01627543 02347156 03217645 04135267 05724631 06125374 07365142".split()
        self.assertEqual(len({pair for ring in rings for pair in zip(ring, ring[1:] + ring[0])}), 56)
        size, link = 1_000_000_000, 0.75 * 64e9
        path = self.directory / "draft.yaml"
        run("new", "platform", "--nodes=1", "--gpus=8xmi250x-gcd", "--inside=xgmi:64GB/s@mesh", "--to", path)
        for words, seconds in (
                (("--platform=nd-mi300x-v5", "--nodes=1"), 14 * (1.9e-6 + size / 8 / 7 / link)),
                (("--platform=nd-mi300x-v5", "--nodes=1", "--grid=4x1"), 6 * (1.9e-6 + size / 4 / 2 / link)),
                (("--platform=nd-mi300x-v5", "--nodes=2", "--channels=all"),
                 30 * (4e-6 + 2 * 195e-9 + size / 16 / 8 / (0.96 * 50e9))),
                (("--platform", path, "--nodes=1"), 14 * (1.9e-6 + size / 8 / 7 / link)),
                (("--platform=leonardo", "--nodes=1"), None)):  # with CUDA, where algorithm nccl has several
            for way in self.ways(full=True):
                row, = answer("collective", *words, f"--bytes={size}B", "--algorithm=ring", *way)["rows"]
                if seconds:
                    self.assertAlmostEqual(row["time_s"] / seconds, 1, delta=1e-6, msg=(words, way))
                else:
                    self.assertLess(row["busbw"], 100e9)

    def test_chunks_follow_each_other_through_a_tree(self):
        size = 1_000_000_000
        for nodes, chunks in ((2, 2), (2, 5), (3, 3), (32, 10), (32, 64)):
            for way in self.ways(full=nodes < 4):
                row, = answer("collective", "--platform=dgx-h100", f"--nodes={nodes}", "--algorithm=tree",
                              f"--bytes={size}B", f"--chunk={-(-size // chunks)}B", *way)["rows"]
                self.assertTrue(math.isclose(row["time_s"], tree_seconds(size, nodes, chunks),
                                             rel_tol=1e-6), (nodes, chunks, way, row))
        self.assertIn("use --chunk=976563B or more",
                      self.refused(64, "collective", "--platform=dgx-h100", "--nodes=2", "--bytes=1GB",
                                   "--algorithm=tree", "--chunk=1kB"))
        self.assertIn("only a tree has chunks", self.refused(64, "collective", "--platform=dgx-h100",
                                                             "--nodes=2", "--chunk=1MB"))
        for more, fault in (("ring, chunk: 1 MiB", "it belongs to tree, not to ring"),
                            ("tree, chunk: 1 kB", "use at least 4096 B")):
            job = self.write("job.yaml", support.JOB.replace(
                "torus2d, grid: {columns: 4, rows: 4}", more))
            self.assertIn(fault, self.refused(65, "predict", job))

    def test_channels_that_have_no_effect_are_refused(self):
        words = ("collective", "--platform=abci", "--nodes=4")
        self.assertIn("which has 4: --channels=all", self.refused(64, *words, "--channels=5"))
        self.assertIn("no effect on algorithm tree",
                      self.refused(64, *words, "--channels=2", "--algorithm=tree"))
        self.assertIn("--grid", self.refused(64, "collective", "--platform=dgx-h100",
                                             f"--grid={2**32 + 4}x4", "--bytes=1MB"))
        self.assertIn("go by nodes", self.refused(64, *words, "--channels=2", "--order=column"))
        self.assertIn("--channels=1", self.refused(69, "collective", "--grid=4x1", "--channels=2",
                                                   "--backend=exec"))
        job = self.write("job.yaml", support.JOB.replace("algorithm: torus2d, grid: {columns: 4, rows: 4}",
                                                         "algorithm: ring, channels: 5"))
        self.assertIn("allreduce", self.refused(65, "predict", job))
        job = self.write("two.yaml", support.JOB.replace("algorithm: torus2d, grid: {columns: 4, rows: 4}",
                                                         "algorithm: torus2d, channels: 2"))
        self.assertIn("it belongs to ring, not to torus2d", self.refused(65, "predict", job))

    def test_bandwidths_follow_from_time(self):
        row, = answer("collective", "--platform=t1-torus", "--grid=4x4", "--algorithm=torus2d",
                      "-banalytic")["rows"]
        self.assertAlmostEqual(row["algbw"] * row["time_s"], SIZE, places=3)
        self.assertAlmostEqual(row["busbw"] / row["algbw"], 2 * 15 / 16, places=12)

    def test_lists_and_ranges_of_sizes(self):
        def sizes(text):
            return [row["bytes"] for row in answer("collective", "--platform=t1-ring", "-banalytic",
                                                   "--grid=4x1", "--bytes", text)["rows"]]
        self.assertEqual(sizes("1MB,10kB"), [1_000_000, 10_000])
        self.assertEqual(sizes("1MiB..8MiB:x2"), [2**20, 2**21, 2**22, 2**23])
        # src/common.cu of nccl-tests, parsesize(): K, M, G in either case are powers of 1024
        self.assertEqual(sizes("8,3K,1.5m,2G"), [8, 3 * 2**10, 3 * 2**19, 2**31])
        self.assertEqual(sizes("8..1K:x8"), [8, 64, 512])

    def test_text_has_the_columns_of_nccl_tests(self):
        done = run("collective", "--platform=t1-ring", "--grid=4x1", "-banalytic")
        header = done.stdout.splitlines()[2].lstrip("#").split()
        self.assertEqual(header, ["bytes", "time", "algbw", "busbw", "steps"])

    def test_nodes_of_a_cluster(self):
        result = answer("collective", "--platform=abci", "--nodes=4", "-banalytic")
        self.assertEqual(result["ranks"], 16)

    def test_columns_within_leaves_load_the_uplinks_with_rows(self):
        """Of 4 hosts on one uplink as wide as a card, each round of rows across leaves takes four
        times as long, and rounds of columns a quarter: 2.125 times in all, without latency."""
        for way in self.ways(full=True):
            if "--backend=analytic" in way:
                continue
            row, column = (answer("collective", "--platform", LEAFSPINE, "--grid=4x4",
                                  "--algorithm=torus2d", "--bytes=80MB", "--order", order,
                                  *way)["rows"][0]["time_s"] for order in ("row", "column"))
            self.assertTrue(math.isclose(column / row, 2.125, rel_tol=1e-3), (way, column / row))

    def test_rounds_across_leaves_share_the_uplink(self):
        """Of 4 hosts on one uplink as wide as a card: halving and doubling take 2 (1/2 + 1/4 + 4/8 + 4/16) vectors
        if the largest messages go near, 2 (4/2 + 4/4 + 1/8 + 1/16) if they go far."""
        for way in self.ways(full=True):
            near, far = (answer("collective", "--platform", LEAFSPINE, "--nodes=16", "--algorithm", algorithm,
                                "--bytes=80MB", *way)["rows"][0]["time_s"]
                         for algorithm in ("halving-doubling", "halving-doubling-far"))
            self.assertTrue(math.isclose(far / near, 6.375 / 3, rel_tol=1e-3), (way, far / near))

    def test_orders_that_have_no_effect_are_refused(self):
        torus = ("collective", "--grid=4x4", "--platform=t1-torus")
        cluster = ("collective", "--grid=4x4", "--platform", LEAFSPINE)
        self.assertIn("no effect on t1-torus", self.refused(64, *torus, "--order=column"))
        self.assertIn("goes by nodes", self.refused(64, *cluster, "--order=column",
                                                    "--algorithm=hierarchical"))
        self.assertIn("did you mean 'exec'", self.refused(64, *cluster, "--backend=sim,exac"))
        self.assertIn("is given twice", self.refused(64, *cluster, "--backend=sim,sim"))
        self.assertIn("cannot be measured", self.refused(64, *cluster, "--backend=exec", "--algorithm=nccl"))

    def test_nccl_is_as_fast_in_both_back_ends_and_says_what_it_chose(self):
        results = [answer("collective", "--platform=generic-fat-tree", "--nodes=8",
                          "--algorithm=nccl", "--bytes=1kB..1GB:x8", *way)["rows"]
                   for way in self.ways(full=True)]
        for rows in results:
            self.assertEqual([row["time_s"] for row in rows],
                             sorted(row["time_s"] for row in rows))
            self.assertEqual(rows[0]["choice"], "tree LL")
            for row, first in zip(rows, results[0]):
                self.assertTrue(math.isclose(row["time_s"], first["time_s"], rel_tol=1e-9), row)
                self.assertEqual(row["choice"], first["choice"])

    def test_mpi_is_refused_by_both_back_ends(self):
        for way in ([], ["--backend=analytic"]):
            message = self.refused(69, "collective", "--grid=4x1", "--algorithm=mpi",
                                   "--platform=t1-ring", *way)
            self.assertIn("algorithm mpi cannot be predicted", message)
            self.assertEqual(message.count("--algorithm=ring"), 1)

    def test_nccl_is_refused_where_the_platform_says_nothing_of_it(self):
        for platform in ("t1-ring", "t1-torus"):
            message = self.refused(65, "collective", "--grid=4x1", "--algorithm=nccl",
                                   "--platform", platform)
            self.assertRegex(message, f"{platform}.yaml: error: .*runs no NCCL")

    def test_gradients_of_16_bits_are_measured_and_the_table_says_so(self):
        words = ("collective", "--grid=3x1", "--bytes=6B,60kB", "--repeats=2")
        if run(*words, "--backend=exec").returncode == 69:
            self.skipTest("built without MPI, or mpirun (package openmpi-bin) is missing")
        for dtype, rest in (("fp32", "fp32 numbers: give a multiple of 4"), ("fp16", None),
                            ("bf16", None)):
            measured = run(*words, "--backend=exec", "--gradients", dtype)
            if rest:
                self.assertEqual(measured.returncode, 64)
                self.assertIn("6 B are not whole " + rest, measured.stderr)
                continue
            self.assertEqual(measured.returncode, 0, measured.stderr)
            self.assertEqual(measured.stdout.splitlines()[2], f"# gradients travel in {dtype}")
            both = run(*words, "--backend=analytic,exec", "--platform=t1-ring", "--gradients",
                       dtype)
            self.assertEqual(both.stdout.splitlines()[2],
                             f"# gradients travel in {dtype}: exec converts them, those that "
                             "predict know only the bytes that travel")
            result = answer(*words, "--backend=exec", "--gradients", dtype)
            self.assertEqual((result["gradients"], [row["bytes"] for row in result["rows"]]),
                             (dtype, [6, 60000]))
        self.assertNotIn("gradients", answer(*words, "--backend=analytic", "--platform=t1-ring"))
        self.assertNotIn("gradients", run(*words[:2], "--backend=exec", "--bytes=8B").stdout)
        self.assertIn("no effect without exec",
                      self.refused(64, *words, "--platform=t1-ring", "--gradients=fp16"))
        self.assertIn("did you mean 'fp16'", self.refused(64, *words, "--gradients=fp17"))

    def test_a_program_may_lie_anywhere(self):
        words = ("collective", "--grid=2x1", "--repeats=2", "--backend=exec")
        if run(*words, "--bytes=8B").returncode == 69:
            self.skipTest("built without MPI, or mpirun (package openmpi-bin) is missing")
        for name in ("it's $HOME", "a;touch PWNED"):
            place = self.directory / name
            place.symlink_to(pathlib.Path(support.PROGRAM).resolve().parent)
            good(*words, "--bytes=8B", FORETRAIN_LIBEXEC=str(place))
            said = run(*words, "--bytes=6B", FORETRAIN_LIBEXEC=str(place)).stderr
            line = said[said.index("by hand: ") + len("by hand: "):]
            self.assertIn(str(place / "foretrain-exec"), shlex.split(line))
        self.assertFalse(pathlib.Path("PWNED").exists())

    def test_faults(self):
        words = ("collective", "--platform=t1-torus")
        self.refused(64, "collective", "--grid=4x4")
        self.refused(64, *words)
        self.refused(64, *words, "--grid=4by4")
        self.assertIn("--bytes: 'KB' is not a unit of a size; did you mean 'kB'?",
                      self.refused(64, *words, "--grid=4x4", "--bytes=1MB,8KB"))
        self.refused(64, *words, "--grid=4x4", "--bytes=1G..8:x2")
        self.refused(64, *words, "--grid=4x4", "--bytes=1MB..2MB")
        self.refused(64, *words, "--grid=4x4", "--bytes=1MB..2MB:x1")
        self.refused(64, *words, "--grid=4x4", "--bytes=0B")
