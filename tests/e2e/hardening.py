"""Services with systemd's hardening options, in a machine of machine.py: a program of tests/programs as a service, traced from outside."""
import os
import select
import subprocess

from harness import Snapshot, status, until

CALLS, THREADS = 40, 2
TALK = "/srv/dyntrace-talk"
WHOLE, UNREAD, REFUSED = "whole", "unread", "refused"
# option: what comes of it. UNREAD: a filter forbids a call without which the agent makes none at all, so that backtraces end early.
OPTIONS = {
    "ProtectSystem=strict": WHOLE, "ProtectHome=yes": WHOLE, "PrivateTmp=yes": WHOLE, "PrivateDevices=yes": WHOLE, "PrivateNetwork=yes": WHOLE,
    "PrivateUsers=yes": WHOLE, "PrivateIPC=yes": WHOLE, "PrivateMounts=yes": WHOLE, "ProtectHostname=yes": WHOLE, "ProtectClock=yes": WHOLE,
    "ProtectKernelTunables=yes": WHOLE, "ProtectKernelModules=yes": WHOLE, "ProtectKernelLogs=yes": WHOLE, "ProtectControlGroups=yes": WHOLE,
    "ProtectProc=invisible": WHOLE, "ProcSubset=pid": WHOLE, "RestrictAddressFamilies=AF_UNIX": WHOLE, "RestrictNamespaces=yes": WHOLE,
    "LockPersonality=yes": WHOLE, "MemoryDenyWriteExecute=yes": WHOLE, "RestrictRealtime=yes": WHOLE, "RestrictSUIDSGID=yes": WHOLE,
    "RemoveIPC=yes": WHOLE, "NoNewPrivileges=yes": WHOLE, "CapabilityBoundingSet=": WHOLE, "SystemCallArchitectures=native": WHOLE,
    "SystemCallFilter=@system-service": WHOLE, "SystemCallFilter=~@privileged": WHOLE, "SystemCallFilter=~@resources": WHOLE,
    "SystemCallFilter=~@debug": WHOLE, "SystemCallFilter=~@mount": WHOLE, "SystemCallFilter=~process_vm_readv": WHOLE,
    "SystemCallFilter=~memfd_create mremap": WHOLE, "SystemCallFilter=~sched_yield": UNREAD, "SystemCallFilter=~tgkill:EPERM": WHOLE,
    "DynamicUser=yes": WHOLE, "User=nobody": WHOLE, "LimitMEMLOCK=0": WHOLE, "LimitNOFILE=16": WHOLE, "MemoryMax=64M": WHOLE, "TasksMax=10": WHOLE,
    "IPAddressDeny=any": WHOLE, "DevicePolicy=closed": WHOLE, "UMask=0077": WHOLE, "KeyringMode=private": WHOLE,
}
# the few that `make check` tries: each kind of fence once
FEW = ["MemoryDenyWriteExecute=yes", "SystemCallFilter=~process_vm_readv", "SystemCallFilter=~memfd_create mremap", "SystemCallFilter=~sched_yield"]
TOGETHER = "all at once"


def whole_options():
    """All options that change nothing for a tracer, for one service."""
    return [option for option, outcome in OPTIONS.items() if outcome == WHOLE and not option.startswith(("SystemCallFilter=~", "DynamicUser"))]


class Service:
    """The program as the service `dyntrace-target`; it keeps step by two pipes with names."""

    def __init__(self, run, options):
        os.makedirs(TALK, exist_ok=True)
        for name in ("ready", "go"):
            path = os.path.join(TALK, name)
            if not os.path.exists(path):
                os.mkfifo(path)
                os.chmod(path, 0o666)
        self.run, self.unit = run, "dyntrace-target.service"
        self.ready, self.go_fd = (os.open(os.path.join(TALK, name), os.O_RDWR) for name in ("ready", "go"))
        start = f"exec /build/tests/programs/spin --threads {THREADS} --calls {CALLS} --rounds 2 --ready-fd 3 --go-fd 4 3>{TALK}/ready 4<{TALK}/go"
        said = run("systemd-run", "--quiet", "--collect", f"--unit={self.unit}", *[f"--property={option}" for option in options], "/bin/sh", "-c", start)
        assert said == "", said
        self.wait_ready()
        self.pid = int(run("systemctl", "show", "--value", "-pMainPID", self.unit))

    def wait_ready(self):
        if not select.select([self.ready], [], [], 60)[0]:
            raise AssertionError(self.run("journalctl", "--no-pager", "-u", self.unit, "-o", "cat"))
        assert os.read(self.ready, 1) == b"r"

    def round(self):
        os.write(self.go_fd, b"g")
        self.wait_ready()

    def close(self):
        self.run("systemctl", "stop", self.unit)
        for fd in (self.ready, self.go_fd):
            os.close(fd)


def trace_service(run, tracer, options):
    """What comes of tracing a service with these options, and [events, lost, strings, whole backtraces, exits] or the refusal."""
    service = Service(run, options)
    words = ["--function", "foo", "-e", "-t", "backtrace"]
    before = Snapshot(service.pid)
    try:
        probe = subprocess.run([tracer.path, "trace", "-p", str(service.pid), "-o", tracer.new_output(), "--for", "0.01", *words],
                               capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=50)
        before.assert_unchanged()
        if probe.returncode:
            service.round()  # it lives
            return [REFUSED, probe.stderr]
        tracing = tracer.start_trace(service.pid, *words)
        service.round()
        trace = tracing.stop()
        before.assert_unchanged()
        entries = trace.named("foo_entry")
        found = [len(entries), len(trace.named("foo_exit")), trace.lost, {event.fields["text"] for event in entries} == {"dyntrace"}]
        service.round()
        until(lambda: status(service.pid, "State")[0] in "SR", "the service to live")
        return [WHOLE if all(len(event.fields["backtrace"]) >= 3 for event in entries) else UNREAD, found]
    finally:
        service.close()


def trace_services(run, tracer, names):
    """{option: what comes of it}"""
    return {name: trace_service(run, tracer, whole_options() if name == TOGETHER else [name]) for name in names}


def assert_outcomes(found, names):
    for name in names:
        outcome, details = found[name]
        assert outcome == OPTIONS.get(name, WHOLE), (name, found[name])
        if outcome == REFUSED:
            assert "can't be traced: its filter" in details, (name, details)
        else:
            assert details == [THREADS * CALLS, THREADS * CALLS, 0, True], (name, details)
