"""The checks can fail: each finds a planted fault, and the summary counts what it is shown."""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

import check_headers  # noqa: E402
import check_includes  # noqa: E402
import check_lengths  # noqa: E402
import check_shell  # noqa: E402
import check_text  # noqa: E402
import nightly  # noqa: E402
import rooms  # noqa: E402
import test_summary  # noqa: E402

CMOCKA = """[==========] Running 3 test(s).
[ RUN      ] adds
[       OK ] adds
[ RUN      ] halves
[  ERROR   ] --- 0x1 != 0x2
[  FAILED  ] halves
[ RUN      ] waits
[  SKIPPED ] waits
[  PASSED  ] 1 test(s).
[  SKIPPED ] waits
[  FAILED  ] halves
"""
UNITTEST = """test_a (m.T.test_a) ... ok
test_b (m.T.test_b) ... skipped 'no pj_dump'
test_c (m.T.test_c) ... FAIL
FAIL: test_c (m.T.test_c)
Ran 3 tests in 0.1s

FAILED (failures=1, skipped=1)
"""


def undocumented(source):
    """Declarations of a header that lack a comment."""
    return [text for _, text, documented in check_headers.declarations(source)
            if not documented and check_headers.needs_comment(text, source)]


class Includes(unittest.TestCase):
    """Who may include whom."""

    def test_a_room_sees_only_what_the_table_says(self):
        fault = check_includes.fault_of_quoted
        self.assertIsNone(fault("core/config/a.c", "core/base/err.h"))
        self.assertIsNone(fault("core/config/a.c", "core/config/field.h"))
        self.assertIn("may not", fault("core/base/a.c", "core/config/field.h"))
        self.assertIn("may not", fault("core/base/a.c", "sim/sim.h"))
        self.assertIn("may not", fault("app/predict/a.c", "app/calibrate/calibrate_machine.h"))
        self.assertIn("not in the table", fault("core/cellar/a.c", "core/base/err.h"))

    def test_the_front_end_sees_only_the_outer_header_of_the_simulator(self):
        self.assertIsNone(check_includes.fault_of_quoted("app/main/a.c", "sim/sim.h"))
        self.assertIn("may not", check_includes.fault_of_quoted("app/main/a.c", "sim/engine.h"))
        self.assertIn("not a path", check_includes.fault_of_quoted("app/main/a.c", "sim.h"))

    def test_rooms_that_include_each_other_are_found(self):
        table = rooms.parse("| `core/a` | `b` | x |\n| `core/b` | `a` | x |\n"
                            "| `core/c` | `a`, `sim/sim.h` | x |\n")
        self.assertEqual(table["core/c"], ("core/a", "sim/sim.h"))
        with unittest.mock.patch.object(check_includes, "ROOMS", table):
            self.assertEqual(len(check_includes.circles()), 2)

    def test_the_table_has_every_folder(self):
        table = rooms.parse("| `core/a` | | x |\n| `core/gone` | | x |\n| `foretrain` | core | x |\n")
        self.assertEqual(len(rooms.faults(table, {"core/a": 1})), 1)
        self.assertEqual(len(rooms.faults(table, {"core/a": 2, "core/new": 1})), 2)

    def test_a_crowded_folder_is_found(self):
        table = rooms.parse("| `core/a` | | x |\n| `core/b` | | x |\n")
        wrong = rooms.faults(table, {"core/a": 25, "core/b": 26})
        self.assertEqual(len(wrong), 1)
        self.assertIn("core/b: 26 files", wrong[0])

    def test_libraries_have_one_owner(self):
        self.assertIsNone(check_includes.fault_of_system("core/config/yaml.c", "libfyaml.h"))
        self.assertIn("alone", check_includes.fault_of_system("core/base/json.c", "libfyaml.h"))
        self.assertIn("alone", check_includes.fault_of_system("app/a.c", "simgrid/host.h"))

    def test_what_another_include_brings_is_not_included_again(self):
        includes = [(1, '"', "core/base/json.h"), (2, "<", "string.h"), (3, "<", "pthread.h"),
                    (4, '"', "core/base/base.h")]
        self.assertEqual([line for line, _ in check_includes.repeated("app/a.c", includes)], [2, 4])


class Headers(unittest.TestCase):
    """Every declaration has a comment of its own."""

    def test_finds_a_bare_function_after_a_documented_one(self):
        source = "/** Adds. */\nint add(int a,\n        int b);\n\nint half(int a);\n"
        self.assertEqual(undocumented(source), ["int half(int a);"])

    def test_finds_a_bare_struct_macro_enum_and_variable(self):
        source = "struct a { int b; };\n#define C 1\nenum d { E };\nextern int f;\n"
        self.assertEqual(len(undocumented(source)), 4)

    def test_macros_without_a_blank_line_between_share_a_comment(self):
        source = "/** A. */\n#define A \\\n 1\n#define B 2\n\n#define C 3\n"
        self.assertEqual(undocumented(source), ["#define C 3"])
        self.assertEqual(undocumented("/** A. */\n#define A 1\nint b;\n"), ["int b;"])

    def test_an_inline_function_ends_at_its_brace(self):
        source = "/** A. */\nstatic inline int a(void)\n{\n    return 1;\n}\nint b(void);\n"
        self.assertEqual(undocumented(source), ["int b(void);"])

    def test_a_member_comment_documents_no_declaration(self):
        source = "/** A. */\nstruct a {\n    int b; /**< here */\n};\nint c(void);\n"
        self.assertEqual(undocumented(source), ["int c(void);"])


class Lengths(unittest.TestCase):
    """Lines between braces."""

    def test_counts_the_lines_of_a_body(self):
        lines = ["int a(void)", "{", "    int b = 1;", "    return b;", "}"]
        self.assertEqual(list(check_lengths.functions(lines)), [(2, 2)])


class Shell(unittest.TestCase):
    """No shell between names and programs."""

    def test_finds_each_way_to_one(self):
        for line in ('system("ls");', "n = system (line);", 'popen(ask, "r")', "wordexp(a, &b, 0)",
                     'char shell[] = "/bin/sh";', 'execlp("sh", "sh", "-c", line, NULL);',
                     '"exec bash -c \\"$*\\""', '{"sh", "-c", line}', '"/bin/sh -ec %s"',
                     '"#!/bin/sh\\n"', '"#!/usr/bin/env bash\\n"', 'execl("/usr/bin/dash", line);'):
            faults = check_shell.faults_of("a.c", "int a;\n" + line + "\n")
            self.assertTrue(faults and faults[0].startswith("a.c:2: "), line)

    def test_lets_ordinary_code_pass(self):
        text = ('/* never system() or\n * "/bin/sh" */ // sh -c\nrow->system = file_system(1);\n'
                'puts("fish, flush(), https://x.org/sh"); execvp(word[0], word);\n'
                'complete("bash");\n')
        self.assertEqual(check_shell.faults_of("a.c", text), [])
        self.assertEqual(len(check_shell.faults_of("a.c", text + 'puts("/* x"); system(a);\n')), 1)


class Text(unittest.TestCase):
    """Words and blanks that do not belong."""

    def test_finds_each_kind(self):
        for line in ("see /home/" + "ann/x", "fixes issue " + "12", "TO" + "DO later", "blank ",
                     "a\tb"):
            self.assertEqual(len(check_text.faults_of("a.c", line + "\n")), 1, line)

    def test_lets_ordinary_text_pass(self):
        line = "TO" + "DO(ann): ../home/x, https://example.org/mnt/a, colour #a0b1c2\n"
        self.assertEqual(check_text.faults_of("a.md", line), [])


class Summary(unittest.TestCase):
    """The last line of test.sh."""

    def test_counts_cases_not_programs(self):
        for output, failed in ((CMOCKA, "halves"), (UNITTEST, "test_c")):
            record = {"result": "FAIL", "stdout": output}
            passed, bad, skips = test_summary.count(record)
            self.assertEqual((passed, bad, len(skips)), (1, [failed], 1))

    def test_a_crash_after_passing_cases_fails(self):
        record = {"result": "FAIL", "stdout": "[       OK ] adds\n[       OK ] halves\n"}
        self.assertEqual(test_summary.count(record), (2, ["fail"], []))
        self.assertEqual(test_summary.count({"result": "TIMEOUT"}), (0, ["timeout"], []))

    def test_a_skipped_program_gives_its_last_line_as_the_reason(self):
        record = {"result": "SKIP", "stdout": "hm\nno mpirun\n\n"}
        self.assertEqual(test_summary.count(record), (0, [], [("", "no mpirun")]))


class Nightly(unittest.TestCase):
    """The record of what ./test.sh does not run."""

    def test_a_part_that_is_written_is_told_and_the_others_are_skipped(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "nightly.json"
            self.enterContext(unittest.mock.patch.object(nightly, "git", side_effect=(None, "0123abc", "0")))
            nightly.write(path, "fuzz", (7, ["build-fuzz: fuzz tar: fail"], []), "a note")
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                skipped = nightly.show(path)
        self.assertRegex(said.getvalue(), r"nightly  fuzz of \d+-\d+-\d+, commit \S+: 7 passed, "
                                          r"1 failed, 0 skipped  a note\n.*fuzz tar: fail\n")
        self.assertEqual([line.split(": ")[1] for line in skipped],
                         [part for part in nightly.PARTS if part != "fuzz"])

    def test_old_unknown_and_changed_commits_are_skipped(self):
        part = {"commit": "0123abc"}
        self.assertEqual(nightly.why_skipped(part, lambda commit: "50"), "")
        self.assertIn("51 commits ago", nightly.why_skipped(part, lambda commit: "51"))
        self.assertIn("commit 0123abc is not", nightly.why_skipped(part, lambda commit: None))
        self.assertIn("differ from commit 0123abc", nightly.why_skipped(
            {"commit": "0123abc-dirty"}, lambda commit: "0"))
        self.assertEqual(nightly.why_skipped(None), "never recorded")
