#!/usr/bin/env python3
"""Set up daskevo in a virtual environment of its own, then run it: nothing but Python 3.11 to 3.13 is needed.

    python3 start.py                    set up, then run the main job: a search on flight delays on this machine
    python3 start.py nas digits ...     set up, then run `daskevo nas digits ...` (any command of daskevo)
    python3 start.py test               set up, then lint, type-check and run the quick tests
    python3 start.py test --all         ... and the long ones as well
    python3 start.py test --part K/N    ... and the K-th of N parts of the long ones
    python3 start.py test ARG ...       ... ARGs, such as a folder of tests, go to pytest
    python3 start.py setup              set up only

The environment lies in .venv beside this file (or in the folder that DASKEVO_VENV names) and is made again only when
pyproject.toml or the Python has changed. An interrupted set-up is begun again.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
VENV = Path(os.environ.get("DASKEVO_VENV", HERE / ".venv"))
BIN = VENV / "bin"
MAIN_JOB = [
    *["nas", "flights", "--evaluations", "60", "--population", "12", "--sample", "4", "--workers", "2", "--run"],
    str(HERE / "runs" / "flights"),
]
EXTRAS = {"run": "dashboard,data,tensorflow", "test": "test"}
SAY_EVERY_S = 20
CHECKS = [
    ["ruff", "check", "."],
    ["ruff", "format", "--check", "."],
    ["mypy"],
    ["lint-imports"],
]
# Much of the tests' time is spent waiting: for processes to start, to end, to be missed. Whole files, whose tests
# may share a cluster, go to whichever of three processes is free. Tests that are named run in one.
THREE_AT_A_TIME = ["--numprocesses", "3", "--dist", "loadfile"]
WHOLE = ("--all", "--part")


def fail(message):
    print("start.py: " + message, file=sys.stderr)
    raise SystemExit(2)


def check_python():
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        fail(
            "daskevo runs on Python 3.11 to 3.13, and this is {}.{} ({}).\n"
            "Call it with another one, for example: python3.12 start.py".format(*sys.version_info[:2], sys.executable)
        )


def wanted_stamp(extras):
    """What the environment must have been made from, so that it need not be made again."""
    digest = hashlib.sha256((HERE / "pyproject.toml").read_bytes()).hexdigest()[:16]
    return "python {}.{} extras {} pyproject {}".format(*sys.version_info[:2], extras, digest)


def make_environment():
    if VENV.exists() and not (VENV / "pyvenv.cfg").exists() and any(VENV.iterdir()):
        fail(f"{VENV} is there but is no virtual environment; name another folder in DASKEVO_VENV")
    made = subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], stdout=subprocess.PIPE, text=True)
    if made.returncode == 0:
        return
    shutil.rmtree(VENV, ignore_errors=True)
    version = "{}.{}".format(*sys.version_info[:2])
    fail(
        "this Python could not make a virtual environment: {}\n"
        "Where Debian or Ubuntu leave out ensurepip, install it with `apt install python{}-venv` and run this again;\n"
        "without rights to install, use another Python (pyenv, conda or your site's module).".format(
            made.stdout.strip() or "see above", version
        )
    )


def set_up(kind):
    stamp_file = VENV / "daskevo-setup"
    stamps = stamp_file.read_text().splitlines() if stamp_file.exists() else []
    if wanted_stamp(EXTRAS[kind]) in stamps:
        return
    # What was installed for the other kind stays valid as long as it was made from the same pyproject.toml.
    kept = [stamp for stamp in stamps if stamp in {wanted_stamp(extras) for extras in EXTRAS.values()}]
    if not kept:
        print(f"Making a virtual environment in {VENV}", flush=True)
        make_environment()
    print(f"Installing daskevo[{EXTRAS[kind]}] and what it needs (about 3 GB; a few minutes)", flush=True)
    pip = [str(BIN / "python"), "-m", "pip", "install", "--use-pep517", "--disable-pip-version-check"]
    if install([*pip, "--no-color", "--progress-bar", "off", "-e", f"{HERE}[{EXTRAS[kind]}]"]):
        fail("pip could not install daskevo; its message stands above. Run this again once it is mended.")
    stamp_file.write_text("\n".join([*kept, wanted_stamp(EXTRAS[kind])]) + "\n")


def pip_is_at(line, before):
    """Return what pip is doing by a line of its output; what it did before if the line does not say."""
    words = line.split()
    if line.startswith("Collecting "):
        return "resolving " + re.split(r"[<>=!~;\[( ]", words[1])[0]
    if line.lstrip().startswith("Downloading ") and len(words) > 1:
        size = "" if "metadata" in line else " ".join(words[2:])  # pip has it in brackets
        return f"downloading {words[1].rsplit('/', 1)[-1].split('-')[0]} {size}".rstrip()
    if line.startswith("Installing collected packages"):
        return f"unpacking {line.count(',') + 1} packages"
    if line.startswith(("Building wheel", "Preparing metadata")):
        return "preparing " + (words[3] if words[:3] == ["Building", "wheel", "for"] else "daskevo")
    return before


def install(command):
    """Run pip and say now and then what it is at; return its exit code. Its errors and warnings show as they come."""
    began, at, ended = time.monotonic(), ["starting pip"], threading.Event()

    def say():
        while not ended.wait(SAY_EVERY_S):
            minutes, seconds = divmod(int(time.monotonic() - began), 60)
            print(f"  {minutes}:{seconds:02d}  {at[0]}", flush=True)

    unbuffered = {**os.environ, "PYTHONUNBUFFERED": "1"}  # or pip's lines come in blocks of 8 kB
    with subprocess.Popen(command, env=unbuffered, stdout=subprocess.PIPE, text=True, errors="replace") as pip:
        speaker = threading.Thread(target=say, daemon=True)
        speaker.start()
        try:
            for line in pip.stdout:
                at[0] = pip_is_at(line, at[0])
        except BaseException:
            pip.kill()
            raise
        finally:
            ended.set()
            speaker.join()
    return pip.returncode


def run(command):
    # Hundreds of processes that tests start would else compile all modules, each for itself.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run([str(BIN / command[0]), *command[1:]], cwd=HERE, env=environment).returncode


def main(arguments):
    if arguments and arguments[0] in ("-h", "--help"):
        print(__doc__.strip())
        return 0
    check_python()
    if arguments and arguments[0] == "test":
        set_up("test")
        failed = [" ".join(check) for check in CHECKS if run(check)]
        given = arguments[1:]
        whole = not given or given[0].partition("=")[0] in WHOLE
        failed += ["pytest"] if run(["pytest", *(THREE_AT_A_TIME if whole else []), *given]) else []
        if failed:
            print("start.py: failed: " + ", ".join(failed), file=sys.stderr)
        return 1 if failed else 0
    set_up("run")
    if arguments == ["setup"]:
        print("daskevo is set up: {}".format(BIN / "daskevo"))
        return 0
    # Hints of daskevo say what was typed here.
    typed = shlex.join(sys.orig_argv[: len(sys.orig_argv) - len(arguments)])
    environment = {**os.environ, "DASKEVO_PROGRAM": typed, "DASKEVO_AGAIN": "" if arguments else typed}
    return os.execve(str(BIN / "daskevo"), ["daskevo", *(arguments or MAIN_JOB)], environment)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
