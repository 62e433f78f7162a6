#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: native against Caisson (and peers), interleaved in one run, medians and spreads.

  run.py BUILD_DIR [--reps N] [--only SUBSTRING] [--json FILE] [--peer NAME=COMMAND]...

COMMAND is what stands before the program's own argv, split at spaces: for instance
  --peer "bwrap=bwrap --bind / / --dev /dev --proc /proc --unshare-all --"
Ratios are the numbers to look at; absolute times depend on the machine.
"""
import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

C_PROJECT = r"""
for i in $(seq 1 12); do
  printf '#include <stdio.h>\n#include <string.h>\n#include <stdlib.h>\nint f%d(int x) { char b[64]; snprintf(b, sizeof b, "%%d", x); return (int)strlen(b) + atoi(b); }\n' "$i" > "f$i.c"
done
for i in $(seq 1 12); do gcc -O1 -c "f$i.c" || exit 1; done
ar rcs libf.a f*.o
"""

# Whole programs: name, argv, how many runs make one sample.
PROGRAMS = [
    ("start-true", ["/bin/true"], 10),
    ("start-python", ["/usr/bin/python3", "-S", "-c", "pass"], 3),
    ("python-imports", ["/usr/bin/python3", "-c", "import json, ssl, asyncio, decimal, http.client"], 2),
    ("shell-forks", ["/bin/sh", "-c", "i=0; while [ $i -lt 200 ]; do /bin/true; i=$((i+1)); done"], 1),
    ("find-usr-include", ["/usr/bin/find", "/usr/include", "-type", "f"], 1),
    ("compile-project", ["/bin/sh", "-c", "cd $(mktemp -d) && " + C_PROJECT], 1),
    ("tar-xz", ["/bin/sh", "-c", "tar cf - /usr/include/linux | xz -1 | wc -c"], 1),
]


def run(cmd):
    t0 = time.monotonic()
    p = subprocess.run(cmd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    dt = time.monotonic() - t0
    if p.returncode != 0:
        sys.stderr.write(f"{' '.join(cmd)[:200]}: exit {p.returncode}: {p.stderr.decode()[-300:]}\n")
        return None, ""
    return dt, p.stdout.decode()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("build")
    ap.add_argument("--reps", type=int, default=5)
    ap.add_argument("--only", default="")
    ap.add_argument("--json")
    ap.add_argument("--peer", action="append", default=[])
    a = ap.parse_args()
    build = os.path.abspath(a.build)
    work = tempfile.mkdtemp(prefix="caisson-bench-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    micro = os.path.join(work, "micro")
    shutil.copy(os.path.join(build, "bench/micro"), micro)
    caisson = [os.path.join(build, "caisson"), "run", "--no-tty"]
    # micro writes a scratch file where it runs: tmpfs natively and inside.
    runners = {"native": (["env", "-C", work], []),
               "caisson": (caisson + ["--bind", work + ":/bench:ro", "--workdir", "/tmp", "--"], [])}
    for spec in a.peer:
        name, cmd = spec.split("=", 1)
        runners[name] = (shlex.split(cmd), [])
    samples = {}

    def note(row, runner, ns):
        samples.setdefault(row, {}).setdefault(runner, []).append(ns)

    for rep in range(a.reps):
        for name, (prefix, _) in runners.items():
            exe = "/bench/micro" if name == "caisson" else micro
            names = [] if not a.only else None
            if names is None:
                listing = [r for r in MICRO if a.only in r]
                if not listing:
                    continue
                names = listing
            dt, out = run(prefix + [exe] + names)
            for line in out.splitlines():
                row, ns = line.rsplit(" ", 1)
                note(row, name, float(ns))
        for row, argv, count in PROGRAMS:
            if a.only and a.only not in row:
                continue
            for name, (prefix, _) in runners.items():
                pre = [] if name == "native" else prefix
                total = 0.0
                for _ in range(count):
                    dt, _ = run(pre + argv)
                    if dt is None:
                        total = None
                        break
                    total += dt
                if total is not None:
                    note(row, name, total / count * 1e9)
    shutil.rmtree(work, ignore_errors=True)
    others = [n for n in runners if n != "native"]
    print(f"{'':20}{'native':>14}" + "".join(f"{n:>14}{'ratio':>9}{'spread':>8}" for n in others))
    table = {}
    for row, by in samples.items():
        if "native" not in by:
            continue
        base = statistics.median(by["native"])
        line = f"{row:20}{base:>11.0f} ns"
        table[row] = {"native_ns": base}
        for n in others:
            if n not in by:
                line += f"{'failed':>14}{'':>17}"
                continue
            med = statistics.median(by[n])
            spread = (max(by[n]) - min(by[n])) / med * 100
            line += f"{med:>11.0f} ns{med / base:>9.2f}{spread:>7.0f}%"
            table[row][n + "_ns"] = med
            table[row][n + "_ratio"] = round(med / base, 3)
        print(line)
    if a.json:
        with open(a.json, "w") as f:
            json.dump({"reps": a.reps, "machine": os.uname().release, "rows": table}, f, indent=1)


MICRO = ["getppid", "clock_gettime", "sched_yield", "lseek", "fstat", "pread-1B-tmpfs", "pread-4K-tmpfs",
         "pwrite-4K-tmpfs", "pread-4K-rootfs", "pread-1M-rootfs", "stat-hit", "stat-miss", "open-close",
         "create-unlink", "pipe-pingpong", "pipe-64K", "fork-exit", "vfork-exec", "thread-create",
         "futex-contention", "futex-pingpong", "mmap-munmap", "page-fault", "signal"]

if __name__ == "__main__":
    main()
