#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A client of the Kubernetes CRI, as small as the test needs: cri.py SOCKET VERB ARGS...

Messages are built from (field, value) pairs; numbers are those of runtime.v1's api.proto.
"""
import sys

import grpc

SERVICE = "/runtime.v1.RuntimeService/"


def varint(n):
    out = b""
    while True:
        out += bytes([n & 127 | (128 if n > 127 else 0)])
        n >>= 7
        if not n:
            return out


def message(*fields):
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def parse(data):
    """{field: [values]}, bytes or int."""
    fields, at = {}, 0

    def number():
        nonlocal at
        v = shift = 0
        while True:
            b = data[at]
            at += 1
            v |= (b & 127) << shift
            shift += 7
            if b < 128:
                return v

    while at < len(data):
        key = number()
        if key & 7 == 0:
            value = number()
        else:
            size = {1: 8, 5: 4}.get(key & 7)
            size = number() if size is None else size
            value = data[at:at + size]
            at += size
        fields.setdefault(key >> 3, []).append(value)
    return fields


def call(channel, name, request):
    stub = channel.unary_unary(SERVICE + name, request_serializer=bytes, response_deserializer=bytes)
    return parse(stub(request, timeout=120))


def sandbox_config(name, share_pid):
    namespaces = message((2, 0 if share_pid else 1))
    return message((1, message((1, name), (2, name + "-uid"), (3, "test"))), (2, name), (3, "/tmp"),
                   (8, message((2, message((1, namespaces))))))


def main():
    channel = grpc.insecure_channel("unix:" + sys.argv[1])
    verb, args = sys.argv[2], sys.argv[3:]
    if verb == "pod":  # NAME HANDLER PID-SHARED -> id
        r = call(channel, "RunPodSandbox", message((1, sandbox_config(args[0], args[2] == "1")), (2, args[1])))
        print(r[1][0].decode())
    elif verb == "create":  # POD-ID POD-NAME PID-SHARED NAME IMAGE LOG SHARE COMMAND...
        pod, pod_name, share_pid, name, image, log, share = args[:7]
        security = message((3, message((2, 0 if share_pid == "1" else 1))))
        config = message((1, message((1, name))), (2, message((1, image))), *((3, a) for a in args[7:]),
                         (7, message((1, "/share"), (2, share))), (11, log), (15, message((2, security))))
        r = call(channel, "CreateContainer",
                 message((1, pod), (2, config), (3, sandbox_config(pod_name, share_pid == "1"))))
        print(r[1][0].decode())
    elif verb == "start":
        call(channel, "StartContainer", message((1, args[0])))
    elif verb == "exec":  # ID TIMEOUT COMMAND...
        r = call(channel, "ExecSync", message((1, args[0]), *((2, a) for a in args[2:]), (3, int(args[1]))))
        sys.stdout.write(b"".join(r.get(1, [])).decode())
        sys.stderr.write(b"".join(r.get(2, [])).decode())
        return r.get(3, [0])[0]
    elif verb == "status":  # -> state (1 running, 2 exited) and exit code
        s = parse(call(channel, "ContainerStatus", message((1, args[0])))[1][0])
        print(s.get(3, [0])[0], s.get(7, [0])[0])
    elif verb == "stats":  # -> nanoseconds of CPU and bytes of memory
        s = parse(call(channel, "ContainerStats", message((1, args[0])))[1][0])
        print(*(parse(parse(s[f][0])[2][0])[1][0] for f in (2, 3)))
    elif verb == "stop":
        call(channel, "StopContainer", message((1, args[0]), (2, int(args[1]))))
    else:
        call(channel, {"rm": "RemoveContainer", "stop-pod": "StopPodSandbox", "rm-pod": "RemovePodSandbox"}[verb],
             message((1, args[0])))
    return 0


try:
    sys.exit(main())
except grpc.RpcError as e:
    sys.exit(f"{e.code()}: {e.details()}")
