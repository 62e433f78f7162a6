#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hostile and honest traffic for network_abuse.sh.

  net_abuse.py serve PORT                    answers each line "N" with N bytes; epoll, one thread
  net_abuse.py hold ADDR PORT COUNT DIR      COUNT connections, each answered once; then DIR/held, and waits
  net_abuse.py slow ADDR PORT COUNT DIR      COUNT connections that ask for 50 MB and do not read
  net_abuse.py honest ADDR PORT COUNT        COUNT connections one after the other, 100 kB each; prints the slowest
  net_abuse.py syn IFACE SRC_NET DST PORT MAC SECONDS    SYNs from addresses that answer nothing
  net_abuse.py frag IFACE SRC_NET DST MAC SECONDS        first fragments that nothing follows
"""
import os
import random
import resource
import select
import socket
import struct
import sys
import time


def files(n):
    hard = max(n, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (n, hard))


def serve(port):
    files(12000)
    listener = socket.create_server(("", port), backlog=4096)
    listener.setblocking(False)
    ep = select.epoll()
    ep.register(listener, select.EPOLLIN)
    conns, owed = {}, {}
    chunk = bytes(65536)
    while True:
        for fd, event in ep.poll():
            if fd == listener.fileno():
                try:
                    while True:
                        c, _ = listener.accept()
                        c.setblocking(False)
                        conns[c.fileno()] = c
                        owed[c.fileno()] = 0
                        ep.register(c, select.EPOLLIN)
                except OSError:
                    pass
                continue
            c = conns[fd]
            try:
                if event & select.EPOLLIN:
                    got = c.recv(64)
                    if not got:
                        raise OSError
                    owed[fd] += int(got)
                while owed[fd]:
                    owed[fd] -= c.send(chunk[:owed[fd]])
                ep.modify(fd, select.EPOLLIN)
            except BlockingIOError:
                ep.modify(fd, select.EPOLLIN | select.EPOLLOUT)
            except OSError:
                ep.unregister(fd)
                del conns[fd], owed[fd]
                c.close()


def ask(addr, port, n, source=None):
    s = socket.create_connection((addr, port), 60)
    s.sendall(b"%d\n" % n)
    return s


def read_all(s, n):
    while n:
        got = len(s.recv(65536))
        assert got, "closed early"
        n -= got


def hold(addr, port, count, where):
    files(count + 100)
    conns = []
    for _ in range(count):
        s = ask(addr, port, 1)
        read_all(s, 1)
        conns.append(s)
    open(where + "/held", "w").close()
    time.sleep(3600)


def slow(addr, port, count, where):
    conns = []
    for _ in range(count):
        conns.append(ask(addr, port, 50000000))
    open(where + "/held", "w").close()
    time.sleep(3600)


def honest(addr, port, count):
    worst = 0
    for _ in range(count):
        start = time.monotonic()
        with ask(addr, port, 100000) as s:
            read_all(s, 100000)
        worst = max(worst, time.monotonic() - start)
    print("%.3f" % worst)


def checksum(b):
    if len(b) % 2:
        b += b"\0"
    n = sum(struct.unpack("!%dH" % (len(b) // 2), b))
    n = (n & 0xFFFF) + (n >> 16)
    return ~(n + (n >> 16)) & 0xFFFF


def flood(iface, net, dst, mac, seconds, protocol, flags, payload):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    s.bind((iface, 0))
    ether = bytes.fromhex(mac.replace(":", "")) + b"\2\0\0\0\0\1" + b"\x08\0"
    end = time.monotonic() + seconds
    count = 0
    while time.monotonic() < end:
        for _ in range(64):
            src = socket.inet_aton("%s.%d.%d" % (net, random.randrange(256), random.randrange(1, 255)))
            body = payload(src, socket.inet_aton(dst))
            ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(body), random.randrange(65536), flags, 64, protocol, 0,
                             src, socket.inet_aton(dst))
            ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
            s.send(ether + ip + body)
            count += 1
    print(count)


def syn(iface, net, dst, port, mac, seconds):
    def payload(src, to):
        tcp = struct.pack("!HHIIBBHHH", random.randrange(1024, 65536), int(port), random.randrange(1 << 32), 0, 0x50, 2,
                          65535, 0, 0)
        pseudo = src + to + struct.pack("!BBH", 0, 6, len(tcp))
        return tcp[:16] + struct.pack("!H", checksum(pseudo + tcp)) + tcp[18:]
    flood(iface, net, dst, mac, float(seconds), 6, 0, payload)


def frag(iface, net, dst, mac, seconds):
    flood(iface, net, dst, mac, float(seconds), 17, 0x2000, lambda src, to: bytes(1400))


if __name__ == "__main__":
    name, args = sys.argv[1], sys.argv[2:]
    if name in ("hold", "slow"):
        {"hold": hold, "slow": slow}[name](args[0], int(args[1]), int(args[2]), args[3])
    elif name == "serve":
        serve(int(args[0]))
    elif name == "honest":
        honest(args[0], int(args[1]), int(args[2]))
    else:
        {"syn": syn, "frag": frag}[name](*args)
