#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Host side of hostile.sh: hostile.py CAISSON TMPDIR TESTS_DIR. Prints "ok NAME"/"FAIL NAME: why"."""
import fcntl
import glob
import hashlib
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time

CAISSON, TMP, TESTS = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3]
ONLY = sys.argv[4] if len(sys.argv) > 4 else ""
BIN = TMP + "/bin"
LOG = TMP + "/hostile.log"
failed = 0


def check(name, good, why=""):
    global failed
    if good:
        print(f"ok {name}", flush=True)
    else:
        failed = 1
        print(f"FAIL {name}: {str(why)[:400]!r}", flush=True)


def command(*args, opts=(), limit=20):
    return [CAISSON, "run", "--no-tty", "--log", LOG, "--log-level", "warn", "--json-file", TMP + "/json",
            "--timeout", str(limit), "--bind", BIN + ":/h", *opts, "--", *args]


def run(*args, opts=(), limit=20, **kw):
    """(exit status, output, json record, seconds)"""
    try:
        os.unlink(TMP + "/json")
    except FileNotFoundError:
        pass
    start = time.time()
    p = subprocess.run(command(*args, opts=opts, limit=limit), stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit + 30, **kw)
    try:
        record = json.load(open(TMP + "/json"))
    except (OSError, ValueError):
        record = {}
    return p.returncode, p.stdout.decode("utf-8", "replace"), record, time.time() - start


def read(path, mode="r"):
    try:
        with open(path, mode) as f:
            return f.read()
    except OSError:
        return "" if mode == "r" else b""


def parent(pid):
    m = re.search(r"^PPid:\s*(\d+)", read(f"/proc/{pid}/status"), re.M)
    return int(m.group(1)) if m else 0


def children(pid):
    return [int(d) for d in os.listdir("/proc") if d.isdigit() and parent(d) == pid]


def descendants(pid):
    table = {}
    for d in os.listdir("/proc"):
        if d.isdigit():
            table.setdefault(parent(d), []).append(int(d))
    found, todo = [], [pid]
    while todo:
        for c in table.get(todo.pop(), []):
            found.append(c)
            todo.append(c)
    return found


class Box:
    """A sandbox that runs in the background."""

    def __init__(self, *args, opts=(), limit=60, **kw):
        kw.setdefault("stdout", subprocess.PIPE)
        self.p = subprocess.Popen(command(*args, opts=opts, limit=limit), stdin=subprocess.DEVNULL,
                                  stderr=subprocess.STDOUT, **kw)
        self.sentry = self.gofer = 0
        for _ in range(400):
            for c in children(self.p.pid):
                line = read(f"/proc/{c}/cmdline")
                if "caisson-sentry" in line:
                    self.sentry = c
                if "caisson-gofer" in line:
                    self.gofer = c
            if self.sentry and self.gofer and children(self.sentry):
                break
            time.sleep(0.02)

    def wait_output(self, text, limit=15):
        got = b""
        end = time.time() + limit
        os.set_blocking(self.p.stdout.fileno(), False)
        while time.time() < end and text.encode() not in got:
            select.select([self.p.stdout], [], [], 0.1)
            got += self.p.stdout.read() or b""
        return text.encode() in got

    def all(self):
        return [self.p.pid] + descendants(self.p.pid)

    def end(self):
        self.p.kill()
        self.p.wait()


def gone(pids, limit=3.0):
    """The pids that are still there; zombies of other parents' count as gone."""
    end = time.time() + limit
    left = pids
    while left and time.time() < end:
        left = [p for p in left if os.path.exists(f"/proc/{p}/stat") and
                not re.search(r"\) [ZX] ", read(f"/proc/{p}/stat"))]
        time.sleep(0.03)
    return left


def leftovers():
    """What must be the same before and after a run."""
    mounts = [ln for ln in read("/proc/mounts").splitlines() if "caisson" in ln]
    groups = sorted(g for g in glob.glob("/sys/fs/cgroup/**/caisson-%d-*" % os.getpid(), recursive=True))
    return mounts, groups


# ---- the cases ----

def case_entry():
    status, out, record, _ = run("/h/hostile_guest", "entry")
    want = {"x32": "exit 0", "huge": "exit 77", "vsyscall": "exit 0", "vsyscall-middle": "signal 11",
            "stub-text": "exit 0", "stub-syscalls": "exit 0"}
    for name, result in want.items():
        check(f"entry by {name}", f"{name}: {result}\n" in out, out)
    for name in "int80", "sysenter":
        m = re.search(rf"^{name}: (.*)$", out, re.M)
        check(f"entry by {name}", m and m.group(1) != "exit 77", out)


def case_escape():
    root = TMP + "/root"
    for d in "bin", "tmp", "proc", "dev", "h", "etc":
        os.makedirs(f"{root}/{d}", exist_ok=True)
    shutil.copy(BIN + "/hostile_guest", root + "/bin/")
    with open(TMP + "/canary-file", "w") as f:
        f.write("canary")
    status, out, record, _ = run("/bin/hostile_guest", "escape", "canary-file", opts=("--rootfs", root))
    check("no way out of the root", "done" in out and "ESCAPED" not in out, out)


def tree_hash(top):
    h = hashlib.sha256()
    for base, dirs, files in os.walk(top):
        dirs.sort()
        for n in sorted(dirs + files) + ["."]:
            p = os.path.join(base, n)
            st = os.lstat(p)
            h.update(repr((p, st.st_ino, st.st_mode, st.st_uid, st.st_gid, st.st_nlink, st.st_size,
                           st.st_mtime_ns, st.st_ctime_ns, os.listxattr(p, follow_symlinks=False))).encode())
            if os.path.isfile(p) and not os.path.islink(p):
                h.update(read(p, "rb"))
    return h.hexdigest()


def case_vandal():
    tree = TMP + "/tree"
    os.makedirs(tree + "/d/e", exist_ok=True)
    for n in "a", "d/b", "d/e/c":
        with open(f"{tree}/{n}", "w") as f:
            f.write("original " * 100)
        os.chmod(f"{tree}/{n}", 0o666)
    os.symlink("a", tree + "/link")
    names = ["a", "d", "d/b", "d/e/c", "link", "."]
    before = tree_hash(tree)
    _, out, _, _ = run("/h/hostile_guest", "vandal", *[f"/v/{n}" for n in names], opts=("--bind", tree + ":/v:ro"))
    check("a read-only bind stays as it is", "done" in out and tree_hash(tree) == before, out)
    root = TMP + "/vroot"
    shutil.copytree(tree, root, symlinks=True)
    os.makedirs(root + "/h")
    before = tree_hash(root)
    _, out, _, _ = run("/h/hostile_guest", "vandal", *[f"/{n}" for n in names], opts=("--rootfs", root))
    check("a rootfs stays as it is", "done" in out and tree_hash(root) == before, out)
    # Other names of the same host files.
    names = ["/proc/self/root/v/a", "/proc/1/root/v/d/b", "/proc/self/cwd/v/d/e/c", "/dev/fd/../root/v/a"]
    before = tree_hash(tree)
    _, out, _, _ = run("/h/hostile_guest", "vandal", *names, opts=("--bind", tree + ":/v:ro"))
    check("nor by its other names", "done" in out and tree_hash(tree) == before, out)


def case_links():
    """Links in a writable bind lead to guest files, never to the host's of the same name."""
    rw, outside = TMP + "/rw", TMP + "/outside"
    os.makedirs(rw + "/sub")
    os.makedirs(outside + "/d")
    with open(outside + "/f", "w") as f:
        f.write("outside")
    os.symlink(outside, rw + "/abs")
    os.symlink("../outside", rw + "/rel")
    os.symlink(outside + "/f", rw + "/file")
    os.symlink("../../outside/f", rw + "/sub/file")
    before = tree_hash(outside)
    names = ["abs", "abs/f", "abs/d", "abs/new", "rel", "rel/f", "rel/new", "file", "sub/file", "sub/../rel/f",
             "../outside/f", "sub/../../outside/f"]
    _, out, _, _ = run("/h/hostile_guest", "vandal", *[f"/v/{n}" for n in names], opts=("--bind", rw + ":/v:rw"))
    check("no link leads out of a writable bind", "done" in out and tree_hash(outside) == before, out)
    check("and the bind was written", sorted(os.listdir(rw)) != ["abs", "file", "rel", "sub"], os.listdir(rw))


def case_fds():
    secret = TMP + "/secret-dir"
    os.makedirs(secret, exist_ok=True)
    fds = [os.open("/", os.O_RDONLY | os.O_DIRECTORY), os.open(secret, os.O_RDONLY | os.O_DIRECTORY)]
    fds += [os.open("/etc/passwd", os.O_RDONLY) for _ in range(298)]
    box = Box("sh", "-c", "echo up; sleep 30", pass_fds=fds)
    up = box.wait_output("up")
    allowed = re.compile(r"^(/dev/null|pipe:.*|socket:.*|anon_inode:.*|/memfd:.*|.*/hostile\.log|"
                         r"/0/(usr|bin|lib)[^/]*/.*|/0/etc/ld.so.cache)$")
    for who, pid in ("sentry", box.sentry), ("gofer", box.gofer):
        links = [os.readlink(p) for p in glob.glob(f"/proc/{pid}/fd/*")]
        odd = [ln for ln in links if not allowed.match(ln) and not (who == "gofer" and re.match("/[01](/(usr|var|etc|bin|lib|lib64))?$", ln))]
        check(f"the {who} holds no fd of the caller", up and links and not odd, odd or links)
        check(f"the {who} holds few fds", 3 < len(links) < 60, len(links))
    for pid in children(box.sentry):
        links = [os.readlink(p) for p in glob.glob(f"/proc/{pid}/fd/*")]
        check("a stub holds no fd", not links, links)
    box.end()
    _, out, _, _ = run("sh", "-c", "ls /proc/self/fd", pass_fds=fds)
    check("the guest sees 0, 1 and 2", out.split() == ["0", "1", "2", "3"], out)
    for fd in fds:
        os.close(fd)


def case_hidden():
    """Nothing of the host by any name; the list is of what this host has."""
    box = Box("sh", "-c", "sleep 20")
    probe = r"""
import os
bad = []
for alias in '', '/proc/self/root', '/proc/1/root', '/proc/self/cwd', '/proc/thread-self/root', '/alias/..':
    for p in '/etc/shadow', '/etc/machine-id', '/root/.bashrc', '/etc/gshadow':
        try:
            open(alias + p).read()
            bad.append(alias + p)
        except OSError:
            pass
for p in '/alias/shadow', '/alias/gshadow', '/alias/machine-id', '/hl/hard':
    try:
        open(p).read()
        bad.append(p)
    except OSError:
        pass
pids = [int(p) for p in os.listdir('/proc') if p.isdigit()]
print('BAD', bad, 'PIDS', len(pids))
"""
    hard = TMP + "/hard"
    os.makedirs(hard, exist_ok=True)
    try:
        os.link("/etc/shadow", hard + "/hard")
    except OSError:
        pass
    _, out, _, _ = run("python3", "-c", probe, opts=("--bind", "/etc:/alias:ro", "--bind", hard + ":/hl:ro"))
    shutil.rmtree(hard)
    check("hidden files have no other name", "BAD []" in out, out)
    check("no process of the host shows", "PIDS 1\n" in out, out)
    box.end()


def case_host_values():
    values = {"boot id": read("/proc/sys/kernel/random/boot_id"), "machine id": read("/etc/machine-id"),
              "host name": os.uname().nodename, "kernel release": os.uname().release, "kernel version": os.uname().version,
              "product": read("/sys/class/dmi/id/product_uuid"), "serial": read("/sys/class/dmi/id/product_serial"),
              "path of the log": LOG, "path of the bind": BIN}
    probe = r"""
import os, sys
out = sys.stdout.buffer
def dump(p):
    try:
        fd = os.open(p, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return
    try:
        data = os.read(fd, 1 << 20)
    except OSError:
        data = b''
    os.close(fd)
    out.write(b'\n== ' + p.encode() + b'\n' + data)
for top in '/proc', '/sys':
    for base, dirs, files in os.walk(top):
        if base.count('/') > 9:
            dirs[:] = []
        for f in files + dirs:
            p = base + '/' + f
            if os.path.islink(p):
                out.write(('\n== %s -> %s\n' % (p, os.readlink(p))).encode())
        for f in files:
            p = base + '/' + f
            if not os.path.islink(p) and f not in ('kmsg', 'mem', 'kcore', 'pagemap'):
                dump(p)
"""
    _, out, record, _ = run("python3", "-c", probe, limit=40)
    check("guest files were read", record.get("reason") == "ok" and out.count("\n== ") > 100, out[-300:])
    for name, value in values.items():
        value = value.strip()
        if len(value) < 5:
            continue
        at = out.find(value)
        where = out.rfind("\n== ", 0, at)
        check(f"the host's {name} is nowhere", at < 0, out[where:where + 200])


def case_terminal():
    master, slave = pty.openpty()
    attrs = fcntl.fcntl(master, fcntl.F_GETFL)
    fcntl.fcntl(master, fcntl.F_SETFL, attrs | os.O_NONBLOCK)
    argv = [a for a in command("/h/hostile_guest", "tioc")]
    argv[argv.index("--no-tty")] = "--tty"
    p = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                         preexec_fn=lambda: fcntl.ioctl(0, 0x540E, 0))
    out, end = b"", time.time() + 25
    while time.time() < end and p.poll() is None:
        select.select([master], [], [], 0.1)
        try:
            out += os.read(master, 4096)
        except OSError:
            pass
    p.kill()
    p.wait()
    fcntl.fcntl(slave, fcntl.F_SETFL, os.O_NONBLOCK)
    try:
        pushed = os.read(slave, 100)
    except OSError:
        pushed = b""
    check("TIOCSTI and TIOCLINUX do nothing, with high bits too", b"tioc: 0" in out, out)
    check("nothing was typed into the caller's terminal", not pushed, pushed)
    os.close(master)
    os.close(slave)


def rss(pids):
    total = 0
    for p in pids:
        m = re.search(r"^Pss:\s*(\d+)", read(f"/proc/{p}/smaps_rollup"), re.M)
        total += int(m.group(1)) if m else 0
    return total


BOMBS = [
    # mode, extra, reasons that are a clean end
    ("memory", "", {"oom"}), ("shared", "", {"oom", "ok"}), ("tmpfs", "", {"oom", "ok"}),
    ("names", "", {"ok", "oom"}), ("fork", "", {"ok"}), ("thread", "", {"ok"}),
    ("fds", "pipe", {"ok", "oom"}), ("fds", "socket", {"ok", "oom"}), ("fds", "epoll", {"ok", "oom"}),
    ("fds", "flight", {"ok", "oom"}),
]


def case_bombs():
    before = leftovers()
    bombs = [(*b, "") for b in BOMBS]
    if os.geteuid() == 0: # a host that has no cgroups to offer: the sentry's own count must do
        bombs += [("fds", "pipe", {"oom"}, ", no cgroup"), ("memory", "", {"oom"}, ", no cgroup")]
    for mode, extra, good, where in bombs:
        name = f"{mode} {extra}".strip() + where
        cmd = command("/h/hostile_guest", mode, extra, opts=("--memory", "128m", "--pids", "64"), limit=12)
        if where:
            cmd = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"', "sh", *cmd]
        p = subprocess.Popen(cmd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        peak, pids, most = 0, [], 0
        while p.poll() is None:
            pids = descendants(p.pid) or pids
            most = max(most, len(pids))
            peak = max(peak, rss(pids))
            time.sleep(0.1)
        record = json.loads(read(TMP + "/json") or "{}")
        check(f"bomb {name}: ends with a reason", record.get("reason") in good, record)
        check(f"bomb {name}: within its memory", peak < 128 * 1024 * 1.3 + 16384, f"{peak} KiB")
        check(f"bomb {name}: within its processes", most <= 64 + 8, most)
        check(f"bomb {name}: nothing is left", not gone(pids), pids)
    check("no mounts and cgroups are left", leftovers() == before, leftovers())


def case_oom():
    """The host's OOM killer takes guest memory, and the sandbox goes on and says how it ended."""
    box = Box("sh", "-c", "sleep 100 & echo up; wait")
    box.wait_output("up")
    score = {p: int(read(f"/proc/{p}/oom_score_adj") or 0) for p in box.all()}
    stubs = children(box.sentry)
    check("stubs are killed before the sentry", len(stubs) >= 2 and
          all(score[p] >= min(1000, score[box.sentry] + 500) for p in stubs), score)
    box.end()
    # A limit that the sandbox knows nothing of.
    v2 = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
    group = "/sys/fs/cgroup/%scaisson-test-%d" % ("" if v2 else "memory/", os.getpid())
    try:
        os.mkdir(group)
        with open(group + ("/memory.max" if v2 else "/memory.limit_in_bytes"), "w") as f:
            f.write("150M")
    except OSError as e:
        print(f"# no cgroup to limit memory with: {e}")
        if os.path.isdir(group):
            os.rmdir(group)
        return
    events = group + ("/memory.events" if v2 else "/memory.oom_control")
    try:
        enter = lambda: open(group + "/cgroup.procs", "w").write(str(os.getpid()))
        big = "python3 -c 'x = bytearray(400 << 20)'; echo after $?"
        status, out, record, _ = run("bash", "-c", big, limit=60, preexec_fn=enter)
        check("a process that outgrows the host's limit is killed, no other", "after 137" in out and
              record.get("reason") == "ok", (out, record))
        check("it was the host's OOM killer", re.search(r"^oom_kill [1-9]", read(events), re.M), read(events))
        status, out, record, _ = run("python3", "-c", "x = bytearray(400 << 20)", limit=60, preexec_fn=enter)
        check("and so is the first process", status == 137 and record.get("reason") in ("signaled", "oom"),
              (status, record))
    finally:
        for _ in range(100):
            try:
                os.rmdir(group)
                break
            except OSError:
                time.sleep(0.05)


def case_ends():
    status, _, record, _ = run("sh", "-c", "kill -9 $$")
    check("kill -9", status == 137 and record.get("reason") == "signaled", (status, record))
    status, _, record, took = run("sh", "-c", "trap '' TERM INT HUP; sleep 100 & exec sleep 100", limit=1)
    check("timeout", status == 124 and record.get("reason") == "timeout" and took < 4, (status, record, took))
    # A guest that never enters the kernel.
    status, _, record, took = run("python3", "-c", "while True: pass", limit=2)
    check("timeout of a busy guest", status == 124 and took < 5, (status, record, took))
    # A vfork parent can only wait.
    status, _, record, took = run("/h/hostile_guest", "vfork", limit=1)
    check("timeout while in vfork", status == 124 and took < 4, (status, record, took))


def stopped_gofer(name, finish, limit, patience):
    box = Box("sh", "-c", "echo up; while :; do cat /usr/include/*.h /usr/share/doc/*/* >/dev/null 2>&1; done",
              limit=limit)
    box.wait_output("up")
    pids = box.all()
    os.kill(box.gofer, signal.SIGSTOP)
    time.sleep(0.3)
    start = time.time()
    finish(box)
    try:
        box.p.wait(6)
    except subprocess.TimeoutExpired:
        pass
    took = time.time() - start
    left = gone(pids, 1)
    check(f"a stopped gofer, {name}", not left and took < patience, (took, left))
    for p in left + [box.gofer]:
        try:
            os.kill(p, signal.SIGKILL)
        except ProcessLookupError:
            pass
    box.end()


def case_kills():
    for who in "sentry", "gofer", "caisson":
        box = Box("sh", "-c", "sleep 100 & echo up; sleep 100")
        box.wait_output("up")
        pids = box.all()
        os.kill({"sentry": box.sentry, "gofer": box.gofer, "caisson": box.p.pid}[who], signal.SIGKILL)
        if who == "gofer": # the guest may go on with what it has, until the sandbox ends
            time.sleep(0.2)
            box.p.send_signal(signal.SIGTERM)
        try:
            box.p.wait(5)
        except subprocess.TimeoutExpired:
            pass
        left = gone(pids)
        check(f"{who} killed: all vanish", len(pids) >= 5 and not left, (pids, left))
        box.end()
    stopped_gofer("timeout", lambda box: None, 3, 4)
    stopped_gofer("caisson killed", lambda box: box.p.kill(), 20, 1)
    stopped_gofer("sentry killed", lambda box: os.kill(box.sentry, signal.SIGKILL), 20, 1)
    stopped_gofer("TERM", lambda box: box.p.terminate(), 20, 1)


def case_stop():
    box = Box("sh", "-c", "echo up; sleep 2; echo slept")
    box.wait_output("up")
    for _ in range(3):
        for sig in signal.SIGSTOP, signal.SIGCONT:
            for pid in box.sentry, box.gofer:
                os.kill(pid, sig)
            time.sleep(0.1)
    slept = box.wait_output("slept")
    check("stopped and continued, the sandbox goes on", slept and box.p.wait(10) == 0, box.p.returncode)


def ticks(pids):
    return {p: sum(map(int, read(f"/proc/{p}/stat").rsplit(")", 1)[1].split()[11:13])) for p in pids}


def case_idle():
    box = Box("sleep", "1000")
    time.sleep(1.5)
    pids = box.all()
    a = ticks(pids)
    time.sleep(5)
    b = ticks(pids)
    check("an idle sandbox takes no time", len(pids) >= 4 and a == b, (a, b))
    check("and little memory", rss(pids) < 40 << 10, f"{rss(pids)} KiB")
    box.end()


def case_racer():
    for mode, arg in ("racer", "2"), ("sigreturn", "1500"):
        _, out, record, _ = run("/h/hostile_guest", mode, arg, limit=30)
        check(f"{mode}", "done" in out and record.get("reason") == "ok", (record, out[-200:]))


def case_edges():
    """0, 1, -1, 2^31-1 … 2^64-1 for each argument of every call; the sandbox survives all."""
    _, out, record, _ = run("/h/hostile_guest", "edges", opts=("--memory", "1g", "--pids", "100"), limit=100)
    made = re.search(r"edges of (\d+) calls", out)
    check("edges of every integer argument", made and int(made.group(1)) > 450 and "done" in out and
          record.get("reason") == "ok", (record, out[-200:]))
    check("and no crash", not re.search(r"crashed|panic", read(LOG)), read(LOG)[-300:])


def case_fuzz():
    _, out, record, _ = run("/h/syscall_fuzz", str(int(time.time())), "8",
                            opts=("--memory", "600m", "--pids", "300"), limit=25)
    check("random system calls", record.get("reason") in ("ok", "signaled"), (record, out[:60]))
    _, out, record, _ = run("/h/elf_fuzz", str(int(time.time())), "4", limit=25)
    check("mutated programs", "elf: done" in out and record.get("reason") == "ok", (record, out[-60:]))
    crash = re.search(r".*(crashed|panic).*", read(LOG))
    check("no crash in the log", not crash, crash and crash.group(0))


def case_trace():
    if not shutil.which("strace"):
        return
    golden = {w: set(read(f"{TESTS}/golden/{w}_calls.txt").split()) for w in ("sentry", "gofer", "stub")}
    d = TMP + "/trace"
    os.makedirs(d)
    p = subprocess.run(["strace", "-f", "-ff", "-qq", "-s", "300", "--decode-pids=pidns", "-o", d + "/t"] +
                       command("/h/hostile_guest", "calls", limit=200), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, timeout=240)
    check("the guest ran under trace", b"done" in p.stdout, p.stdout[-300:])
    files = {int(f.rsplit(".", 1)[1]): read(f) for f in glob.glob(d + "/t.*")}
    kind = {}
    for pid, text in files.items():
        for who in "sentry", "gofer":
            if re.search(rf'^exec.*caisson-{who}', text, re.M):
                kind[pid] = who
    grew = True
    while grew:
        grew = False
        for pid, text in files.items():
            for m in re.finditer(r"^(?:clone3?|<\.\.\. clone3? resumed>)\((.*?) = (\d+)(?: /\* (\d+) in strace)?", text, re.M):
                child = int(m.group(3) or m.group(2))
                if pid in kind and child in files and child not in kind:
                    kind[child] = kind[pid] if "CLONE_THREAD" in m.group(1) and kind[pid] != "stub" else "stub"
                    grew = True
    odd, counts = {}, {}
    for pid, text in files.items():
        who = kind.get(pid)
        if not who:
            continue
        lines = text.splitlines()
        if who != "stub" and re.search(r"^exec", text, re.M):
            lock = max(i for i, ln in enumerate(lines) if ln.startswith("seccomp(")) if "seccomp(" in text else 0
            lines = lines[lock + 1:]
        if who == "stub" and "seccomp(" in text: # the first of them, made from the sentry
            lines = lines[max(i for i, ln in enumerate(lines) if ln.startswith("seccomp(")) + 1:]
        for i, ln in enumerate(lines):
            m = re.match(r"(\w+)\(", ln)
            if not m:
                continue
            refused = "ENOSYS" in ln or any("SIGSYS" in x for x in lines[i + 1:i + 2])
            counts.setdefault(who, set()).add(m.group(1)) if not refused else None
            # uretprobe and uprobe pass seccomp by the kernel's design, and fail (systrap README).
            if who == "stub" and m.group(1) in ("syscall_0x14f", "syscall_0x150", "uretprobe", "uprobe"):
                continue
            if m.group(1) not in golden[who] and not refused:
                odd.setdefault(who, set()).add(ln[:90])
    for who in golden:
        check(f"traced {who} makes its own calls only", who in counts and who not in odd, odd.get(who, "not seen"))
    print("# calls seen: " + ", ".join(f"{w} {len(c)}" for w, c in sorted(counts.items())))


for fn_name, fn in list(globals().items()):
    if fn_name.startswith("case_") and ONLY in fn_name:
        start = time.time()
        try:
            fn()
        except Exception as e: # a case that breaks is a failure, and the others go on
            check(fn_name, False, repr(e))
        if ONLY or os.environ.get("TIMES"):
            print(f"# {fn_name}: {time.time() - start:.1f} s")
sys.exit(failed)
