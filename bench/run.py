#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: native against Caisson (and peers), interleaved in one run, medians and spreads.

  run.py BUILD_DIR [--reps N] [--only SUBSTRING] [--json FILE] [--peer SPEC]... [--sources DIR]

SPEC is NAME=COMMAND -- for a program that runs another one: COMMAND stands before its argv, split at
spaces; or [NAME=]PATH [GLOBAL OPTIONS] of an OCI runtime, which gets a bundle for each run (root only):
  --peer "bwrap=bwrap --bind / / --dev /dev --proc /proc --tmpfs /tmp --unshare-all --"
  --peer runc --peer "runsc=/usr/local/bin/runsc --platform=systrap --network=none"
--sources DIR holds unpacked sources to build, DIR/zlib and DIR/lua; rows without their program or
sources are left out. Ratios are the numbers to look at; absolute times depend on the machine.
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

# Small programs by the dozen, as a configure script runs them.
CONFIGURE = r"""
cd $(mktemp -d)
for i in $(seq 1 25); do
  printf 'int main(void) { return 0; }\n' > conftest.c
  x=$(expr "x$i" : 'x\(.*\)'); y=$(echo "feature $x" | sed 's/feature/have/')
  case $(uname -s) in Linux) ;; *) exit 1 ;; esac
  grep -q main conftest.c && test -r conftest.c && rm -f conftest.c
  cat /dev/null > config.log; basename "/a/b/$y" > /dev/null
done
"""

SQLITE = """
import sqlite3, os
p = '/tmp/bench-%d.db' % os.getpid()
d = sqlite3.connect(p)
d.execute('create table t(a integer primary key, b text, c real)')
for r in range(20):
    with d:
        d.executemany('insert into t(b, c) values(?, ?)', (('row %d' % i, i * 0.5) for i in range(1000)))
d.execute('create index ti on t(b)')
for i in range(2000):
    d.execute('select c from t where b = ?', ('row %d' % (i % 1000),)).fetchone()
with d:
    d.execute('update t set c = c + 1 where a % 3 = 0')
    d.execute('delete from t where a % 7 = 0')
d.execute('vacuum')
d.close()
os.unlink(p)
"""

REDIS = r"""
cd /tmp; redis-server --port 7391 --save "" --appendonly no --daemonize no > /dev/null 2>&1 &
i=0; until redis-cli -p 7391 ping > /dev/null 2>&1; do i=$((i+1)); [ $i -gt 100 ] && exit 1; sleep 0.1; done
redis-benchmark -p 7391 -q -t set,get -n 20000 -c 20 > /dev/null; r=$?
redis-cli -p 7391 shutdown nosave > /dev/null 2>&1; exit $r
"""

BUILD_ZLIB = "cd $(mktemp -d) && cp -r /bench/zlib/. . && ./configure --static > /dev/null && make -s libz.a > /dev/null"
BUILD_LUA = "cd $(mktemp -d) && cp -r /bench/lua/. . && cd src && for f in l*.c; do gcc -O1 -w -c $f || exit 1; done"

# Whole programs: name, argv, how many runs make one sample, what must be there.
PROGRAMS = [
    ("start-true", ["/bench/true"], 10, None),
    ("start-true-dynamic", ["/bin/true"], 10, None),
    ("start-python", ["/usr/bin/python3", "-S", "-c", "pass"], 3, None),
    ("python-imports", ["/usr/bin/python3", "-c", "import json, ssl, asyncio, decimal, http.client"], 2, None),
    ("python-numpy", ["/usr/bin/python3", "-c", "import numpy, json, ssl"], 1, "/usr/lib/python3/dist-packages/numpy"),
    ("shell-forks", ["/bin/sh", "-c", "i=0; while [ $i -lt 200 ]; do /bin/true; i=$((i+1)); done"], 1, None),
    ("configure-like", ["/bin/sh", "-c", CONFIGURE], 1, None),
    ("find-usr-include", ["/usr/bin/find", "/usr/include", "-type", "f"], 1, None),
    ("compile-project", ["/bin/sh", "-c", "cd $(mktemp -d) && " + C_PROJECT], 1, "/usr/bin/gcc"),
    ("compile-zlib", ["/bin/sh", "-c", BUILD_ZLIB], 1, "/bench/zlib"),
    ("compile-lua", ["/bin/sh", "-c", BUILD_LUA], 1, "/bench/lua"),
    ("tar-xz", ["/bin/sh", "-c", "tar cf - /usr/include/linux | xz -1 | wc -c"], 1, "/usr/bin/xz"),
    ("sqlite", ["/usr/bin/python3", "-c", SQLITE], 1, None),
    ("redis-loopback", ["/bin/sh", "-c", "PATH=/usr/bin:/bin\n" + REDIS], 1, "/usr/bin/redis-server"),
]

# Several sandboxes that compute and call at once; the figure is the time until all are done.
BUSY = [1, 2, 8, 64]
BUSY_CALLS = 200000  # of all together


def run(cmd):
    t0 = time.monotonic()
    p = subprocess.run(cmd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    dt = time.monotonic() - t0
    if p.returncode != 0:
        sys.stderr.write(f"{' '.join(cmd)[:200]}: exit {p.returncode}: {p.stderr.decode()[-300:]}\n")
        return None, ""
    return dt, p.stdout.decode()


class Native:
    """Runs in a tmpfs, as the sandboxes' /tmp is one."""
    name = "native"

    def __init__(self, scratch):
        self.prefix = ["env", "-C", scratch, "TMPDIR=" + scratch]

    def command(self, argv):
        return self.prefix + argv


class Prefix:
    def __init__(self, name, words):
        self.name = name
        self.words = words

    def command(self, argv):
        return self.words + argv


class Oci:
    """An OCI runtime: a bundle whose root is a bind mount of the host's, all namespaces new."""

    def __init__(self, name, words, work):
        self.name = name
        self.words = words
        self.dir = os.path.join(work, "bundle-" + name)
        self.root = os.path.join(self.dir, "rootfs")
        self.count = 0
        os.makedirs(self.root)
        subprocess.run(["mount", "--bind", "/", self.root], check=True)

    def command(self, argv):
        self.count += 1
        bundle = os.path.join(self.dir, str(self.count % 100))
        os.makedirs(bundle, exist_ok=True)
        tmpfs = lambda at: {"destination": at, "type": "tmpfs", "source": "tmpfs", "options": ["mode=1777"]}
        config = {
            "ociVersion": "1.0.2",
            "process": {"terminal": False, "user": {"uid": 0, "gid": 0}, "cwd": "/tmp", "args": argv,
                        "env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"],
                        "noNewPrivileges": True},
            "root": {"path": self.root, "readonly": True},
            "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}, tmpfs("/tmp"),
                       {"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
                        "options": ["nosuid", "mode=755"]}],
            "linux": {"namespaces": [{"type": t} for t in ("pid", "network", "ipc", "uts", "mount")]},
        }
        with open(os.path.join(bundle, "config.json"), "w") as f:
            json.dump(config, f)
        return self.words + ["run", "--bundle", bundle, f"bench-{os.getpid()}-{self.count}"]

    def close(self):
        subprocess.run(["umount", "-l", self.root])


def make_peer(spec, work):
    name, eq, rest = spec.partition("=")
    # An option's own "=" is no name.
    if not eq or " " in name or "/" in name:
        name, rest = "", spec
    words = shlex.split(rest)
    name = name or os.path.basename(words[0])
    if words[-1] == "--":
        return Prefix(name, words)
    return Oci(name, words, work)


def busy(runner, count):
    """Seconds until `count` at once have done their share, their starts included; None: one failed."""
    argv = ["/bench/micro", "--busy", str(BUSY_CALLS // count)]
    cmds = [runner.command(argv) for _ in range(count)]
    t0 = time.monotonic()
    procs = [subprocess.Popen(c, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) for c in cmds]
    bad = [p.wait() for p in procs]
    return None if any(bad) else time.monotonic() - t0


def measure(a, runners, note):
    for rep in range(a.reps):
        for r in runners:
            names = [m for m in MICRO if a.only in m]
            if names:
                _, out = run(r.command(["/bench/micro"] + names))
                for line in out.splitlines():
                    row, ns = line.rsplit(" ", 1)
                    note(row, r.name, float(ns))
        for row, argv, count, needs in PROGRAMS:
            if a.only not in row or (needs and not os.path.exists(needs)):
                continue
            for r in runners:
                times = [run(r.command(argv))[0] for _ in range(count)]
                if None not in times:
                    note(row, r.name, sum(times) / count * 1e9)
        for count in BUSY:
            row = f"busy-{count}"
            if a.only not in row:
                continue
            for r in runners:
                t = busy(r, count)
                if t is not None:
                    note(row, r.name, t * 1e9)


def report(samples, names):
    others = [n for n in names if n != "native"]
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
    return table


def versions(runners):
    out = {"kernel": os.uname().release}
    for r in runners:
        if not isinstance(r, Native):
            p = subprocess.run([r.words[0], "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
            out[r.name] = p.stdout.strip().splitlines()[0] if p.stdout.strip() else "?"
    return out


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("build")
    ap.add_argument("--reps", type=int, default=5)
    ap.add_argument("--only", default="")
    ap.add_argument("--json")
    ap.add_argument("--peer", action="append", default=[])
    ap.add_argument("--sources")
    a = ap.parse_args()
    build = os.path.abspath(a.build)
    work = tempfile.mkdtemp(prefix="caisson-bench-", dir="/var/tmp")
    scratch = tempfile.mkdtemp(prefix="caisson-bench-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    bench = "/bench"  # where every runner sees it, since nobody mounts over it
    try:
        os.mkdir(bench, 0o755)
    except FileExistsError:
        sys.exit("/bench is in the way; it is made for the run")
    runners = []
    try:
        for f in ("micro", "true"):
            shutil.copy(os.path.join(build, "bench", f), bench)
        for f in os.listdir(a.sources) if a.sources else []:
            if f in ("zlib", "lua"):
                shutil.copytree(os.path.join(a.sources, f), os.path.join(bench, f))
        runners = [Native(scratch),
                   Prefix("caisson", [os.path.join(build, "caisson"), "run", "--no-tty", "--workdir", "/tmp", "--"])]
        runners += [make_peer(p, work) for p in a.peer]
        samples = {}
        measure(a, runners, lambda row, who, ns: samples.setdefault(row, {}).setdefault(who, []).append(ns))
        about = versions(runners)
        table = report(samples, [r.name for r in runners])
        print("; ".join(f"{k}: {v}" for k, v in about.items()))
        if a.json:
            with open(a.json, "w") as f:
                json.dump({"reps": a.reps, "versions": about, "rows": table}, f, indent=1)
    finally:
        for r in runners:
            if isinstance(r, Oci):
                r.close()
        shutil.rmtree(bench, ignore_errors=True)
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.rmtree(work, ignore_errors=True)


MICRO = ["getppid", "clock_gettime", "sched_yield", "lseek", "fstat", "pread-1B-tmpfs", "pread-4K-tmpfs",
         "pwrite-4K-tmpfs", "pread-4K-rootfs", "pread-1M-rootfs", "stat-hit", "stat-miss", "open-close",
         "create-unlink", "pipe-pingpong", "pipe-64K", "fork-exit", "vfork-exec", "thread-create",
         "futex-contention", "futex-pingpong", "mmap-munmap", "page-fault", "signal"]

if __name__ == "__main__":
    main()
