#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Drives an interactive program on a pty: tty_drive.py ROWSxCOLS SCRIPT -- PROGRAM ARGS...

SCRIPT is a file of lines: "expect TEXT" waits for TEXT in the output that has not been matched yet,
"send TEXT" types it (\\r, \\n, \\x03 escapes), "resize ROWSxCOLS", "pause SECONDS", "status N" waits for the exit.
A step that does not come true within 20 s fails the drive and shows what was seen.
"""
import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time

LIMIT = 20


def set_size(fd, text):
    rows, cols = (int(x) for x in text.split("x"))
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def main():
    size, script = sys.argv[1:3]
    argv = sys.argv[4:]
    pid, fd = pty.fork()
    if pid == 0:
        time.sleep(0.1)  # the size is set meanwhile
        os.execvp(argv[0], argv)
    set_size(fd, size)
    seen = ""

    def pump(seconds):
        nonlocal seen
        if not select.select([fd], [], [], seconds)[0]:
            return True
        try:
            data = os.read(fd, 65536)
        except OSError:
            return False
        seen += data.decode("utf-8", "replace")
        return bool(data)

    for line in open(script):
        verb, _, arg = line.rstrip("\n").partition(" ")
        arg = arg.encode().decode("unicode_escape")
        end = time.monotonic() + LIMIT
        if verb == "expect":
            while arg not in seen and time.monotonic() < end and pump(0.2):
                pass
            if arg not in seen:
                print(f"no {arg!r} in {seen[-400:]!r}")
                os.kill(pid, 9)
                return 1
            seen = seen[seen.index(arg) + len(arg):]
        elif verb == "send":
            os.write(fd, arg.encode())
        elif verb == "pause":  # lets the program reach the state that the next key is meant for
            until = time.monotonic() + float(arg)
            while time.monotonic() < until and pump(0.05):
                pass
        elif verb == "resize":
            set_size(fd, arg)
        elif verb == "status":
            while time.monotonic() < end:
                alive = pump(0.2)
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    code = os.waitstatus_to_exitcode(status)
                    if code != int(arg):
                        print(f"exit status {code}, wanted {arg}; saw {seen[-300:]!r}")
                    return code != int(arg)
                if not alive:
                    time.sleep(0.05)
            print(f"no exit; saw {seen[-300:]!r}")
            os.kill(pid, 9)
            return 1
    os.kill(pid, 9)
    return 0


sys.exit(main())
