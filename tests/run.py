#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs Caisson's tests and prints one line a test; the last line is "N passed, N failed".

  run.py BUILD_DIR [--suite unit|guest|e2e|all] [--only SUBSTRING] [--jobs N] [--modes all|FLAGS;...]

A unit test is one program. A guest test is one program run natively first (the oracle) and then
in the sandbox; each of its checks counts. With --modes it runs in several modes of the platform
(syscall sites patched or not, answers given in the stub or not), which must not differ. An end-to-end test is one script; each of its checks
counts. A test that takes longer than its limit fails. There is no second try.
"""
import argparse
import concurrent.futures
import ctypes
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIMIT = {"unit": 180, "guest": 120, "e2e": 900}
# Values of --platform-flags; the empty one is what people get.
MODES = ["", "nopatch", "nostub", "nopatch,nostub"]


class Totals:
    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.lock = threading.Lock()

    def add(self, name, passed, failures, output=""):
        with self.lock:
            self.passed += passed
            self.failed += len(failures)
            if not failures:
                print(f"ok    {name} ({passed})", flush=True)
                return
            for why in failures:
                print(f"FAIL  {name}: {why}", flush=True)
            if output:
                tail = output.strip().splitlines()[-25:]
                print("      | " + "\n      | ".join(tail), flush=True)


def default_signals():
    """Whatever started us may ignore some (a shell's background job: SIGINT and SIGQUIT)."""
    libc = ctypes.CDLL(None)
    for sig in range(1, signal.NSIG):
        libc.syscall(13, sig, bytes(32), None, 8)  # rt_sigaction: libc refuses two of them
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGINT, signal.default_int_handler)


def run(cmd, limit, env=None, cwd=ROOT):
    """(exit status or None on timeout, combined output); the whole process group is killed."""
    with tempfile.TemporaryFile() as out:
        p = subprocess.Popen(cmd, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                             env=env, cwd=cwd, start_new_session=True)
        try:
            status = p.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()
        out.seek(0)
        return status, out.read(4 << 20).decode("utf-8", "replace")


def checks(output):
    ok = re.findall(r"^ok (.+)$", output, re.M)
    bad = re.findall(r"^FAIL (.+)$", output, re.M)
    return ok, bad


class Oracle:
    """What a guest test says natively; run once, however many modes follow."""
    known = {}
    lock = threading.Lock()

    @classmethod
    def ask(cls, path):
        with cls.lock:
            own = cls.known.setdefault(path, threading.Lock())
        with own:
            said = cls.known.get(path + " said")
            if not said or said[0] != 0:
                with tempfile.TemporaryDirectory(prefix="caisson-native-") as scratch:
                    said = cls.known[path + " said"] = run([path], LIMIT["guest"], cwd=scratch)
        return said


def unit(path, totals, build):
    name = os.path.relpath(path, os.path.join(ROOT, "build")).replace("tests/", "")
    # Read by TSan's runtime alone; a warning ends the test program with a failure.
    env = dict(os.environ, TSAN_OPTIONS="detect_deadlocks=0 suppressions=" + os.path.join(ROOT, "tests/tsan.supp"))
    status, out = run([path], LIMIT["unit"], env)
    m = re.search(r"(\d+)%: Checks: (\d+), Failures: (\d+), Errors: (\d+)", out)
    good = int(m.group(2)) - int(m.group(3)) - int(m.group(4)) if m else 1
    if status == 0:
        totals.add(name, max(good, 1), [])
    else:
        why = "timed out" if status is None else f"exit status {status}"
        totals.add(name, 0, [why], out)


def guest(path, totals, build, mode="", served_by=None):
    """served_by: another build, whose sandbox runs the same program."""
    name = "guest/" + os.path.basename(path) + (f" [{mode}]" if mode else "")
    if served_by:
        name += f" in {os.path.basename(served_by)}"
    caisson = os.path.join(served_by or build, "caisson")
    status, native = Oracle.ask(path)
    if status != 0:
        totals.add(name + " (native)", 0, [f"the oracle itself fails: {status}"], native)
        return
    with tempfile.NamedTemporaryFile(prefix="caisson-guest-", suffix=".log") as log:
        status, out = run([caisson, "run", "--no-tty", "--timeout", str(LIMIT["guest"] - 10),
                           "--platform-flags", mode, "--log", log.name, "--log-level", "warn",
                           "--bind", os.path.dirname(path) + ":/guest:ro", "--workdir", "/tmp",
                           "--", "/guest/" + os.path.basename(path)], LIMIT["guest"])
        log.seek(0)
        logged = log.read(1 << 20).decode("utf-8", "replace")
    want, _ = checks(native)
    ok, bad = checks(out)
    failures = list(bad)
    missing = [w for w in want if w not in ok and not any(b.startswith(w + ":") for b in bad)]
    if missing:
        failures.append(f"{len(missing)} checks did not run, the first: {missing[0]}")
    if status != 0 and not failures:
        failures.append("timed out" if status is None else f"exit status {status}")
    totals.add(name, len(ok), failures, out + logged[-1500:] if failures else "")


def e2e(path, totals, build):
    name = "e2e/" + os.path.basename(path)
    env = dict(os.environ, CAISSON=os.path.join(build, "caisson"), BUILD=build)
    status, out = run(["bash", path], LIMIT["e2e"], env)
    ok, bad = checks(out)
    failures = list(bad)
    if status is None:
        failures.append("timed out")
    elif status != 0 and not bad:
        failures.append(f"exit status {status}")
    elif not ok and not bad:
        failures.append("it made no check at all")
    totals.add(name, len(ok), failures, out if failures else "")


def found(directory, match):
    result = []
    for base, _, files in os.walk(directory):
        result += [os.path.join(base, f) for f in files if match(os.path.join(base, f))]
    return sorted(result)


def runs_alone(w):
    """Scripts that look at the whole host (mounts, processes) say "# runs alone" near their top."""
    if w[0] is not e2e:
        return False
    with open(w[1]) as f:
        return "# runs alone" in f.read(600)


def main():
    default_signals()
    ap = argparse.ArgumentParser()
    ap.add_argument("build")
    ap.add_argument("--suite", default="all")
    ap.add_argument("--only", default="")
    ap.add_argument("--modes", default="", help="platform flags, sets separated by ;, or all")
    ap.add_argument("--asan", help="a sanitized build: its unit tests run as well, and the guest tests in its sandbox")
    ap.add_argument("--tsan", help="a build with ThreadSanitizer, whose unit tests run as well")
    ap.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    a = ap.parse_args()
    build = os.path.abspath(a.build)
    executable = lambda p: os.access(p, os.X_OK) and not p.endswith((".d", ".o"))
    work = []
    if a.suite in ("unit", "all"):
        for b in [build] + [os.path.abspath(v) for v in (a.asan, a.tsan) if v]:
            work += [(unit, p) for p in found(os.path.join(b, "tests/unit"), executable)]
    if a.suite in ("guest", "all"):
        modes = MODES if a.modes == "all" else a.modes.split(";")
        work += [(guest, p, m) for m in modes for p in found(os.path.join(build, "tests/guest"), executable)]
        if a.asan:
            work += [(guest, p, "", os.path.abspath(a.asan))
                     for p in found(os.path.join(build, "tests/guest"), executable)]
    slow = []
    if a.suite in ("e2e", "all"):
        slow = [(e2e, p) for p in found(os.path.join(ROOT, "tests/e2e"), lambda p: p.endswith(".sh"))]
    totals = Totals()
    chosen = [w for w in work + slow if a.only in w[1]]

    def attempt(fn, path, *more):
        fn(path, totals, build, *more)

    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        for f in [pool.submit(attempt, *w) for w in chosen if not runs_alone(w)]:
            f.result()
    for w in [w for w in chosen if runs_alone(w)]:
        attempt(*w)
    print(f"{totals.passed} passed, {totals.failed} failed", flush=True)
    return 1 if totals.failed or not totals.passed else 0


if __name__ == "__main__":
    sys.exit(main())
