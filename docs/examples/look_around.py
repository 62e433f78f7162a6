# What a program sees inside Caisson: `make run` starts this in a sandbox.
import os
import socket
import subprocess

print("kernel:    ", open("/proc/version").read().strip())
print("user:      ", os.getuid(), "on host", socket.gethostname())
pids = sorted(int(p) for p in os.listdir("/proc") if p.isdigit())
print("processes: ", pids, "(this program is number %d)" % os.getpid())
print("root:      ", " ".join(sorted(os.listdir("/"))))
print("home:      ", os.listdir("/root") or "empty: the host's files in it are hidden")
try:
    open("/etc/shadow").read()
    print("secrets:    READABLE")
except OSError as e:
    print("secrets:    /etc/shadow:", e.strerror)
with open("/etc/written-inside", "w") as f:
    f.write("only in the sandbox\n")
print("writes:     kept in the sandbox, the host's files stay as they are")
print("subprocess:", subprocess.run(["uname", "-sr"], capture_output=True, text=True).stdout.strip())
