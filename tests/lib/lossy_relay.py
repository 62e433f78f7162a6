#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lossy_relay.py A B SEED LOSS DELAY_MS REORDER DUP: a bad wire between two interfaces.

Frames that come by A leave by B and the reverse, each LOSS in a hundred times not, DUP in a hundred times
twice, after DELAY_MS (one way), REORDER in a hundred times half as much again. The same seed gives the same
fate to the same sequence of frames.
"""
import heapq
import random
import select
import socket
import sys
import time

ETH_P_ALL = 3
PACKET_OUTGOING = 4


def main():
    names = sys.argv[1:3]
    seed, loss, delay, reorder, dup = (float(a) for a in sys.argv[3:8])
    delay /= 1000
    socks, rngs = [], []
    for i, name in enumerate(names):
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        s.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)  # SO_RCVBUFFORCE
        s.bind((name, ETH_P_ALL))
        s.setblocking(False)
        socks.append(s)
        rngs.append(random.Random(seed * 2 + i))
    queue, order = [], 0
    while True:
        wait = max(0, queue[0][0] - time.monotonic()) if queue else None
        ready, _, _ = select.select(socks, [], [], wait)
        now = time.monotonic()
        for s in ready:
            at, rng = socks.index(s), rngs[socks.index(s)]
            for _ in range(256):
                try:
                    frame, addr = s.recvfrom(65536)
                except BlockingIOError:
                    break
                if addr[2] == PACKET_OUTGOING:
                    continue
                fate = [rng.uniform(0, 100) for _ in range(3)]
                if fate[0] < loss:
                    continue
                late = delay * (1.5 if fate[1] < reorder else 1)
                for _ in range(2 if fate[2] < dup else 1):
                    heapq.heappush(queue, (now + late, order, 1 - at, frame))
                    order += 1
        now = time.monotonic()
        while queue and queue[0][0] <= now:
            _, _, to, frame = heapq.heappop(queue)
            try:
                socks[to].send(frame)
            except OSError:
                pass


main()
