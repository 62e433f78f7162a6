# SPDX-License-Identifier: Apache-2.0
"""Servers of the "internet" and clients for network_user.sh: `network_user.py serve ADDR4 ADDR6`, or a
client test by name. Clients print "ok NAME" or the reason why not."""
import hashlib
import os
import select
import socket
import struct
import sys
import threading
import time

SIZE = 32 << 20


def pattern(size):
    block = bytes((i * 7 + (i >> 8)) & 255 for i in range(1 << 16))
    return (block * (size // len(block) + 1))[:size]


def recv_all(s):
    h, n = hashlib.sha256(), 0
    while d := s.recv(1 << 16):
        h.update(d)
        n += len(d)
    return n, h.hexdigest()


# ---- servers ----

def handle(port, c):
    try:
        c.settimeout(120)
        if port == 7001:  # sends SIZE bytes
            c.sendall(pattern(SIZE))
        elif port == 7002:  # takes everything, then says what it was
            c.sendall(repr(recv_all(c)).encode())
        elif port == 7003:  # echo, until EOF; then a last word on the open half
            while d := c.recv(65536):
                c.sendall(d)
            c.sendall(b"bye")
        elif port == 7004:  # never reads
            time.sleep(60)
        elif port == 7005:  # resets
            c.recv(1)
            c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif port == 7006:  # says who called
            c.sendall(c.getpeername()[0].encode())
        elif port == 7007:  # waits for the peer's reset
            try:
                c.sendall(b"x")
                while c.recv(1):
                    pass
                open(os.environ["T"] + "/peer", "a").write("eof\n")
            except ConnectionResetError:
                open(os.environ["T"] + "/peer", "a").write("reset\n")
    except OSError:
        pass
    c.close()


def tcp(fam, addr, port):
    s = socket.socket(fam, socket.SOCK_STREAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((addr, port))
    s.listen(512)
    while True:
        c, _ = s.accept()
        threading.Thread(target=handle, args=(port, c), daemon=True).start()


def udp(fam, addr, port):
    s = socket.socket(fam, socket.SOCK_DGRAM)
    s.bind((addr, port))
    while True:
        d, a = s.recvfrom(65536)
        s.sendto(d, a)


def dns_answer(q, addr):
    n = 12
    while q[n]:
        n += q[n] + 1
    qtype = q[n + 1:n + 3]
    head = q[:2] + b"\x84\x00\x00\x01" + (b"\x00\x01" if qtype == b"\x00\x01" else b"\x00\x00") + bytes(4)
    rr = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x05\x00\x04" + socket.inet_aton(addr)
    return head + q[12:n + 5] + (rr if qtype == b"\x00\x01" else b"")


def dns(fam, addr):
    """Each query first gets answers that must not be believed."""
    s = socket.socket(fam, socket.SOCK_DGRAM)
    s.bind((addr, 53))
    other = socket.socket(fam, socket.SOCK_DGRAM)
    seen = set()
    while True:
        q, a = s.recvfrom(4096)
        seen.add((q[:2], a[1]))
        open(os.environ["T"] + "/dns", "w").write("%d\n" % len(seen))
        lie = dns_answer(q, "192.0.2.66")
        other.sendto(lie, a)                                    # another source
        s.sendto(bytes((q[0] ^ 1,)) + lie[1:], a)               # another id
        s.sendto(lie[:13] + b"z" + lie[14:], a)                 # another question
        s.sendto(q[:2] + lie[2:3].replace(b"\x84", b"\x04") + lie[3:], a)  # no answer at all
        s.sendto(dns_answer(q, "10.77.0.2"), a)


def dns_tcp(fam, addr):
    s = socket.socket(fam, socket.SOCK_STREAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((addr, 53))
    s.listen(16)
    while True:
        c, _ = s.accept()
        n, = struct.unpack(">H", c.recv(2))
        r = dns_answer(c.recv(n), "10.77.0.2")
        c.sendall(struct.pack(">H", len(r)) + r)
        c.close()


def serve(what, *addrs):
    for a in addrs:
        fam = socket.AF_INET6 if ":" in a else socket.AF_INET
        jobs = [(dns, (fam, a)), (dns_tcp, (fam, a))] if what == "dns" else \
            [(tcp, (fam, a, p)) for p in range(7001, 7008)] + [(udp, (fam, a, 7001))]
        for fn, args in jobs:
            threading.Thread(target=fn, args=args, daemon=True).start()
    time.sleep(0.3)
    print("ready", flush=True)
    time.sleep(3600)


# ---- clients ----

def conn(addr, port, timeout=60):
    return socket.create_connection((addr, port), timeout)


def errno_of(fn):
    try:
        fn()
    except OSError as e:
        return e.errno
    return 0


def t_download(addr):
    n, h = recv_all(conn(addr, 7001))
    assert (n, h) == (SIZE, hashlib.sha256(pattern(SIZE)).hexdigest()), n


def t_upload(addr):
    s = conn(addr, 7002)
    s.sendall(pattern(SIZE))
    s.shutdown(socket.SHUT_WR)
    got = s.makefile().read()
    assert got == repr((SIZE, hashlib.sha256(pattern(SIZE)).hexdigest())), got


def t_halfclose(addr):
    s = conn(addr, 7003)
    s.sendall(b"abc")
    s.shutdown(socket.SHUT_WR)
    got = b""
    while d := s.recv(100):
        got += d
    assert got == b"abcbye", got


def t_parallel(addr):
    bad = []

    def one(i):
        try:
            s = conn(addr, 7003)
            for j in range(5):
                m = b"%d-%d" % (i, j) * 200
                s.sendall(m)
                got = b""
                while len(got) < len(m):
                    d = s.recv(len(m) - len(got))
                    assert d
                    got += d
                assert got == m
            s.close()
        except Exception as e:  # noqa
            bad.append((i, e))
    threads = [threading.Thread(target=one, args=(i,)) for i in range(200)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not bad, bad[:3]


def t_reset(addr):
    s = conn(addr, 7005)
    s.sendall(b"x")
    e = errno_of(lambda: s.recv(1))
    assert e == 104, e


def t_reset_out(addr):
    s = conn(addr, 7007)
    assert s.recv(1) == b"x"
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


def t_udp(addr):
    s = socket.socket(socket.AF_INET6 if ":" in addr else socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(10)
    for size in (1, 100, 1400, 9000, 60000):
        s.sendto(pattern(size), (addr, 7001))
        assert s.recv(65536) == pattern(size), size


def t_refused(addr):
    assert errno_of(lambda: conn(addr, 9)) == 111
    s = socket.socket(socket.AF_INET6 if ":" in addr else socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(10)
    s.connect((addr, 9))
    s.send(b"x")
    assert errno_of(lambda: s.recv(1)) == 111


def t_unreachable(addr, want="113"):
    e = errno_of(lambda: conn(addr, 80, 30))
    assert e == int(want), e


def t_slow(addr):
    """What a reader that never reads costs is what socket buffers hold, not what is sent."""
    s = conn(addr, 7004)
    s.setblocking(False)
    sent, idle = 0, 0
    while idle < 10:
        try:
            sent += s.send(bytes(1 << 16))
            idle = 0
        except BlockingIOError:
            idle += 1
            select.select([], [s], [], 0.2)
    assert sent < 40 << 20, sent


def t_denied(*addrs):
    for a in addrs:
        e = errno_of(lambda: conn(a, 7001, 10))
        assert e in (13, 101, 111, 113), (a, e)
        s = socket.socket(socket.AF_INET6 if ":" in a else socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(1)
        e = errno_of(lambda: (s.connect((a, 7001)), s.send(b"x"), s.recv(9)))
        assert e != 0, a


def t_resolve(name):
    got = socket.gethostbyname(name)
    assert got == "10.77.0.2", got


def t_resolve_tcp(server):
    q = b"\x12\x34\x01\x00\x00\x01" + bytes(6) + b"\x03www\x04test\x00\x00\x01\x00\x01"
    s = conn(server, 53)
    s.sendall(struct.pack(">H", len(q)) + q)
    n, = struct.unpack(">H", s.recv(2))
    assert s.recv(n)[-4:] == socket.inet_aton("10.77.0.2")


def t_dead(addr):
    """The helper is killed while a connection is open (by the script, once it reads "open")."""
    s = conn(addr, 7003)
    s.sendall(b"a")
    assert s.recv(1) == b"a"
    print("open", flush=True)
    s.settimeout(60)
    e = errno_of(lambda: s.recv(1))
    assert e == 100, e
    e = errno_of(lambda: conn(addr, 7003, 10))
    assert e == 101, e


def t_serve_tcp(port):
    s = socket.create_server(("::", int(port)), family=socket.AF_INET6, dualstack_ipv6=True)
    print("ready", flush=True)
    while True:
        c, a = s.accept()
        threading.Thread(target=lambda c=c, a=a: (
            c.sendall((a[0].replace("::ffff:", "") + " ").encode() + repr(recv_all(c)).encode()), c.close()),
            daemon=True).start()


def t_serve_udp(port):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("", int(port)))
    print("ready", flush=True)
    while True:
        d, a = s.recvfrom(65536)
        s.sendto(a[0].encode() + b" " + d, a)


def t_call_tcp(addr, port, want, size="1000000"):
    s = conn(addr, int(port))
    s.sendall(pattern(int(size)))
    s.shutdown(socket.SHUT_WR)
    got = s.makefile().read()
    assert got == want + " " + repr((int(size), hashlib.sha256(pattern(int(size))).hexdigest())), got


def t_call_udp(addr, port, want):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(10)
    for i in range(3):
        s.sendto(b"hello%d" % i, (addr, int(port)))
        got = s.recv(100)
        assert got == want.encode() + b" hello%d" % i, got


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(*sys.argv[2:])
    name, args = sys.argv[1], sys.argv[2:]
    try:
        globals()["t_" + name](*args)
        print("ok", name, flush=True)
    except Exception as e:  # the reason goes to the script
        print("failed", name, repr(e), flush=True)
        sys.exit(1)
