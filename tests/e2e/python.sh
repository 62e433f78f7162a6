# SPDX-License-Identifier: Apache-2.0
# Debian's python3: threads, processes, databases, event loops.
. "$(dirname "$0")/../lib/e2e.sh"
PY=/usr/bin/python3

py() {
	same "$1" $PY -c "$2"
}

py "hello" 'import sys; print("hello", sys.version_info[:2]); sys.exit(5)'
py "threads" '
import threading
n = 0
lock = threading.Lock()
def work():
    global n
    for _ in range(1000):
        with lock:
            n += 1
ts = [threading.Thread(target=work) for _ in range(16)]
[t.start() for t in ts]; [t.join() for t in ts]
print(n)'
py "subprocess" '
import subprocess
print(subprocess.run(["sh", "-c", "cat; echo err >&2; exit 3"], input=b"in", capture_output=True))
p = subprocess.Popen(["sleep", "10"]); p.terminate(); print(p.wait())
try: subprocess.run(["no-such-program"])
except FileNotFoundError as e: print(e.errno)
try: subprocess.run(["sleep", "5"], timeout=0.2)
except subprocess.TimeoutExpired: print("timeout")'
py "multiprocessing" '
import multiprocessing as mp
def f(x): return x * x
if __name__ == "__main__":
    with mp.Pool(4) as p: print(sum(p.map(f, range(100))))
    q = mp.Queue(); ps = [mp.Process(target=q.put, args=(i,)) for i in range(4)]
    [p.start() for p in ps]; print(sorted(q.get() for _ in ps)); [p.join() for p in ps]
    v = mp.Value("i", 0)
    def add():
        for _ in range(100):
            with v.get_lock(): v.value += 1
    ps = [mp.Process(target=add) for _ in range(3)]
    [p.start() for p in ps]; [p.join() for p in ps]; print(v.value)'
py "shared memory" '
from multiprocessing import shared_memory
s = shared_memory.SharedMemory(create=True, size=100); t = shared_memory.SharedMemory(s.name)
s.buf[0] = 42; print(t.buf[0]); t.close(); s.close(); s.unlink()'
py "sqlite" '
import sqlite3, os, tempfile
os.chdir(tempfile.mkdtemp())
for mode in ("DELETE", "WAL"):
    c = sqlite3.connect("t.db"); print(c.execute("pragma journal_mode=" + mode).fetchone())
    c.execute("create table if not exists t(a, b)")
    with c: c.executemany("insert into t values(?, ?)", ((i, str(i)) for i in range(1000)))
    d = sqlite3.connect("t.db"); print(d.execute("select count(*), sum(a) from t").fetchone())
    c.close(); d.close()'
py "ssl" 'import ssl, hashlib; print(ssl.create_default_context().verify_mode, hashlib.sha256(b"x").hexdigest())'
py "asyncio" '
import asyncio
async def w(i):
    await asyncio.sleep(0.01 * (5 - i)); return i
async def main():
    print(await asyncio.gather(*(w(i) for i in range(5))))
    p = await asyncio.create_subprocess_exec("echo", "sub", stdout=asyncio.subprocess.PIPE)
    print((await p.communicate())[0], p.returncode)
    s = await asyncio.start_unix_server(lambda r, w: (w.write(b"hi"), w.close()), "/tmp/caisson-e2e.sock")
    r, wr = await asyncio.open_unix_connection("/tmp/caisson-e2e.sock"); print(await r.read()); wr.close(); s.close()
asyncio.run(main())
import os; os.unlink("/tmp/caisson-e2e.sock")'
py "signals" '
import signal, os, time
signal.signal(signal.SIGALRM, lambda *a: print("alarm"))
signal.setitimer(signal.ITIMER_REAL, 0.05); signal.pause()
print(signal.sigtimedwait([signal.SIGUSR1], 0.01))
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]); os.kill(os.getpid(), signal.SIGUSR1)
print(signal.sigpending(), signal.sigwaitinfo([signal.SIGUSR1]).si_signo)'
py "mmap" '
import mmap, os, tempfile
f = tempfile.TemporaryFile(); f.truncate(10000)
m = mmap.mmap(f.fileno(), 0); m[5000:5005] = b"hello"; f.seek(5000); print(f.read(5))
f.seek(0); f.write(b"start"); f.flush(); print(m[:5])
a = mmap.mmap(-1, 4096); a.write(b"anon"); print(a[:4])
if os.fork() == 0: a[0:1] = b"A"; os._exit(0)
os.wait(); print(a[:4])'
py "select and epoll" '
import select, os
r, w = os.pipe(); e = select.epoll(); e.register(r, select.EPOLLIN)
print(e.poll(0)); os.write(w, b"x"); print(len(e.poll(0)), select.select([r], [], [], 0)[0] == [r])
p = select.poll(); p.register(r); os.close(w); os.read(r, 1); print(p.poll(0)[0][1] & select.POLLHUP > 0)'
py "files" '
import os, shutil, tempfile, pathlib
d = pathlib.Path(tempfile.mkdtemp())
(d / "a").write_text("x" * 100000); os.symlink("a", d / "l"); os.link(d / "a", d / "h")
print(sorted(os.listdir(d)), os.stat(d / "a").st_nlink, (d / "l").resolve().name)
shutil.copytree(d, str(d) + "2"); print(sorted(os.listdir(str(d) + "2"))); shutil.rmtree(d); print(d.exists())
fd = os.open("/tmp", os.O_TMPFILE | os.O_RDWR); os.write(fd, b"t"); print(os.fstat(fd).st_size)
os.setxattr(fd, "user.k", b"v") if hasattr(os, "setxattr") and False else None'
py "big memory" 'b = bytearray(200 << 20); b[::4096] = b"x" * len(b[::4096]); print(b.count(b"x"))'
py "recursion and exceptions" '
import sys
def f(n): return f(n + 1)
try: f(0)
except RecursionError: print("deep")'
py "fault handler" '
import subprocess, sys
print(subprocess.run([sys.executable, "-c", "import ctypes; ctypes.string_at(0)"]).returncode)
print(subprocess.run([sys.executable, "-c", "import os; os.abort()"]).returncode)'
py "zlib lzma bz2" 'import zlib, lzma, bz2; d = bytes(range(256)) * 1000; print(all(m.decompress(m.compress(d)) == d for m in (zlib, lzma, bz2)))'
py "pty" '
import pty, os
pid, fd = pty.fork()
if pid == 0: os.execvp("sh", ["sh", "-c", "tty >/dev/null && stty size && echo on a tty"])
out = b""
while True:
    try: b = os.read(fd, 1024)
    except OSError: break
    if not b: break
    out += b
print(out.replace(b"\r", b"")); print(os.waitpid(pid, 0)[1])'
if $PY -c 'import venv, ensurepip' 2>/dev/null; then
	same "venv" sh -c "cd \$(mktemp -d) && $PY -m venv v && v/bin/python -c 'import sys; print(sys.prefix != sys.base_prefix)' && v/bin/pip --version | cut -d' ' -f1"
fi
finish
