"""Permissions: the daemon's socket, other users' processes and files (D4). Users are bare ids, which need no accounts."""
import errno
import os
import shutil
import signal
import stat
import subprocess

import pytest
from daemon_harness import CALLS, Daemon, UnderYama, helpers, message
from harness import Program, Trace, descriptors, gdb_words, state, until

GROUP = 61900
MEMBER = (61901, 61901, [GROUP])
OTHER_MEMBER = (61902, 61902, [GROUP])
STRANGER = (61903, 61903, [])


def folder_of(place, user):
    path = os.path.join(place, f"home{user[0]}")
    os.mkdir(path, 0o700)
    os.chown(path, user[0], user[1])
    return path


@pytest.fixture
def daemon(new_daemon, place):
    one = new_daemon("--group", GROUP)
    one.build = place
    return one.start()


@pytest.fixture
def spin_of(processes, program_path, place):
    """The program spin, started as another user."""
    started = []

    def start(user, rounds=20):
        path = os.path.join(place, "spin")
        if not os.path.exists(path):
            shutil.copy(program_path("spin"), path)
        words = ["--calls", CALLS, "--rounds", rounds]
        uid, gid, _ = user
        prefix = ["--reuid", uid, "--regid", gid, "--clear-groups", path]
        one = _program(processes, prefix, words)
        started.append(one)
        one.wait_ready()
        one.round = lambda: (one.go(), one.wait_ready())
        return one
    yield start
    for one in started:
        one.close()


def _program(processes, prefix, words):
    """A Program whose command begins with setpriv's words; handshake options go behind the path."""
    one = Program.__new__(Program)
    ready, ready_end = os.pipe()
    go_end, go = os.pipe()
    one.ready_fd, one.go_fd = ready, go
    command = ["setpriv", *prefix, "--ready-fd", ready_end, "--go-fd", go_end, *words]
    one.process = processes.start(command, stdout=subprocess.PIPE, text=True, pass_fds=[ready_end, go_end])
    one.pid = one.process.pid
    os.close(ready_end)
    os.close(go_end)
    return one


# ---- the socket -----------------------------------------------------------------------------------

def test_socket_and_folders_have_exact_modes(daemon):
    def mode(path):
        found = os.lstat(path)
        return stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid
    assert mode(daemon.socket) == (0o660, 0, GROUP)
    assert mode(daemon.socket + ".lock") == (0o600, 0, 0)
    assert mode(daemon.socket + ".d") == (0o700, 0, 0)
    assert mode(daemon.socket + ".d/workers") == (0o700, 0, 0)
    assert mode(daemon.socket + ".d/targets") == (0o700, 0, 0)
    assert mode(daemon.output) == (0o1770, 0, GROUP)


def test_members_may_connect_and_strangers_may_not(daemon):
    """(D4) The kernel says who a client is."""
    assert daemon.json("status", user=MEMBER)["user"] == "root"
    assert daemon.fails("status", user=STRANGER) == \
        f"not permitted to use the daemon at {daemon.socket}: only root and members of its group ({GROUP}) may"


def test_a_stranger_is_refused_even_where_the_sockets_mode_lets_him(daemon):
    os.chmod(daemon.socket, 0o666)
    assert daemon.fails("status", user=STRANGER) == \
        "not permitted: only root and the members of the daemon's group may use it"
    assert f"refused pid" in daemon.log_text() and f"uid {STRANGER[0]}" in daemon.log_text()


def test_without_the_group_only_root_may(new_daemon, place):
    daemon = new_daemon()
    daemon.build = place
    daemon.start()
    if "no group 'dyntrace'" not in daemon.log_text():
        pytest.skip("this machine has a group dyntrace")
    assert stat.S_IMODE(os.lstat(daemon.socket).st_mode) == 0o600
    assert "not permitted" in daemon.fails("status", user=MEMBER)


# ---- owners of processes------------------------------------------------------------------------------

def test_a_member_records_a_process_of_root_into_a_trace_of_his_own(daemon, spin):
    one = spin()
    daemon.targets.add(str(one.pid))
    assert daemon("add", f"{one.pid}:foo", user=MEMBER).stdout == "foo\n"
    one.round()
    path = daemon.trace_of(one.pid)
    daemon("detach", one.pid, user=MEMBER)
    assert Trace(path).names() == {"foo": CALLS}
    for name in (path, *(os.path.join(path, name) for name in os.listdir(path))):
        found = os.lstat(name)
        assert (found.st_uid, found.st_gid) == MEMBER[:2], name
        assert stat.S_IMODE(found.st_mode) == (0o700 if name == path else 0o600)
    read = subprocess.run(["setpriv", "--reuid", str(OTHER_MEMBER[0]), "--regid", str(OTHER_MEMBER[1]), "--groups",
                           str(GROUP), "cat", os.path.join(path, "metadata")], capture_output=True, text=True)
    assert read.returncode == 1 and "Permission denied" in read.stderr


def test_the_worker_has_the_rights_of_the_targets_user_and_the_keeper_the_clients(daemon, spin_of):
    one = spin_of(STRANGER)
    daemon.targets.add(str(one.pid))
    daemon("add", f"{one.pid}:foo", user=MEMBER)

    def status(pid):
        with open(f"/proc/{pid}/status") as file:
            return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    worker = status(helpers("worker", one.pid)[0])
    assert worker["Uid"].split() == [str(STRANGER[0])] * 4 and worker["Gid"].split() == [str(STRANGER[1])] * 4
    assert worker["Groups"].split() == [] and worker["NoNewPrivs"] == "1"
    assert int(worker["CapEff"], 16) == int(worker["CapPrm"], 16) == 1 << 23  # CAP_SYS_NICE
    keeper = status(helpers("keeper", daemon.output)[0])
    assert keeper["Uid"].split() == [str(MEMBER[0])] * 4 and keeper["Groups"].split() == [str(GROUP)]
    assert int(keeper["CapEff"], 16) == int(keeper["CapPrm"], 16) == 0 and keeper["NoNewPrivs"] == "1"
    one.round()
    assert daemon.hits(one.pid) == {"foo": CALLS}
    assert daemon.json("list-processes")[0]["user"] == str(STRANGER[0])


def test_own_only(new_daemon, place, spin, spin_of):
    daemon = new_daemon("--group", GROUP, "--own-only")
    daemon.build = place
    daemon.start()
    root, own = spin(), spin_of(MEMBER)
    daemon.targets |= {str(root.pid), str(own.pid)}
    assert daemon.fails("attach", root.pid, user=MEMBER) == \
        f"process {root.pid} (spin) isn't yours: with --own-only, users may trace only their own processes"
    daemon("attach", own.pid, user=MEMBER)
    assert "isn't yours" in daemon.fails("list-tracepoints", own.pid, user=OTHER_MEMBER)
    assert daemon.json("list-processes", user=OTHER_MEMBER) == []
    assert [one["pid"] for one in daemon.json("list-processes", user=MEMBER)] == [own.pid]
    daemon("attach", root.pid)
    daemon("stop", user=MEMBER)  # of what is his
    daemon("add", f"{root.pid}:foo")
    root.round()
    assert daemon.hits(root.pid) == {"foo": CALLS}


def test_code_is_loaded_only_into_ones_own_processes(daemon, spin):
    one = spin()
    for words in (["load", one.pid, "/tmp/x.so"], ["add", f"{one.pid}:foo", "call", "/tmp/x.so:f"]):
        assert daemon.fails(*words, user=MEMBER) == \
            f"process {one.pid} (spin) isn't yours: only root loads code into other users' processes"
    assert daemon.json("list-processes") == []


def test_a_member_only_records_in_processes_of_others(daemon, spin, spin_of, place):
    """`log` without a file writes to the process's own output, `lttng` loads libraries: for one's own processes only."""
    root, own = spin(), spin_of(MEMBER)
    for words in (["log"], ["log", "--sync"], ["log", "--sync", "/dev/null"]):
        assert daemon.fails("add", f"{root.pid}:foo", *words, user=MEMBER) == \
            f"process {root.pid} (spin) isn't yours: only root writes to other users' output (give the tracer log a FILE, without --sync)"
    assert daemon.fails("add", f"{root.pid}:foo", "lttng", user=MEMBER) == \
        f"process {root.pid} (spin) isn't yours: only root loads code into other users' processes"
    assert daemon.json("list-processes") == []
    daemon.add(f"{root.pid}:foo", "log", f"{folder_of(place, MEMBER)}/lines", user=MEMBER)
    daemon.add(f"{own.pid}:foo", "log", user=MEMBER)
    for one in (root, own):
        daemon("detach", one.pid)


@pytest.mark.parametrize("owner", [None, OTHER_MEMBER])
def test_tracepoints_are_changed_by_their_user_and_root_alone(daemon, spin, owner):
    """D8: a member's commands change nothing of root's, nor of another member's."""
    one = spin()
    daemon.add(f"{one.pid}:foo", "-n", "hers", user=owner)
    daemon.add(f"{one.pid}:foo_many", "-n", "his", user=MEMBER)
    uid = owner[0] if owner else 0
    for words in (["rm", f"{one.pid}:hers"], ["rm", f"{one.pid}:h*"], ["disable", f"{one.pid}:hers"],
                  ["add-context", "-u", "-e", "hers", "--pid", one.pid, "-t", "tid"]):
        assert f"tracepoint 'hers' is user {uid}'s: only that user and root may change it" in daemon.fails(*words, user=MEMBER)
    for words in (["stop", one.pid], ["detach", one.pid], ["stop"]):
        assert f"is traced by user {uid}, too: only root may stop or detach it" in daemon.fails(*words, user=MEMBER)
    assert f"is traced by user {uid}, too: only root may reset its counts" in daemon.fails(
        "list-tracepoints", one.pid, "--reset", user=MEMBER)
    one.round()
    daemon("disable", f"{one.pid}:his", user=MEMBER)
    one.round()
    assert daemon.hits(one.pid) == {"hers": 2 * CALLS, "his": 1}
    daemon("rm", f"{one.pid}:his", user=MEMBER)
    daemon("disable", f"{one.pid}:hers", user=owner)
    daemon("enable", f"{one.pid}:hers")
    daemon("rm", f"{one.pid}:hers")
    assert f"was attached by user {uid}: only that user and root may detach it" in daemon.fails("detach", one.pid, user=MEMBER)
    daemon("detach", one.pid, user=owner)


def test_a_users_tracepoints_stay_the_users_when_the_daemon_dies(daemon, spin):
    one = spin()
    daemon.add(f"{one.pid}:foo", "-n", "hers")
    daemon.kill()
    daemon.start()
    assert "tracepoint 'hers' is user 0's" in daemon.fails("rm", f"{one.pid}:hers", user=MEMBER)
    daemon("rm", f"{one.pid}:hers")


def test_texts_of_a_client_are_bounded_and_have_no_control_characters(daemon, spin):
    one = spin()
    errors = {"x" * 256: "add: 'xxxxxxxxxxxxxxxxxxxx...' is too long (at most 255 bytes)", "": "add: the name is empty"}
    for name in ("a\x1b[2J", "a\nb", "\x07"):
        errors[name] = "add: a name, location or text has a control character in it"
    for name, error in errors.items():
        assert daemon.fails("add", f"{one.pid}:foo", "-n", name, user=MEMBER, status=2) == error
    assert daemon.json("list-processes") == []


def test_a_process_that_changed_its_user_needs_all_targets(new_daemon, place, processes):
    code = "import os, sys; os.setresgid(61903, 61903, 61903); os.setresuid(61903, 61903, 61903); print('ready', flush=True); " \
        "sys.stdin.read()"
    one = processes.start(["/usr/bin/python3", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert one.stdout.readline() == "ready\n"
    daemon = new_daemon()
    daemon.build = place
    daemon.start()
    daemon.targets.add(str(one.pid))
    assert daemon.fails("attach", one.pid) == \
        f"process {one.pid} (python3.11) has changed its user or has special rights: its user's rights aren't enough to " \
        "trace it (start dyntraced with --all-targets)"
    daemon.stop()
    daemon.words.append("--all-targets")
    daemon.start()
    daemon("attach", one.pid)
    daemon("detach", one.pid)


# ---- a user's own daemon ---------------------------------------------------------------------------------

def test_a_users_own_daemon_is_for_his_own_processes(new_daemon, place, spin, spin_of):
    home = folder_of(place, MEMBER)
    daemon = new_daemon(folder=home, as_user=MEMBER)
    daemon.build = place
    daemon.log = os.path.join(place, "user.log")
    daemon.start()
    root, own = spin(), spin_of(MEMBER)
    daemon.targets |= {str(root.pid), str(own.pid)}
    assert stat.S_IMODE(os.lstat(daemon.socket).st_mode) == 0o600
    assert daemon("add", f"{own.pid}:foo", user=MEMBER).stdout == "foo\n"
    own.round()
    assert daemon.hits(own.pid) == {"foo": CALLS}
    assert daemon.fails("attach", root.pid, user=MEMBER) == \
        f"process {root.pid} (spin) belongs to another user: only root's daemon can trace it"
    assert "not permitted" in daemon.fails("status", user=OTHER_MEMBER)
    assert daemon.finish(own.pid).names() == {"foo": CALLS}


# ---- files ---------------------------------------------------------------------------------------------------

def test_a_clients_directory_is_made_with_the_clients_rights(daemon, spin, place):
    one = spin()
    daemon.targets.add(str(one.pid))
    error = daemon.fails("add", f"{one.pid}:foo", "ctf", "/root/trace", user=MEMBER)
    assert "/root/trace" in error and ("ermission" in error or "ermitted" in error)
    assert not os.path.exists("/root/trace")
    home = folder_of(place, MEMBER)
    secret = os.path.join(place, "secret")
    os.mkdir(secret, 0o700)
    os.symlink(secret, os.path.join(home, "link"))
    error = daemon.fails("add", f"{one.pid}:foo", "ctf", os.path.join(home, "link"), user=MEMBER)
    assert "exist" in error
    assert os.listdir(secret) == []
    error = daemon.fails("add", f"{one.pid}:foo", "ctf", os.path.join(home, "link", "trace"), user=MEMBER)
    assert "ermission" in error or "ermitted" in error
    assert os.listdir(secret) == []
    daemon("add", f"{one.pid}:foo", "ctf", os.path.join(home, "trace"), user=MEMBER)
    assert os.lstat(os.path.join(home, "trace")).st_uid == MEMBER[0]


def test_links_planted_in_a_trace_are_not_followed(daemon, spin, place):
    home = folder_of(place, MEMBER)
    one = spin()
    daemon.targets.add(str(one.pid))
    daemon("add", f"{one.pid}:foo", "ctf", os.path.join(home, "trace"), user=MEMBER)
    victim = os.path.join(place, "victim")
    with open(victim, "w") as file:
        file.write("precious")
    os.chmod(victim, 0o666)
    folder = os.path.join(home, "trace")
    for number in range(4):
        path = os.path.join(folder, f"stream_{number}")
        if not os.path.lexists(path):
            os.symlink(victim, path)
    one.round()
    daemon("flush", one.pid, status=None)
    with open(victim) as file:
        assert file.read() == "precious"


def test_a_log_is_opened_with_the_clients_rights(daemon, spin, spin_of, place):
    home = folder_of(place, MEMBER)
    one = spin_of(STRANGER)
    daemon.targets.add(str(one.pid))
    theirs = os.path.join(place, "theirs")  # the target's user could write it, the client can't
    with open(theirs, "w") as file:
        file.write("precious")
    os.chown(theirs, *STRANGER[:2])
    os.chmod(theirs, 0o600)
    link = os.path.join(home, "link")
    os.symlink(theirs, link)
    for path in (theirs, link):
        error = daemon.fails("add", f"{one.pid}:foo", "log", path, user=MEMBER)
        assert error.startswith(f"cannot write {path}: ")
    daemon("add", f"{one.pid}:foo", "log", os.path.join(home, "log"), user=MEMBER)
    one.round()
    daemon("detach", one.pid)
    found = os.lstat(os.path.join(home, "log"))
    assert found.st_uid == MEMBER[0] and stat.S_IMODE(found.st_mode) == 0o600
    assert len(open(os.path.join(home, "log")).read().splitlines()) == CALLS
    assert open(theirs).read() == "precious"


def test_every_command_has_a_line_in_the_log(daemon, spin):
    one = spin()
    daemon.targets.add(str(one.pid))
    daemon("add", f"{one.pid}:foo", user=MEMBER)
    daemon.fails("rm", f"{one.pid}:nothing", user=OTHER_MEMBER)
    lines = daemon.log_text().splitlines()
    added = next(line for line in lines if " add " in line)
    assert f"uid={MEMBER[0]} pid=" in added and f"target='{one.pid}' location='foo': ok" in added
    failed = next(line for line in lines if " rm " in line)
    assert f"uid={OTHER_MEMBER[0]}" in failed and failed.endswith("failed: no tracepoint 'nothing' (list-tracepoints lists them)")
    daemon("attach", "evil\nuid=0 pid=1 attach target='1': ok", user=MEMBER, status=2)
    assert not [line for line in daemon.log_text().splitlines() if line.startswith("uid=0")]


def test_identity_is_the_kernels_not_the_messages(new_daemon, place, spin):
    daemon = new_daemon("--group", GROUP, "--own-only")
    daemon.build = place
    daemon.start()
    one = spin()
    code = f"""
import os, sys
sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
os.setgroups([{GROUP}]); os.setresgid(61901, 61901, 61901); os.setresuid(61901, 61901, 61901)
import socket, struct
one = socket.socket(socket.AF_UNIX); one.connect({daemon.socket!r})
one.sendall({message("WIRE_ATTACH", WIRE_TARGET=str(one.pid), WIRE_UID=0, WIRE_GID=0)!r})
one.settimeout(100)
print(one.recv(65536))
"""
    result = subprocess.run(["/usr/bin/python3", "-c", code], capture_output=True, text=True, timeout=20)
    assert "isn't yours" in result.stdout, result.stderr
    assert daemon.json("list-processes") == []


# ---- linked and preloaded agents ----------------------------------------------------------------------------

def test_a_strangers_agent_may_register_and_do_nothing_else(daemon, processes):
    agents = daemon.socket + ".agents"
    assert stat.S_IMODE(os.lstat(agents).st_mode) == 0o666
    agent = os.path.join(daemon.build, "libdyntrace-agent.so")
    command = daemon.for_user(["env", f"LD_PRELOAD={agent}", f"DYNTRACE_SOCKET={daemon.socket}", "cat"], STRANGER)
    one = processes.start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    listed = until(lambda: [each for each in daemon.json("list-processes") if each["pid"] == one.pid and
                            each["name"] == "cat"], "the agent to be listed")
    listed[0].pop("cgroup")  # the machine's
    assert listed == [{"pid": one.pid, "name": "cat", "user": str(STRANGER[0]), "loaded": "preloaded", "tracepoints": 0}]
    one.stdin.close()
    one.wait()
    until(lambda: daemon.json("list-processes") == [], "it to be gone")
    error = daemon.fails("status", "--socket", agents, user=STRANGER)
    assert error == "this socket is for agents only"


def test_what_waits_for_a_preloaded_program_is_there_before_main(daemon, place, processes, program_path):
    name = f"wait{os.getpid()}"
    path = os.path.join(place, name)
    shutil.copy(program_path("spin"), path)
    assert daemon("add", "--wait", f"{name}:foo").stdout == "foo\n"
    assert daemon.json("status")["waiting"] == 1
    env = {**os.environ, "LD_PRELOAD": os.path.join(place, "libdyntrace-agent.so"), "DYNTRACE_SOCKET": daemon.socket}
    for number in range(3):  # it waits for each that comes
        out = subprocess.run([path, "--calls", str(CALLS), "--rounds", "1"], env=env, capture_output=True, text=True,
                             stdin=subprocess.DEVNULL, timeout=30)
        assert out.returncode == 0
        until(lambda: daemon.json("list-processes") == [], "it to be gone")
        traces = [each for each in os.listdir(daemon.output) if each.startswith(name)]
        assert len(traces) == number + 1
    assert Trace(daemon.output).names() == {"foo": 3 * CALLS}
    assert daemon.json("list-tracepoints", name)[0]["state"] == "waiting"
    daemon("rm", f"{name}:foo")
    assert daemon.json("status")["waiting"] == 0


def test_events_of_a_killed_worker_are_saved_with_the_rights_of_the_trace_s_owner(daemon, place, spin_of):
    """The next worker has the rights of the target's user; the trace belongs to another user: a keeper opens it."""
    one, home = spin_of(OTHER_MEMBER), folder_of(place, MEMBER)
    daemon.targets.add(str(one.pid))
    path = os.path.join(home, "trace")
    daemon("add", f"{one.pid}:foo", "ctf", path, user=MEMBER)
    one.round()
    until(lambda: ": settled" in daemon.log_text(), "the first worker")
    for number in range(2):
        os.kill(helpers("worker", one.pid)[0], signal.SIGKILL)
        one.round()
        until(lambda: daemon.log_text().count(": settled") > number + 1, "the next worker")
        one.round()
    daemon("detach", one.pid, user=MEMBER)
    assert Trace(path).names() == {"foo": 5 * CALLS}
    assert {os.stat(os.path.join(path, name)).st_uid for name in [".", *os.listdir(path)]} == {MEMBER[0]}
    one.finish()


def test_a_trace_that_became_somebody_else_s_is_not_gone_on_with(daemon, place, spin_of):
    one, home = spin_of(OTHER_MEMBER), folder_of(place, MEMBER)
    daemon.targets.add(str(one.pid))
    path = os.path.join(home, "trace")
    daemon("add", f"{one.pid}:foo", "ctf", path, user=MEMBER)
    one.round()
    daemon("flush", user=MEMBER)
    until(lambda: ": settled" in daemon.log_text(), "the first worker")
    os.chmod(path, 0o777)
    worker, = helpers("worker", one.pid)
    os.kill(worker, signal.SIGSTOP)  # it writes a better clock now and then
    until(lambda: state(worker) == "T", "the worker to stand")
    size = sum(os.stat(os.path.join(path, name)).st_mtime_ns for name in os.listdir(path))
    os.kill(worker, signal.SIGKILL)
    until(lambda: daemon.log_text().count(": settled") == 2, "the next worker")
    assert size == sum(os.stat(os.path.join(path, name)).st_mtime_ns for name in os.listdir(path))
    daemon("detach", one.pid, user=MEMBER)
    one.finish()


def status_of(pid):
    with open(f"/proc/{pid}/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


CAPABILITIES = {"CAP_DAC_OVERRIDE": 1, "CAP_DAC_READ_SEARCH": 2, "CAP_KILL": 5, "CAP_SYS_PTRACE": 19, "CAP_SYS_NICE": 23,
                "CAP_SYS_RESOURCE": 24, "CAP_CHECKPOINT_RESTORE": 40}


def attempts(worker):
    """The system calls that gdb, instead of a parser gone astray, can make in the worker: errno per call, 0 if it works."""
    calls = {"execve": 'execve("/bin/true", 0, 0)', "socket": "socket(1, 1, 0)", "connect": "connect(3, 0, 0)",
             "create": 'open("/tmp/dyntrace-confined", 0102, 0600)', "unlink": 'unlink("/etc/hostname")',
             "chmod": 'chmod("/etc/hostname", 0666)', "setuid": "setuid(0)", "mount": "mount(0, 0, 0, 0, 0)",
             "read": 'open("/etc/hostname", 0)'}
    words = []
    for call in calls.values():
        name = call.split("(")[0]
        words += ["-ex", "set $kept = ((int(*)())" + name + ")" + call[len(name):],
                  "-ex", "printf \"made %d\\n\", $kept < 0 ? *((int *(*)())__errno_location)() : 0"]
    text = subprocess.run([*gdb_words(worker), *words], capture_output=True, text=True, timeout=50)
    return dict(zip(calls, [int(line.split()[1]) for line in text.stdout.splitlines() if line.startswith("made ")])), text


@pytest.mark.parametrize("user", [(0, 0, []), MEMBER], ids=["root", "member"])
def test_workers_are_confined(daemon, spin_of, user):
    one = spin_of(user)
    daemon.attach(one.pid)
    worker = daemon.workers(one.pid)[0]
    status = status_of(worker)
    names = CAPABILITIES if user[0] == 0 else ["CAP_SYS_NICE"]
    ours = int(status_of("self")["CapPrm"], 16)  # root in a container may have fewer itself
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == ours & sum(1 << CAPABILITIES[name] for name in names)
    assert (status["Seccomp"], status["NoNewPrivs"]) == ("2", "1")
    made, text = attempts(worker)
    refused = dict.fromkeys(("execve", "socket", "connect", "create", "unlink", "chmod", "setuid", "mount"), errno.EPERM)
    assert made == {**refused, "read": 0}, text
    daemon.add(f"{one.pid}:foo", "-e", "-t", "backtrace")
    one.round()
    assert daemon.finish(one.pid).names() == {"foo_entry": CALLS, "foo_exit": CALLS}
    one.finish()


STEAL = r"""
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
pid = int(sys.argv[1])
taken = []
for fd in range(16):
    if libc.syscall(438, os.pidfd_open(pid), fd, 0) >= 0:
        taken.append(f"pidfd_getfd {fd}")
    try:
        os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR | os.O_APPEND)
        taken.append(f"open {fd}")
    except OSError:
        pass
if libc.ptrace(0x4206, pid, 0, 0) == 0:
    taken.append("ptrace")
print(taken)
"""


def test_helpers_have_nothing_that_their_user_could_take(daemon, spin_of, place):
    """(H34) Worker and keeper run as the member, who gets none of their descriptors; none is the daemon's log."""
    one = spin_of(MEMBER)
    folder = folder_of(place, MEMBER)
    daemon.add(f"{one.pid}:foo", "ctf", f"{folder}/trace", user=MEMBER)
    found = daemon.workers(one.pid) + helpers("keeper-exact", folder)
    assert len(found) == 2
    for helper in found:
        links = descriptors(helper).values()
        assert daemon.log not in links and not [link for link in links if "/dev/pts" in link or "/dev/tty" in link], links
        text = subprocess.run(Daemon.for_user(["/usr/bin/python3", "-c", STEAL, str(helper)], MEMBER), capture_output=True, text=True,
                              timeout=50)
        assert text.stdout == "[]\n", text
    one.round()
    assert daemon.finish(one.pid).names() == {"foo": CALLS}
    one.finish()


def test_last_words_of_a_worker_are_in_the_log(daemon, spin_of):
    """A failed assert of a worker is one bounded line, in which nothing acts on a terminal."""
    one = spin_of(MEMBER)
    daemon.attach(one.pid)
    worker = daemon.workers(one.pid)[0]
    call = 'call (void)__assert_fail("never\\033[2J\\nuid=0", "%s", 7, "here")' % ("x" * 3000)
    subprocess.run([*gdb_words(worker), "-ex", call, "-ex", "kill"], capture_output=True, timeout=50)
    until(lambda: "its worker died" in daemon.log_text(), "the worker's end")
    lines = [line for line in daemon.log_text().splitlines() if "the last words of its worker" in line]
    assert len(lines) == 1 and "xxxx" in lines[0] and len(lines[0]) < 1000 and "\033" not in lines[0], lines
    assert not [line for line in daemon.log_text().splitlines() if line.startswith("uid=0")]
    daemon("detach", one.pid)
    one.finish()


@pytest.mark.parametrize("words, refused", [([], True), (["--all-targets"], False)], ids=["plain", "all-targets"])
def test_yama_allows_users_to_trace_their_descendants_only(build, processes, scratch, spin, spin_of, words, refused):
    """A worker with the rights of the target's user can't trace: the message says so, and what to do. Root's processes work."""
    daemon = UnderYama(build, processes, scratch, words)
    os.chmod(scratch, 0o755)
    try:
        daemon.start()
        his, roots = spin_of(MEMBER), spin()
        if refused:
            why = daemon.fails("attach", his.pid)
            assert why == f"process {his.pid} (spin): kernel.yama.ptrace_scope is 1: its user's rights aren't enough to trace " \
                "it (start dyntraced with --all-targets, or the program with the agent preloaded)"
        for one in [roots] if refused else [his, roots]:
            daemon.add(f"{one.pid}:foo", "count")
            assert status_of(daemon.workers(one.pid)[0])["Uid"].split() == ["0"] * 4
            one.round()
            assert daemon.hits(one.pid) == {"foo": CALLS}
            daemon("detach", one.pid)
            one.finish()
    finally:
        daemon.close()
