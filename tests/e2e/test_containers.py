"""Programs in sandboxes of bubblewrap, and in containers of Podman and crun with its default filter, traced from the host. A container's root is made of
this machine's files."""
import json
import os
import shutil
import struct
import subprocess

import pytest
from harness import Snapshot, Trace, needs_user_namespaces, status, until

CALLS, THREADS = 500, 3
WAYS = {
    "default": [],
    "read-only": ["--read-only", "--cap-drop=all", "--user", "1000:1000"],
    "users": ["--uidmap", "0:100000:65536", "--gidmap", "0:100000:65536"],
}


def prefix():
    """crun knows only pure cgroup v1 or v2: where there is a mixture, it sees v2 alone."""
    pure = subprocess.run(["stat", "-fc", "%T", "/sys/fs/cgroup"], capture_output=True, text=True).stdout.strip() == "cgroup2fs"
    return [] if pure else ["unshare", "-m", "sh", "-c", 'mount -t cgroup2 none /sys/fs/cgroup && exec "$@"', "sh"]


def make_root(root):
    """The root of a container, whose /usr is this machine's."""
    for folder in ("usr", "etc", "proc", "sys", "dev", "tmp", "run", "var", "talk", "programs"):
        os.makedirs(os.path.join(root, folder))
    for link in ("bin", "lib", "lib64", "sbin"):
        os.symlink("usr/" + link, os.path.join(root, link))


def podman_run(base, runroot):
    """The words that begin a container. podman takes no runroot of more than 50 characters. Its limits need no right to raise them."""
    return [*prefix(), "podman", "--root", os.path.join(base, "store"), "--runroot", runroot, "--cgroup-manager=cgroupfs", "--runtime=crun",
            "--storage-driver=vfs", "run", "--rm", "--name", "one", "--cgroups=disabled", "--network=none", "--log-driver=none",
            "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000", "-v", "/usr:/usr:ro"]


class Container:
    """A program of tests/programs as the first process of a container. It keeps step by two pipes with names."""

    def __init__(self, processes, programs, scratch, options, words, script=None):
        self.base = os.path.join(scratch, "container")
        root, talk = os.path.join(self.base, "root"), os.path.join(self.base, "talk")
        make_root(root)
        os.mkdir(talk)
        for name in ("ready", "go"):
            os.mkfifo(os.path.join(talk, name))
            os.chmod(os.path.join(talk, name), 0o666)
        for path in (scratch, self.base, root):
            os.chmod(path, 0o755)
        os.chmod(talk, 0o777)
        if "--uidmap" in options:  # crun makes files there as the container's root
            subprocess.run(["chown", "-R", "-h", "100000:100000", root], check=True)
        self.ready = os.open(os.path.join(talk, "ready"), os.O_RDWR)
        self.go_fd = os.open(os.path.join(talk, "go"), os.O_RDWR)
        pid_file = os.path.join(self.base, "pid")
        start = script or f"exec /programs/{words[0]} --ready-fd 3 --go-fd 4 {' '.join(map(str, words[1:]))} 3>/talk/ready 4</talk/go"
        self.process = processes.start(
            [*podman_run(self.base, os.path.join(scratch, "r")), "--pidfile", pid_file, "-v", f"{programs}:/programs:ro",
             "-v", f"{os.path.dirname(os.path.dirname(programs))}:/build:ro", "-v", f"{talk}:/talk", *options, "--rootfs", root, "/bin/sh", "-c", start],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until(lambda: os.path.exists(pid_file) and open(pid_file).read().strip() or self.process.poll() is not None, "the container")
        if self.process.poll() is not None:
            raise AssertionError(self.process.stderr.read())
        self.pid = int(open(pid_file).read())
        self.wait_ready()

    def wait_ready(self):
        assert os.read(self.ready, 1) == b"r"
        return self

    def go(self):
        os.write(self.go_fd, b"g")
        return self

    def finish(self):
        self.go()
        output, error = self.process.communicate(timeout=50)
        assert self.process.returncode == 0, error
        return output

    def close(self):
        """Leaves no process and no mount behind, however the test ended."""
        if os.path.exists(f"/proc/{self.pid}") and self.process.poll() is None:
            os.kill(self.pid, 9)
            self.process.communicate(timeout=50)
        os.close(self.ready)
        os.close(self.go_fd)


@pytest.fixture
def container(processes, program_path, scratch):
    if not shutil.which("podman") or not shutil.which("crun"):
        pytest.skip("podman and crun aren't installed (.ci/install-packages check)")
    if os.geteuid():
        pytest.skip("only root traces processes of containers")
    started = []

    def start(options, *words, script=None):
        if "--uidmap" in options:
            needs_user_namespaces()
        started.append(Container(processes, os.path.dirname(program_path("spin")), scratch, options, words, script))
        return started[-1]
    yield start
    for one in started:
        one.close()


@pytest.mark.parametrize("way", WAYS)
def test_traces_a_program_in_a_container(dyntrace, container, way):
    """Exact counts per thread, strings, backtraces, exits; afterwards the program is as it was."""
    inside = container(WAYS[way], "spin", "--threads", THREADS, "--calls", CALLS, "--rounds", 2)
    assert status(inside.pid, "Seccomp") == "2"
    before = Snapshot(inside.pid)
    tracing = dyntrace.start_trace(inside.pid, "--function", "foo", "-e", "-t", "backtrace", "-t", "comm")
    inside.go().wait_ready()
    trace = tracing.stop()
    before.assert_unchanged()
    assert trace.lost == 0
    assert trace.names() == {"foo_entry": THREADS * CALLS, "foo_exit": THREADS * CALLS}
    assert sorted(trace.per_tid("foo_entry").values()) == [CALLS] * THREADS
    for event in trace.named("foo_entry"):
        assert event.fields["text"] == "dyntrace" and event.fields["comm"] == "spin" and len(event.fields["backtrace"]) >= 3, event
    inside.go().wait_ready()
    lines = inside.finish().splitlines()
    assert [int(line.split()[1]) for line in lines] == [2 * CALLS] * THREADS


def test_traces_by_name_inside_a_container(dyntrace, container):
    """A name that only a process of the container has. Its file is found in the container's own root."""
    name = f"in{os.getpid()}"
    inside = container([], script=f"cp /programs/spin /tmp/{name} && exec /tmp/{name} --ready-fd 3 --go-fd 4 --calls {CALLS} 3>/talk/ready 4</talk/go")
    tracing = dyntrace.start_trace(inside.pid, "--function", "foo", target=name)
    inside.go().wait_ready()
    trace = tracing.stop()
    tracing.before.assert_unchanged()
    assert (trace.names(), trace.lost) == ({"foo_entry": CALLS}, 0)
    assert {event.fields["text"] for event in trace.events} == {"dyntrace"}
    inside.finish()


def test_a_profile_of_ones_own(dyntrace, container, scratch):
    """A seccomp profile that answers EPERM to process_vm_readv, by --security-opt: values in memory that stays are there all the same."""
    path = os.path.join(scratch, "profile.json")
    with open(path, "w") as file:
        json.dump({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["process_vm_readv"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1}]}, file)
    inside = container(["--security-opt", f"seccomp={path}"], "spin", "--threads", THREADS, "--calls", CALLS)
    assert status(inside.pid, "Seccomp") == "2"
    tracing = dyntrace.start_trace(inside.pid, "--function", "foo", "-e")
    inside.go().wait_ready()
    trace = tracing.stop()
    tracing.before.assert_unchanged()
    assert "its filter answers EPERM for process_vm_readv: some values behind pointers can't be read" in tracing.stderr
    assert (trace.names(), trace.lost) == ({"foo_entry": THREADS * CALLS, "foo_exit": THREADS * CALLS}, 0)
    assert {event.fields["text"] for event in trace.named("foo_entry")} == {"dyntrace"}
    inside.finish()


SPIN = f"/programs/spin --ready-fd 3 --go-fd 4 --threads {THREADS} --calls {CALLS} 3>/talk/ready 4</talk/go"
TRACE = "/build/dyntrace trace -o /talk/trace --function foo -e -t backtrace"
BEGUN = 'until read name </proc/$!/comm && [ "$name" = spin ]; do :; done'  # before that it is a copy of the shell
FROM_INSIDE = {
    "a process": f"{SPIN} & {BEGUN}; {TRACE} -p $! 2>/talk/said; echo $? >/talk/status; wait",
    "a command": f"{TRACE} -- {SPIN} 2>/talk/said; echo $? >/talk/status",
}


@pytest.mark.parametrize("what, way", [("a process", "default"), ("a command", "root"), ("a process", "users"), ("a process", "read-only"),
                                       ("a command", "read-only")])
def test_traces_from_inside_a_container(container, what, way):
    """dyntrace in the container of its target, with the container's filter and without further rights: it can't read the filter, and
    tries it in children of its own. As the container's root, as a user, and where root is nobody outside."""
    if way == "users":
        needs_user_namespaces()
    options = ["--read-only", "--cap-drop=all"] if way == "root" else WAYS[way]
    inside = container(options, script=FROM_INSIDE[what])
    talk = os.path.join(inside.base, "talk")
    if what == "a process":
        until(lambda: os.path.exists(f"{talk}/said") and "tracing spin" in open(f"{talk}/said").read() or os.path.exists(f"{talk}/status"), "dyntrace")
    inside.go().wait_ready()
    inside.finish()
    said = open(f"{talk}/said").read()
    assert open(f"{talk}/status").read() == "0\n", said
    trace = Trace(f"{talk}/trace")
    assert (trace.names(), trace.lost) == ({"foo_entry": THREADS * CALLS, "foo_exit": THREADS * CALLS}, 0), said
    assert sorted(trace.per_tid("foo_entry").values()) == [CALLS] * THREADS
    assert all(event.fields["text"] == "dyntrace" and len(event.fields["backtrace"]) >= 3 for event in trace.named("foo_entry"))


def write_filter(scratch):
    """A file for bubblewrap: the filter answers EPERM to mount."""
    path = os.path.join(scratch, "filter")
    code = [(0x20, 0, 0, 0), (0x15, 0, 1, 165), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7fff0000)]
    with open(path, "wb") as file:
        file.write(b"".join(struct.pack("HBBI", *one) for one in code))
    return path


@pytest.mark.parametrize("spaces, depth", [(["--unshare-all"], 2), (["--unshare-user", "--unshare-ipc", "--unshare-net", "--unshare-uts"], 1)],
                         ids=["all", "the host's pids"])
def test_traces_a_program_in_bubblewraps_sandbox(dyntrace, processes, program_path, scratch, spaces, depth):
    """All namespaces of its own, or all but that of pids (which podman refuses without a control group), and a filter that answers EPERM to mount."""
    if not shutil.which("bwrap"):
        pytest.skip("bubblewrap isn't installed (.ci/install-packages check)")
    needs_user_namespaces()
    status_path = os.path.join(scratch, "status")
    ready, ready_end = os.pipe()
    go_end, go = os.pipe()
    with open(write_filter(scratch), "rb") as given, open(status_path, "w") as told:
        sandbox = processes.start(
            ["bwrap", *spaces, "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev",
             "--seccomp", given.fileno(), "--json-status-fd", told.fileno(), program_path("spin"), "--threads", THREADS,
             "--calls", CALLS, "--ready-fd", ready_end, "--go-fd", go_end],
            pass_fds=[given.fileno(), told.fileno(), ready_end, go_end], stdout=subprocess.PIPE, text=True)
    for fd in (ready_end, go_end):
        os.close(fd)
    try:
        assert os.read(ready, 1) == b"r"
        with open(status_path) as file:
            pid = json.loads(file.readline())["child-pid"]
        if depth == 2:  # that is bubblewrap's own first process; the program is its child
            with open(f"/proc/{pid}/task/{pid}/children") as file:
                pid = int(file.read().split()[0])
        assert status(pid, "Seccomp") == "2" and len(status(pid, "NSpid").split()) == depth
        tracing = dyntrace.start_trace(pid, "--function", "foo", "-e", "-t", "backtrace")
        os.write(go, b"g")
        assert os.read(ready, 1) == b"r"
        trace = tracing.stop()
        tracing.before.assert_unchanged()
        assert trace.lost == 0 and trace.names() == {"foo_entry": THREADS * CALLS, "foo_exit": THREADS * CALLS}
        assert {event.fields["text"] for event in trace.named("foo_entry")} == {"dyntrace"}
        os.write(go, b"g")
        lines = sandbox.communicate(timeout=50)[0].splitlines()
        assert sandbox.returncode == 0 and [int(line.split()[1]) for line in lines] == [CALLS] * THREADS
    finally:
        os.close(ready)
        os.close(go)


def test_traces_from_inside_a_sandbox_with_the_hosts_pids(build, processes, program_path, scratch):
    """The first process is the host's, and has no filter: a common ancestor tells that the target has the filter that can be tried."""
    if not shutil.which("bwrap"):
        pytest.skip("bubblewrap isn't installed (.ci/install-packages check)")
    ready, ready_end = os.pipe()
    go_end, go = os.pipe()
    spin = f"{program_path('spin')} --threads {THREADS} --calls {CALLS} --ready-fd {ready_end} --go-fd {go_end}"
    script = f'{spin} & {BEGUN}; {build}/dyntrace trace -o {scratch}/trace -p $! --function foo -e -t backtrace 2>{scratch}/said; echo $? >{scratch}/status; wait'
    with open(write_filter(scratch), "rb") as given:
        sandbox = processes.start(
            ["bwrap", "--die-with-parent", "--dev-bind", "/", "/", "--cap-drop", "ALL", "--seccomp", given.fileno(), "sh", "-c", script],
            pass_fds=[given.fileno(), ready_end, go_end], stdout=subprocess.PIPE, text=True)
    for fd in (ready_end, go_end):
        os.close(fd)
    try:
        assert os.read(ready, 1) == b"r"
        until(lambda: os.path.exists(f"{scratch}/said") and "tracing spin" in open(f"{scratch}/said").read() or os.path.exists(f"{scratch}/status"), "dyntrace")
        assert not os.path.exists(f"{scratch}/status"), open(f"{scratch}/said").read()
        os.write(go, b"g")
        assert os.read(ready, 1) == b"r"
        os.write(go, b"g")
        lines = sandbox.communicate(timeout=50)[0].splitlines()
        assert sandbox.returncode == 0 and [int(line.split()[1]) for line in lines] == [CALLS] * THREADS
    finally:
        os.close(ready)
        os.close(go)
    trace = Trace(f"{scratch}/trace")
    assert (trace.names(), trace.lost) == ({"foo_entry": THREADS * CALLS, "foo_exit": THREADS * CALLS}, 0)
    assert all(event.fields["text"] == "dyntrace" and len(event.fields["backtrace"]) >= 3 for event in trace.named("foo_entry"))
