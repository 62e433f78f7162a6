#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs CPython's own test suite natively and in the sandbox, and lists where they differ.

  run.py [--caisson PATH] [--state FILE] [--jobs N] [--timeout S] [MODULE...]
  run.py --again different|inside|all [MODULE...]      forget those results, then run
  run.py --report                                      print the table of what is known

Needs root and Debian's libpython3.11-testsuite. Each module runs natively first: in namespaces of
its own, with an empty tmpfs on /tmp and loopback only, which is what it finds in the sandbox. What
passes there has to pass inside, and every single test that ran there has to run inside. A module
that differs is run inside once more, alone, at the end. Results are kept in the state file after
each module; a second start goes on where the first one stopped. Where a module fails natively in
some tests, it runs inside as well and may fail there in no others.
"""
import argparse
import concurrent.futures
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PYTHON = "/usr/bin/python3"
ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp",
       "LANG": "C.UTF-8", "TERM": "dumb"}
NATIVE = ["unshare", "--net", "--mount", "--ipc", "--pid", "--fork", "--kill-child",
          "--mount-proc", "sh", "-c", "ip link set lo up && mount -t tmpfs tmp /tmp && "
          "cd /tmp && \"$@\"; exit $?", "sh"]  # not exec: the tests must not be pid 1
# Modules whose point is the network; the sandbox serves them over its own loopback.
NETWORK = {"test_asyncio", "test_asynchat", "test_asyncore", "test_ftplib", "test_httplib",
           "test_httpservers", "test_imaplib", "test_nntplib", "test_poplib", "test_robotparser",
           "test_smtpd", "test_smtplib", "test_smtpnet", "test_socket", "test_socketserver",
           "test_ssl", "test_telnetlib", "test_timeout", "test_urllib2", "test_urllib2_localnet",
           "test_urllib2net", "test_urllibnet", "test_wsgiref", "test_xmlrpc", "test_xmlrpc_net",
           "test_docxmlrpc", "test_logging", "test_select", "test_selectors"}

# What neither run attempts. On a virtual machine without vsock loopback, VSOCK hangs natively; the
# sandbox has no virtual machine below it to talk to.
IGNORED = {"test_socket": ["*VSOCK*"]}
# Modules that want a resource of the suite (-u) but reach for nothing outside.
RESOURCES = {"test_socketserver": "network"}


def modules():
    out = subprocess.run([PYTHON, "-m", "test", "--list-tests"], env=ENV, check=True,
                         capture_output=True, text=True).stdout
    return [line for line in out.split() if line.startswith("test_")]


def native_prefix():
    """The namespaces of native runs, where the machine lets us make them."""
    if subprocess.run(NATIVE + ["true"], env=ENV, capture_output=True).returncode == 0:
        return NATIVE
    print("run.py: no namespaces of its own for native runs; they run as this process does")
    return []


def command(args, module, inside):
    test = [PYTHON, "-m", "test", "-v", "--timeout", str(args.timeout), module]
    if module in RESOURCES:
        test += ["-u", RESOURCES[module]]
    test += [word for pattern in IGNORED.get(module, []) for word in ("-i", pattern)]
    if not inside:
        return args.native_prefix + test
    env = [word for item in ENV.items() for word in ("--env", "=".join(item))]
    # /etc/shadow is hidden unless it is asked for; test_spwd reads it.
    # The host's name is the one that its /etc/hosts resolves.
    return [args.caisson, "run", "--no-tty", "--workdir", "/tmp", "--bind", "/etc/shadow:/etc/shadow",
            "--hostname", os.uname().nodename,
            "--timeout", str(args.timeout + 30)] + env + ["--"] + test


def outcome(status, text):
    """What a run of `python3 -m test -v` came to, with the tests that ran and were skipped."""
    skipped = sorted(set(re.findall(r"^\w+ \((\S+)\)(?:\n.*?)?? \.\.\. skipped", text, re.M)))
    ran = sum(int(n) for n in re.findall(r"^Ran (\d+) tests? in", text, re.M))
    bad = sorted(set(re.findall(r"^(?:ERROR|FAIL): (\S+ \(\S+\))", text, re.M)))
    if status is None:
        result = "timeout"
    elif status != 0:
        result = "failed"
    elif re.search(r"^1 test skipped|^1 test omitted", text, re.M):
        result = "skipped"
    else:
        result = "passed"
    return {"result": result, "status": status, "ran": ran, "skipped": skipped, "failures": bad}


def run(args, module, inside):
    with tempfile.TemporaryFile() as out:
        before = os.times()
        p = subprocess.Popen(command(args, module, inside), stdin=subprocess.DEVNULL, stdout=out,
                             stderr=subprocess.STDOUT, env=ENV, cwd="/tmp", start_new_session=True)
        try:
            status = p.wait(args.timeout + 60)
        except subprocess.TimeoutExpired:
            status = None
            os.killpg(p.pid, signal.SIGTERM)
            try:
                p.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(p.pid, signal.SIGKILL)
                p.wait()
        seconds = os.times().elapsed - before.elapsed
        out.seek(0)
        text = out.read(16 << 20).decode("utf-8", "replace")
    record = outcome(status, text)
    record["seconds"] = round(seconds, 1)
    if args.keep and record["result"] != "passed":
        os.makedirs(args.keep, exist_ok=True)
        name = f"{module}.{'inside' if inside else 'native'}.txt"
        with open(os.path.join(args.keep, name), "w") as f:
            f.write(text)
    return record


def difference(entry):
    """One line that says how the two runs of a module differ, or None."""
    native, inside = entry.get("native"), entry.get("inside")
    if not native or not inside:
        return None
    worse = sorted(set(inside["failures"]) - set(native["failures"]))
    if worse or inside["result"] != native["result"]:
        return inside["result"] + " " + ", ".join(worse[:8])
    fewer = sorted(set(inside["skipped"]) - set(native["skipped"]))
    if fewer:
        return "skipped only inside: " + ", ".join(fewer[:8])
    if inside["ran"] < native["ran"]:
        return f"{native['ran']} tests natively, {inside['ran']} inside"
    return None


def comparable(entry):
    """Whether a module's native run says anything about what it should do inside."""
    native = entry.get("native", {})
    return native.get("result") == "passed" or \
        native.get("result") == "failed" and native["failures"] and native["ran"]


class State:
    """The results of each module, in a JSON file that is rewritten after each run."""

    def __init__(self, path):
        self.path = path
        self.lock = threading.Lock()
        self.results = {}
        if os.path.exists(path):
            with open(path) as f:
                self.results = json.load(f)

    def put(self, module, key, record):
        with self.lock:
            self.results.setdefault(module, {})[key] = record
            new = self.path + ".new"
            with open(new, "w") as f:
                json.dump(self.results, f, indent=1, sort_keys=True)
            os.replace(new, self.path)

    def forget(self, names, which):
        for name in names:
            entry = self.results.get(name, {})
            if which == "all":
                entry.clear()
            elif which == "inside" or difference(entry):
                entry.pop("inside", None)


def run_all(args, state, names, inside, jobs):
    key = "inside" if inside else "native"

    def one(module):
        record = run(args, module, inside)
        state.put(module, key, record)
        why = difference(state.results[module]) if inside else None
        print(f"{key:6} {module:32} {record['result']:8} {record['ran']:5} tests "
              f"{record['seconds']:7.1f} s{'  DIFFERENT ' + why if why else ''}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, names))


def report(state, names):
    known = {n: state.results.get(n, {}) for n in names}
    for title, group in (("network modules", [n for n in names if n in NETWORK]),
                         ("other modules", [n for n in names if n not in NETWORK])):
        native = [n for n in group if known[n].get("native", {}).get("result") == "passed"]
        inside = [n for n in native if known[n].get("inside", {}).get("result") == "passed"]
        print(f"{title}: {len(group)}; pass natively: {len(native)}; "
              f"of these pass in Caisson: {len(inside)}")
    total = {"native": 0, "inside": 0}
    for entry in known.values():
        for key in total:
            total[key] += entry.get(key, {}).get("ran", 0)
    print(f"single tests run: {total['native']} natively, {total['inside']} inside")
    for result in ("failed", "skipped", "timeout"):
        group = [n for n in names if known[n].get("native", {}).get("result") == result]
        print(f"{result} natively ({len(group)}): {' '.join(group)}")
    missing = [n for n in names if comparable(known[n]) and "inside" not in known[n]]
    print(f"not run inside yet ({len(missing)}): {' '.join(missing)}")
    different = [(n, difference(known[n])) for n in names if difference(known[n])]
    print(f"different ({len(different)}):")
    for name, why in different:
        print(f"  {name}: {why}")
    return 1 if different or missing else 0


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("modules", nargs="*")
    ap.add_argument("--caisson", default=os.path.join(ROOT, "build/release/caisson"))
    ap.add_argument("--state", default=os.path.join(ROOT, "build/cpython.json"))
    ap.add_argument("--keep", help="a directory for the output of runs that did not pass")
    ap.add_argument("--jobs", type=int, default=1)
    ap.add_argument("--timeout", type=int, default=1200, help="of one module, in seconds")
    ap.add_argument("--again", choices=["different", "inside", "all"])
    ap.add_argument("--report", action="store_true")
    args = ap.parse_args()
    # A shell's background job ignores it, and the tests would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if os.getuid() != 0:
        sys.exit("run.py: needs root, for namespaces and because the tests run as root in both")
    every = modules()
    names = args.modules or every
    unknown = set(names) - set(every)
    if unknown:
        sys.exit(f"run.py: the suite has no module {' '.join(sorted(unknown))}")
    state = State(args.state)
    if args.report:
        return report(state, every)
    if args.again:
        state.forget(names, args.again)
    known = state.results
    args.native_prefix = native_prefix()
    run_all(args, state, [n for n in names if "native" not in known.get(n, {})], False, args.jobs)
    # The quick ones first: what is broken shows early.
    todo = [n for n in names if comparable(known[n]) and "inside" not in known[n]]
    todo.sort(key=lambda n: known[n]["native"]["seconds"])
    run_all(args, state, todo, True, args.jobs)
    run_all(args, state, [n for n in todo if difference(known[n])], True, 1)
    return report(state, names)


if __name__ == "__main__":
    sys.exit(main())
