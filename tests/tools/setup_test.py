#!/usr/bin/env python3
"""scripts/setup, scripts/find_torch and scripts/build, in a copy of the scripts: which torch is used, and what is installed
where. Virtual environments and pip are real; torch and numpy are empty packages, and nothing comes from the network."""
import importlib.util, os, pathlib, shutil, subprocess, sys, tempfile, unittest, zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIMIT = 120  # seconds; making an environment with pip takes about five


def write(path, text, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def make_wheel(folder, name, version):
    information = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/__init__.py", "")
        wheel.writestr(f"{information}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{information}/RECORD", "")


def contents(folder):
    return sorted((str(path), path.lstat().st_mtime_ns) for path in folder.rglob("*") if "__pycache__" not in path.parts)


class Setup(unittest.TestCase):
    def setUp(self):
        if not importlib.util.find_spec("ensurepip"):
            self.skipTest("this Python makes no environments with pip (Debian's python3-venv does)")
        self.folder = pathlib.Path(tempfile.mkdtemp()).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        self.project = self.folder / "a project"
        shutil.copytree(ROOT / "scripts", self.project / "scripts")
        self.wheels = self.folder / "wheels"
        self.wheels.mkdir()
        for name, version in (("torch", "2.13.0"), ("torch", "2.15.0"), ("numpy", "2.4.0")):
            make_wheel(self.wheels, name, version)
        # What this host has or lacks besides is not the matter here, and must not be changed by a test.
        self.programs = self.folder / "programs"
        for name in ("apt-get", "sudo"):
            write(self.programs / name, "#!/bin/sh\nexit 1\n", 0o755)
        script = self.project / "scripts/setup"
        text = script.read_text()
        self.assertEqual(text.count("\nthere() {"), 1)
        script.write_text(text.replace("\nthere() {", "\nneed=() want=()\nthere() {"))
        self.active = self.environment("active")

    # Helpers

    def environment(self, name, **packages):
        """A virtual environment without pip; packages: torch="2.13.0"."""
        path = self.folder / name
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", path], check=True, timeout=LIMIT)
        for package, version in packages.items():
            self.add_package(path, package, version)
        return path

    def add_package(self, environment, package, version):
        (site,) = environment.glob("lib/python*/site-packages")
        write(site / package / "__init__.py", "")
        write(site / f"{package}-{version}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")

    def run_script(self, *words, code=0, **variables):
        """What it writes to stdout, and to stderr. `self.active` is the active environment."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "PYTHON", "GRADWIRE_", "CONDA"))}
        environment = {**kept, "PATH": f"{self.active}/bin:{self.programs}:/usr/bin:/bin", "VIRTUAL_ENV": str(self.active),
                       "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels), **variables}
        done = subprocess.run([self.project / "scripts" / words[0], *words[1:]], env=environment, cwd=self.folder, timeout=LIMIT,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def found(self, **variables):
        """The environment of the Python whose torch is used, and the one that the torch is in."""
        python, torch = self.run_script("find_torch", **variables)[0].splitlines()
        return pathlib.Path(python).parent.parent, next(path for path in pathlib.Path(torch).parents if (path / "pyvenv.cfg").exists())

    def versions(self, venv):
        """What was installed there, but for what every environment has."""
        (site,) = (self.project / venv).glob("lib/python*/site-packages")
        names = {path.name.removesuffix(".dist-info") for path in site.glob("*.dist-info")}
        return {name for name in names if not name.startswith(("pip-", "setuptools-"))}

    # Tests

    def test_makes_an_environment_of_its_own_once(self):
        before = contents(self.active)
        self.assertIn("torch 2.13.0", self.run_script("setup")[0])
        venv = self.project / ".venv"
        self.assertEqual(self.versions(".venv"), {"torch-2.13.0", "numpy-2.4.0"})
        self.assertEqual(self.found(), (venv, venv))
        self.assertEqual(contents(self.active), before)
        made = contents(venv)
        self.assertEqual(self.run_script("setup"), ("", ""))
        self.assertEqual(contents(venv), made)

    def test_takes_an_active_environment_that_has_all(self):
        self.active = self.environment("whole", torch="2.12.1", numpy="2.0.0")
        before = contents(self.active)
        self.assertIn(str(self.active), self.run_script("setup")[0])
        self.assertEqual(self.found(), (self.active, self.active))
        self.assertEqual(contents(self.active), before)
        self.assertFalse((self.project / ".venv").exists())

    def test_does_not_take_a_torch_that_is_too_old(self):
        self.active = self.environment("old", torch="2.10.0", numpy="2.0.0")
        self.run_script("find_torch", code=1)
        self.run_script("setup")
        self.assertEqual(self.found(), (self.project / ".venv",) * 2)

    def test_adds_beside_an_active_environment_what_it_lacks(self):
        self.active = self.environment("partial", torch="2.12.1")
        before = contents(self.active)
        self.assertIn("numpy", self.run_script("setup")[0])
        self.assertEqual(contents(self.active), before)
        self.assertEqual(self.versions(".venv"), {"numpy-2.4.0"})
        self.assertEqual(self.found(), (self.project / ".venv", self.active))
        # Both are found by the Python that is used, and the second run has nothing to do.
        python = self.project / ".venv/bin/python"
        subprocess.run([python, "-c", "import torch, numpy"], check=True, timeout=LIMIT)
        self.assertEqual(self.run_script("setup"), ("", ""))

        # It belongs to the environment it was made for: another one is not given the torch of the first.
        self.active = self.environment("other", torch="2.14.0", numpy="2.0.0")
        self.assertEqual(self.found(), (self.active, self.active))
        self.active = self.environment("third", torch="2.14.0")
        self.assertEqual(self.found(), (self.active, self.active))
        self.run_script("setup")
        self.assertEqual(self.found(), (self.project / ".venv", self.active))

    def test_takes_the_active_torch_rather_than_one_of_its_own(self):
        self.run_script("setup")
        self.active = self.environment("partial", torch="2.12.1")
        self.assertEqual(self.found(), (self.active, self.active))
        self.run_script("setup")
        self.assertEqual(self.found(), (self.project / ".venv", self.active))

    def test_a_version_that_is_asked_for_wins(self):
        self.active = self.environment("whole", torch="2.12.1", numpy="2.0.0")
        before = contents(self.active)
        self.run_script("find_torch", code=1, GRADWIRE_TORCH="2.15.0")
        self.assertIn("torch 2.15.0", self.run_script("setup", GRADWIRE_TORCH="2.15.0")[0])
        venv = self.project / ".venv-2.15.0"
        self.assertEqual(self.versions(".venv-2.15.0"), {"torch-2.15.0", "numpy-2.4.0"})
        self.assertEqual(self.found(GRADWIRE_TORCH="2.15.0"), (venv, venv))
        self.assertEqual(self.found(), (self.active, self.active))
        self.assertEqual(contents(self.active), before)
        self.assertEqual(self.run_script("setup", GRADWIRE_TORCH="2.15.0"), ("", ""))

    def test_an_environment_that_was_left_half_made_is_made_anew(self):
        half = self.environment("a project/.venv-2.15.0", torch="2.13.0")
        self.run_script("find_torch", code=1, GRADWIRE_TORCH="2.15.0")
        self.run_script("setup", GRADWIRE_TORCH="2.15.0")
        self.assertEqual(self.found(GRADWIRE_TORCH="2.15.0"), (half, half))
        self.assertEqual(self.versions(".venv-2.15.0"), {"torch-2.15.0", "numpy-2.4.0"})

    def test_installs_nothing_into_its_own_environment_while_that_is_active(self):
        self.active = self.environment("a project/.venv", torch="2.13.0")
        before = contents(self.active)
        self.assertIn("deactivate", self.run_script("setup", code=1)[1])
        self.assertEqual(contents(self.active), before)

    def test_says_why_a_version_cannot_be_had(self):
        errors = self.run_script("setup", code=1, GRADWIRE_TORCH="2.99.0")[1]
        self.assertIn("2.99.0", errors)
        self.assertIn(".venv-2.99.0", errors)

    def test_a_version_is_no_path(self):
        for script in ("setup", "find_torch", "build_folder"):
            self.assertIn("GRADWIRE_TORCH", self.run_script(script, code=2, GRADWIRE_TORCH="../x")[1])

    def test_each_version_has_build_folders_of_its_own(self):
        for preset, version, folder in (("release", "", "build"), ("asan", "", "build-asan"), ("release", "2.15.0", "build-2.15.0"),
                                        ("asan", "2.15.0", "build-asan-2.15.0")):
            self.assertEqual(self.run_script("build_folder", preset, GRADWIRE_TORCH=version)[0], folder + "\n")

    def test_a_build_is_configured_as_asked(self):
        write(self.programs / "cmake", f'#!/bin/sh\nprintf "%s\\n" "$@" > "{self.folder}/words"\n', 0o755)
        write(self.programs / "ninja", "#!/bin/sh\necho 'ninja: no work to do.'\n", 0o755)

        def words(**variables):
            self.assertIn("is up to date", self.run_script("build", "release", **variables)[0])
            return (self.folder / "words").read_text().splitlines()

        plain = words()
        self.assertIn("GRADWIRE_WARNINGS_AS_ERRORS=OFF", plain)
        self.assertIn("GRADWIRE_TORCH=", plain)
        self.assertEqual(plain[plain.index("-B") + 1], "build")
        asked = words(GRADWIRE_WARNINGS_AS_ERRORS="1", GRADWIRE_TORCH="2.15.0")
        self.assertIn("GRADWIRE_WARNINGS_AS_ERRORS=ON", asked)
        self.assertIn("GRADWIRE_TORCH=2.15.0", asked)
        self.assertEqual(asked[asked.index("-B") + 1], "build-2.15.0")

    def test_a_version_of_torch_is_tried_and_its_verdict_is_kept(self):
        self.environment("a project/.venv-2.15.0", torch="2.15.0", numpy="2.0.0")
        shutil.copy(ROOT / ".gitignore", self.project)
        write(self.programs / "cmake", "#!/bin/sh\nmkdir -p build-2.15.0\necho CMAKE_CXX_COMPILER:FILEPATH=c++ > build-2.15.0/CMakeCache.txt\n", 0o755)
        write(self.programs / "ninja", f'#!/bin/sh\ntest ! -e "{self.folder}/broken" && echo "[1/1] Linking"\n', 0o755)
        write(self.programs / "ctest", f'#!/bin/sh\necho "$@" >> "{self.folder}/tried"\ncat "{self.folder}/tests"\ngrep -q "^100%" "{self.folder}/tests"\n', 0o755)
        git = ["git", "-C", self.project, "-c", "user.name=test", "-c", "user.email=test@localhost"]
        for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "first"]):
            subprocess.run([*git, *words], check=True, timeout=LIMIT)
        times = lambda: len((self.folder / "tried").read_text().splitlines())

        write(self.folder / "tests", "\n99% tests passed, 2 tests failed out of 500\n\nThe following tests FAILED:\n"
              "\t  7 - net.One.Two (Failed)\n\t 12 - rpc.Three.Four (Timeout)\nErrors while running CTest\n")
        line = self.run_script("check_torch", "2.15.0", code=1)[0].splitlines()[-1]
        self.assertRegex(line, r"^torch 2\.15\.0, .*: failed: no warning, 2 of 500 tests failed: net\.One\.Two rpc\.Three\.Four$")

        write(self.folder / "tests", "\n100% tests passed, 0 tests failed out of 500\n\nThe following tests did not run:\n\t  3 - a.b (Skipped)\n")
        line = self.run_script("check_torch", "2.15.0")[0].splitlines()[-1]
        self.assertRegex(line, r"^torch 2\.15\.0, .*: passed: no warning, 0 of 500 tests failed, 1 skipped$")
        (kept,) = (path for path in (self.project / ".cache/check_torch").iterdir() if path.suffix != ".log")
        self.assertEqual(kept.read_text(), line + "\n")
        self.assertEqual(self.run_script("check_torch", "2.15.0")[0], line + "\n")
        self.assertEqual(times(), 2, "what has passed is not tried again")
        write(self.project / "scripts/another", "")
        self.run_script("check_torch", "2.15.0")
        self.assertEqual(times(), 3, "but what is not committed is")

        (self.folder / "broken").touch()
        self.assertIn("does not build", self.run_script("check_torch", "2.15.0", code=1)[0])
        self.assertEqual(times(), 3)

    def test_warnings_are_errors_only_where_asked_for(self):
        source = self.folder / "source"
        write(source / "CMakeLists.txt", f"""cmake_minimum_required(VERSION 3.25)
            project(Warnings LANGUAGES CXX)
            include({ROOT}/cmake/Compiler.cmake)
            add_library(warned STATIC warned.cpp)
            target_link_libraries(warned PRIVATE gradwire_compiler)""")
        write(source / "warned.cpp", "int warned(int unused) { return 1; }\n")

        def builds(*options):
            build = self.folder / "build"
            shutil.rmtree(build, ignore_errors=True)
            subprocess.run(["cmake", "-G", "Ninja", "-S", source, "-B", build, *options], check=True, timeout=LIMIT, stdout=subprocess.DEVNULL)
            return subprocess.run(["cmake", "--build", build], timeout=LIMIT, stdout=subprocess.DEVNULL).returncode == 0

        self.assertTrue(builds())
        self.assertFalse(builds("-DGRADWIRE_WARNINGS_AS_ERRORS=ON"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
