"""setup.sh on machines that are made up: what it installs, says and builds."""
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = """\
# a comment
[programs]
good  # what everybody needs
gone  # what this release lacks
bad   # what apt cannot install
[optional]
more  # a part
[tests]
probe # a test
"""
TOOLS = {  # what they are asked, and what they answer; a package is installed when its file is there
    "dpkg-query": '[ -e "installed/$4" ] && echo "install ok installed"',
    "apt-get": """[ "$1" = install ] || exit 0
        case " $* " in *" bad "*) exit 100 ;; esac
        for word in "${@:2}"; do case $word in -*) ;; *) touch "installed/$word" ;; esac; done""",
    "apt-cache": 'for name in "${@:3}"; do [ "$name" = gone ] || echo "Package: $name"; done',
    "id": 'echo "$USER_ID"',
    "meson": '[ "$2" = --reconfigure ] || { mkdir -p build && touch build/build.ninja; }',
    "ninja": "true",
}


class Setup(unittest.TestCase):
    """In a folder of its own, with tools that only write down how they were called."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in ("bin", "installed"):
            (self.folder / name).mkdir()
        for name, script in TOOLS.items():
            path = self.folder / "bin" / name
            path.write_text(f'#!/bin/bash\necho "{name} $*" >>calls\n{script}\n', encoding="utf-8")
            path.chmod(0o755)
        for name in ("bash", "dirname", "cat", "env", "mkdir", "sed", "touch"):
            (self.folder / "bin" / name).symlink_to(shutil.which(name))
        (self.folder / "packages.txt").write_text(PACKAGES, encoding="utf-8")
        shutil.copy(ROOT / "setup.sh", self.folder)

    def setup(self, *groups, user=0, **variables):
        """(what it says, how the tools were called); it must succeed."""
        (self.folder / "calls").unlink(missing_ok=True)
        done = subprocess.run([self.folder / "setup.sh", *groups], capture_output=True, text=True,
                              check=False, env={"PATH": str(self.folder / "bin"),
                                                "USER_ID": str(user), **variables})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr, (self.folder / "calls").read_text(encoding="utf-8")

    def installed(self):
        """The packages that are."""
        return sorted(path.name for path in (self.folder / "installed").iterdir())

    def test_a_package_that_fails_costs_itself_and_what_it_is_for(self):
        said, calls = self.setup()
        self.assertEqual(self.installed(), ["good", "more"])
        self.assertIn("  gone # what this release lacks\n  bad # what apt cannot install\n", said)
        self.assertNotIn("root", said)
        self.assertIn("ninja -C build programs", calls)

    def test_groups_are_installed_when_they_are_named(self):
        self.assertNotIn("--reconfigure", self.setup()[1])
        self.assertIn("meson setup --reconfigure build", self.setup("tests")[1])
        self.assertEqual(self.installed(), ["good", "more", "probe"])

    def test_who_may_not_install_is_told_what_to_ask_for_and_builds(self):
        said, calls = self.setup(user=1000)
        self.assertEqual(self.installed(), [])
        self.assertIn("apt-get install good gone bad more\n", said)
        self.assertNotIn("apt-get", calls)
        self.assertIn("ninja -C build programs", calls)

    def test_it_configures_once_and_again_after_packages(self):
        def configured():
            return re.findall("^meson .*", self.setup(user=1000)[1], re.MULTILINE)
        self.assertEqual(configured(), ["meson setup build"])
        self.assertEqual(configured(), [])
        (self.folder / "installed" / "good").touch()
        self.assertEqual(configured(), ["meson setup --reconfigure build"])
        self.assertEqual(configured(), [])

    def test_warnings_stop_continuous_integration_alone(self):
        self.assertNotIn("werror", self.setup()[1])
        shutil.rmtree(self.folder / "build")
        self.assertIn("-Dwerror=true", self.setup(CI="true")[1])

    def test_every_package_has_its_reason(self):
        for line in (ROOT / "packages.txt").read_text(encoding="utf-8").splitlines():
            self.assertRegex(line, r"^$|^#|^\[\w+\] +# |^[a-z0-9.+-]+ +# ")
