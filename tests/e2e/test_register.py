"""The agent, linked and preloaded, registers with the daemon (here a small one of the test), and nobody else notices."""
import ctypes
import os
import shutil
import socket
import struct
import subprocess
import tempfile

import pytest

from harness import PATIENCE, Program, descriptors, maps, until

MAGIC, VERSION, REGISTER, REPLY, LOADED = 0x74795964, 1, 17, 18, 10
NOBODY = 65534


@pytest.fixture
def agent(build):
    return os.path.join(build, "libdyntrace-agent.so")


class Daemon:
    """Listens where the agent looks."""

    def __init__(self, path):
        self.path = path
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        os.chmod(path, 0o666)
        self.listener.listen(8)
        self.listener.settimeout(20 * PATIENCE)

    def accept(self):
        peer, _ = self.listener.accept()
        peer.settimeout(20 * PATIENCE)
        pid, uid, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return peer, pid, uid

    def nobody_came(self):
        self.listener.settimeout(0)
        with pytest.raises(BlockingIOError):
            self.listener.accept()
        return True

    def close(self):
        self.listener.close()


@pytest.fixture
def daemon(scratch):
    started = []

    def start(name="daemon.sock.agents"):
        started.append(Daemon(os.path.join(scratch, name)))
        return started[-1]
    yield start
    for one in started:
        one.close()


def registration(loaded):
    text = loaded.encode() + b"\0"
    attribute = struct.pack("HHI", LOADED, 0, len(text)) + text
    return struct.pack("IHHII", MAGIC, VERSION, REGISTER, 1, len(attribute)) + attribute


def reply(kind=REPLY, length=0):
    return struct.pack("IHHII", MAGIC, VERSION, kind, 1, length) + b"\0" * length


def start_program(processes, path, environment, *arguments, **options):
    """A Program with other variables of the environment."""
    class Started:
        @staticmethod
        def start(command, **more):
            return processes.start(command, env={**os.environ, **environment}, **more, **options)
    return Program(Started, path, arguments)


@pytest.fixture
def launch(processes, program_path, scratch):
    started = []

    def start(name="linked", preload=None, sock="daemon.sock", **options):
        environment = {"DYNTRACE_SOCKET": os.path.join(scratch, sock)}
        if preload:
            environment["LD_PRELOAD"] = preload
        path = name if os.path.isabs(name) else program_path(name)
        started.append(start_program(processes, path, environment, **options))
        return started[-1]
    yield start
    for one in started:
        one.close()


def is_waiting(pid):
    """In poll, before its main."""
    with open(f"/proc/{pid}/syscall") as file:
        return file.read().split()[0] == "7"


@pytest.mark.parametrize("name", ["daemon.sock.agents", "daemon.sock"])
@pytest.mark.parametrize("program, preloaded", [("linked", False), ("hello", True), ("hello_musl", True), ("hello_nopie", True)])
def test_registers_and_waits_for_the_answer(daemon, launch, agent, name, program, preloaded):
    """The agent registers before main; notes may precede the answer; no descriptor is left."""
    server = daemon(name)
    started = launch(program, preload=agent if preloaded else None)
    peer, pid, _ = server.accept()
    assert pid == started.pid
    expected = registration("preloaded" if preloaded else "linked")
    assert peer.recv(1000) == expected
    until(lambda: is_waiting(pid), "the program to wait for the answer")
    assert not any("memfd:dyntrace" in line for line in maps(pid))
    for part in (reply(20, 100), reply()[:5], reply()[5:]):
        until(lambda: is_waiting(pid), "the program to wait for more")
        peer.sendall(part)
    started.wait_ready()
    assert peer.recv(1) == b""  # closed
    assert not [what for what in descriptors(pid).values() if "socket" in what]
    started.finish()


def test_runtime_directory(daemon, processes, program_path, scratch):
    """$XDG_RUNTIME_DIR/dyntrace.sock, if no other is named."""
    server = daemon("dyntrace.sock.agents")
    environment = {key: value for key, value in os.environ.items() if key != "DYNTRACE_SOCKET"}
    process = processes.start([program_path("linked")], env={**environment, "XDG_RUNTIME_DIR": scratch},
                              stdout=subprocess.DEVNULL)
    peer, pid, _ = server.accept()
    assert pid == process.pid
    peer.sendall(reply())
    assert process.wait(20) == 0


def test_goes_on_without_a_daemon(launch, scratch):
    """No socket, a file in its place, a socket without a listener, a name that is too long."""
    with open(os.path.join(scratch, "file.agents"), "w"):
        pass
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(os.path.join(scratch, "dead.agents"))
    dead.close()
    for sock in ("nothing", "file", "dead", "x" * 200):
        started = launch(sock=sock).wait_ready()
        assert len(descriptors(started.pid)) == 5  # the three, and the handshake's two
        started.finish()


@pytest.mark.parametrize("answer", [b"", b"garbage" * 10, reply()[:7], reply(REPLY, 0)[:12] + b"\xff" * 4])
def test_a_bad_answer_is_as_none(daemon, launch, answer):
    server = daemon()
    started = launch()
    peer, _, _ = server.accept()
    peer.sendall(answer)
    peer.close()
    started.wait_ready().finish()


def test_a_silent_daemon_costs_a_bounded_time(daemon, launch):
    server = daemon()
    started = launch()
    peer, _, _ = server.accept()
    started.wait_ready()  # with no answer ever
    peer.close()
    started.finish()


def test_does_not_talk_to_another_users_daemon(launch, processes, scratch):
    """The socket is nobody's: not a byte is sent."""
    assert os.geteuid() == 0
    os.chmod(scratch, 0o777)
    path = os.path.join(scratch, "daemon.sock.agents")
    script = ("import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.bind(sys.argv[1])\ns.listen()\nprint('ready', flush=True)\n"
              "peer, _ = s.accept()\nprint(repr(peer.recv(100)), flush=True)\n")
    server = processes.start(["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "/usr/bin/python3", "-c",
                              script, path], stdout=subprocess.PIPE, text=True)
    assert server.stdout.readline() == "ready\n"
    started = launch().wait_ready()
    assert server.stdout.readline() == "b''\n"
    started.finish()


def test_nothing_under_at_secure(daemon, processes, agent, scratch):
    """A set-user-id program doesn't register; the same program without that bit does."""
    assert os.geteuid() == 0
    folder = tempfile.mkdtemp(prefix="dyntrace-test-", dir="/var/tmp")  # not mounted nosuid
    try:
        server = daemon()
        os.chmod(scratch, 0o755)
        os.chmod(folder, 0o755)
        path, source = os.path.join(folder, "linked"), os.path.join(folder, "linked.c")
        shutil.copy(agent, folder)
        with open(source, "w") as file:
            file.write("int main(void) { return 0; }\n")
        subprocess.run(["gcc", "-o", path, source, f"-L{folder}", f"-Wl,-rpath,{folder}", "-Wl,--no-as-needed",
                        "-ldyntrace-agent"], check=True)
        environment = {**os.environ, "DYNTRACE_SOCKET": server.path.removesuffix(".agents")}
        command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", path]
        plain = processes.start(command, env=environment, stdout=subprocess.DEVNULL)
        peer, pid, uid = server.accept()
        assert (pid, uid) == (plain.pid, NOBODY)
        peer.sendall(reply())
        assert plain.wait(20) == 0
        os.chmod(path, 0o4755)
        secure = processes.start(command, env=environment, stdout=subprocess.DEVNULL)
        assert secure.wait(20) == 0
        assert server.nobody_came()
    finally:
        shutil.rmtree(folder)


def allow_all_filter():
    """A filter that forbids nothing, in the child before its program begins."""
    libc = ctypes.CDLL(None)
    code = (ctypes.c_char * 8).from_buffer_copy(struct.pack("HBBI", 0x06, 0, 0, 0x7fff0000))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 1, ctypes.addressof(code)))
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, program, 0, 0) == 0  # PR_SET_SECCOMP


def test_nothing_in_a_filtered_process(daemon, program_path):
    """Its filter might kill it for a socket."""
    server = daemon()
    environment = {**os.environ, "DYNTRACE_SOCKET": server.path.removesuffix(".agents")}
    result = subprocess.run([program_path("linked")], env=environment, preexec_fn=allow_all_filter, timeout=20,
                            stdout=subprocess.DEVNULL)
    assert result.returncode == 0
    assert server.nobody_came()


def test_is_traced_as_any_other(dyntrace, launch, agent):
    """The agent that ld.so has loaded and the injected one don't interfere."""
    spin = launch("spin", preload=agent, sock="nothing").wait_ready()
    tracing = dyntrace.start_trace(spin.pid, "--function", "foo")
    spin.go().wait_ready()
    trace = tracing.stop()
    tracing.before.assert_unchanged()
    assert trace.names() == {"foo_entry": 1000}
    spin.finish()


def test_command_with_the_agent_is_traced_from_the_start(dyntrace, program_path):
    _, trace = dyntrace.trace("--function", "foo", "--", program_path("linked"), "--calls", 321)
    assert trace.names() == {"foo_entry": 321}
