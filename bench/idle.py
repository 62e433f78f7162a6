#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Idle sandboxes: memory that is theirs alone, by process and kind, and the CPU time they take.

  idle.py BUILD_DIR [--count N] [--seconds S] [--program ARGV...]

Starts N sandboxes whose program sleeps, lets them settle, and sums /proc/PID/smaps_rollup over all
processes of each: the runtime, gofer, sentry and stubs. Needs root.
"""
import argparse
import os
import signal
import subprocess
import sys
import time


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return [int(c) for c in f.read().split()]
    except OSError:
        return []


def tree(pid):
    out = [pid]
    for c in children(pid):
        out += tree(c)
    return out


def rollup(pid):
    figures = {}
    try:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            for line in f:
                k, _, v = line.partition(":")
                if v.strip().endswith("kB"):
                    figures[k] = int(v.split()[0])
    except OSError:
        pass
    return figures


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def name_of(pid):
    with open(f"/proc/{pid}/comm") as f:
        name = f.read().strip()
    # A stub is a child of the sentry with nothing of it but the name.
    with open(f"/proc/{pid}/stat") as f:
        parent = int(f.read().rsplit(")", 1)[1].split()[1])
    with open(f"/proc/{parent}/comm") as f:
        return "stub" if f.read().strip() == "caisson-sentry" else name


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("build")
    ap.add_argument("--count", type=int, default=1)
    ap.add_argument("--seconds", type=float, default=5)
    ap.add_argument("--program", nargs=argparse.REMAINDER, default=["/bin/sleep", "100000"])
    a = ap.parse_args()
    caisson = os.path.join(os.path.abspath(a.build), "caisson")
    t0 = time.monotonic()
    boxes = [subprocess.Popen([caisson, "run", "--no-tty", "--"] + a.program, stdin=subprocess.DEVNULL)
             for _ in range(a.count)]
    try:
        deadline = time.monotonic() + 60 + a.count
        while any(len(tree(b.pid)) < 5 for b in boxes) and time.monotonic() < deadline:
            time.sleep(0.05)
        started = time.monotonic() - t0
        time.sleep(min(2 + a.count / 100, 20))
        pids = [p for b in boxes for p in tree(b.pid)]
        ticks = sum(cpu_ticks(p) for p in pids)
        time.sleep(a.seconds)
        ticks = sum(cpu_ticks(p) for p in pids) - ticks
        kinds = {}
        for p in pids:
            r = rollup(p)
            k = kinds.setdefault(name_of(p), {"n": 0, "private": 0, "pss": 0, "anon": 0})
            k["n"] += 1
            k["private"] += r.get("Private_Clean", 0) + r.get("Private_Dirty", 0)
            k["pss"] += r.get("Pss", 0)
            k["anon"] += r.get("Anonymous", 0)
        print(f"{a.count} idle sandboxes, all up after {started:.2f} s; per sandbox:")
        print(f"{'process':16}{'count':>7}{'private KiB':>13}{'anonymous':>11}{'Pss KiB':>10}")
        for name, k in sorted(kinds.items()) + [("all", {f: sum(k[f] for k in kinds.values())
                                                        for f in ("n", "private", "pss", "anon")})]:
            print(f"{name:16}{k['n'] / a.count:>7.1f}{k['private'] / a.count:>13.0f}"
                  f"{k['anon'] / a.count:>11.0f}{k['pss'] / a.count:>10.0f}")
        print(f"CPU time of all in {a.seconds:g} s: {ticks / os.sysconf('SC_CLK_TCK') * 1000:.0f} ms")
    finally:
        for b in boxes:
            b.send_signal(signal.SIGKILL)
        for b in boxes:
            b.wait()


if __name__ == "__main__":
    sys.exit(main())
