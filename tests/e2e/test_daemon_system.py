"""The daemon as part of a system: systemd, installed files, completions, limits, and no wake-ups without work."""
import os
import pty
import re
import select
import shlex
import socket
import struct
import subprocess
import time

import pytest
from daemon_harness import CALLS, KINDS, connect, message
from harness import PATIENCE, until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


# ---- systemd ----------------------------------------------------------------------------------------

def test_it_tells_systemd_when_it_is_ready_and_when_it_stops(build, scratch, processes):
    path = os.path.join(scratch, "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(20 * PATIENCE)
        one = processes.start([os.path.join(build, "dyntraced"), "--socket", scratch + "/s", "--output", scratch + "/traces"],
                              env={**os.environ, "NOTIFY_SOCKET": path}, stderr=subprocess.DEVNULL)
        assert manager.recv(100) == b"READY=1"
        connect(scratch + "/s").close()
        one.terminate()
        assert manager.recv(100) == b"STOPPING=1"
        assert one.wait() == 0


def test_it_takes_the_socket_that_systemd_made(build, scratch, processes):
    path = os.path.join(scratch, "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        client = connect(path)  # before the daemon runs: the purpose of such sockets
        client.sendall(message("WIRE_STATUS"))
        inode = os.stat(path).st_ino
        script = f'export LISTEN_PID=$$ LISTEN_FDS=1; exec {build}/dyntraced --socket {path} --output {scratch}/traces 3<&{listener.fileno()}'
        one = processes.start(["bash", "-c", script], pass_fds=[listener.fileno()], stderr=subprocess.DEVNULL)
        assert struct.unpack("<H", client.recv(65536)[6:8])[0] == KINDS["WIRE_ITEM"]
        one.terminate()
        assert one.wait() == 0
        assert os.stat(path).st_ino == inode  # systemd removes it


def test_installed_files(build, scratch):
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet"], check=True, capture_output=True,
                   env={**os.environ, "DESTDIR": scratch})
    found = {os.path.relpath(os.path.join(folder, name), scratch)
             for folder, _, names in os.walk(scratch) for name in names}

    def has(pattern):
        return [path for path in found if re.fullmatch(pattern, path)]
    for pattern in (r".*/bin/dyntraced", r".*/bin/dyntrace", r".*/man8/dyntraced\.8", r".*/man1/dyntrace-add\.1",
                    r".*/man1/dyntrace-watch\.1", r".*/lib/systemd/system/dyntraced\.service",
                    r".*/lib/systemd/system/dyntraced\.socket",
                    r".*/lib/systemd/system/dyntraced-asker@\.service", r".*/lib/systemd/system/dyntraced-asker\.socket", r".*/bash-completion/completions/dyntrace",
                    r".*/zsh/site-functions/_dyntrace", r".*/dyntrace/libdyntrace-agent\.so"):
        assert len(has(pattern)) == 1, pattern
    with open(os.path.join(scratch, has(r".*/dyntraced\.service")[0])) as file:
        unit = file.read()
    program = re.search(r"^ExecStart=(\S+)$", unit, re.M)[1]
    assert os.path.exists(scratch + program) and "Type=notify" in unit and "KillMode=process" in unit


def test_the_daemons_man_page_is_good_roff(build):
    path = os.path.join(build, "docs", "man", "dyntraced.8")
    result = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", path], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    with open(path) as file:
        page = file.read().replace("\\-", "-")
    text = subprocess.run([os.path.join(build, "dyntraced"), "--help"], capture_output=True, text=True).stdout
    for option in re.findall(r"--[a-z-]+", text):
        assert option in page, option


# ---- completion ---------------------------------------------------------------------------------------

def complete(dyntrace, *words, **options):
    return dyntrace("help", "--complete", *words, **options).stdout.splitlines()


def test_completion_offers_commands_options_processes_functions_and_tracepoints(dyntrace, daemon, spin, own_name):
    env = {**os.environ, "DYNTRACE_SOCKET": daemon.socket}
    assert complete(dyntrace, "list-t") == ["list-tracepoints"]
    assert complete(dyntrace, "help", "snap") == ["snapshot"]
    assert complete(dyntrace, "add", "--wa") == ["--wait"]
    assert complete(dyntrace, "trace", "--mode", "b") == ["block"]
    one = spin(name=own_name)
    assert complete(dyntrace, "attach", own_name[:-1]) == [own_name]
    longer = longer_pids(one.pid)
    pids = complete(dyntrace, "attach", str(one.pid))
    assert str(one.pid) in pids and set(pids) <= {str(one.pid)} | longer | longer_pids(one.pid), pids
    assert complete(dyntrace, "add", own_name) == [own_name + ":"]
    assert complete(dyntrace, "add", f"{one.pid}:foo_m") == [f"{one.pid}:foo_many"]
    daemon.add(f"{one.pid}:foo", "-n", "mine")
    assert complete(dyntrace, "rm", f"{one.pid}:m", env=env) == [f"{one.pid}:mine"]
    assert complete(dyntrace, "no-such-command", "") == []
    assert complete(dyntrace, "trace", "-p", own_name[:-1]) == [own_name]
    assert complete(dyntrace, "trace", "--tracer", "co") == ["count"]
    for option in ("--function", "--probe"):
        for process in (["-p", one.pid], ["--pid", one.pid], [f"--pid={one.pid}"], [f"-p{one.pid}"]):
            assert complete(dyntrace, "trace", *process, option, "foo_m") == ["foo_many"]
        assert complete(dyntrace, "trace", option, "foo_m") == []  # of no process


def test_completion_in_bash(build, spin):
    one = spin()
    script = f"""
        PATH={shlex.quote(build)}:$PATH
        source {shlex.quote(ROOT)}/share/dyntrace.bash
        try() {{ COMP_LINE=$1 COMP_POINT=${{#1}} COMP_WORDBREAKS=$' \\t\\n:'; _dyntrace 2>/dev/null; echo "${{COMPREPLY[*]}}"; }}
        try 'dyntrace list-pr'
        try 'dyntrace add {one.pid}:foo_m'
        try 'dyntrace view --js'
    """
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=20)
    assert result.stdout.splitlines() == ["list-processes", "foo_many", "--json"], result.stderr


class Shell:
    """An interactive shell with the completion: text and a TAB give the completed line."""

    def __init__(self, command, build, scratch, processes, **env):
        self.lines = os.path.join(scratch, f"lines-{command[0]}")
        self.terminal, end = pty.openpty()
        self.process = processes.start(command, stdin=end, stdout=end, stderr=end, env={
            **os.environ, "TERM": "dumb", "PATH": build + ":" + os.environ["PATH"], **env})
        os.close(end)

    def type(self, text):
        os.write(self.terminal, text.encode())

    def seen(self):
        while select.select([self.terminal], [], [], 0)[0]:  # nothing else reads its output
            os.read(self.terminal, 65536)
        if not os.path.exists(self.lines):
            return []
        with open(self.lines) as file:
            return file.read().splitlines()

    def complete(self, line):
        before = len(self.seen())
        self.type(line + "\t\x18")
        return until(lambda: self.seen()[before:], f"the completion of {line}")[0]

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.terminal)


class Zsh(Shell):
    def __init__(self, build, scratch, processes, daemon_socket):
        super().__init__(["zsh", "-f", "-i"], build, scratch, processes, DYNTRACE_SOCKET=daemon_socket)
        self.type(f"""fpath=({shlex.quote(ROOT)}/share $fpath); autoload -Uz compinit; compinit -u -D
            keep() {{ print -r -- "$BUFFER|" >> {self.lines}; BUFFER= }}; zle -N keep; bindkey '^X' keep\n""")


class Bash(Shell):
    def __init__(self, build, scratch, processes):
        super().__init__(["bash", "--norc", "--noprofile", "-i"], build, scratch, processes, INPUTRC="/dev/null")
        self.type(f"""source {shlex.quote(ROOT)}/share/dyntrace.bash; bind 'set bell-style none'
keep() {{ echo "$READLINE_LINE|" >> {self.lines}; READLINE_LINE=; }}; bind -x '"\\C-x": keep'\n""")


@pytest.fixture
def shop(scratch, processes):
    """A program in C++ that sleeps; its name is its own."""
    with open(os.path.join(scratch, "shop.cpp"), "w") as file:
        file.write("""#include <unistd.h>
            namespace shop { __attribute__((noinline)) int sell(int a, char b) { return a + b; } }
            namespace shop { template <typename T> __attribute__((noinline)) int tally(T a) { return a + 1; } }
            namespace shop { namespace { __attribute__((noinline)) int hidden(int a) { return a + 1; } } }
            int main() { write(1, "r", 1); pause(); return shop::sell(1, 'c') + shop::tally(1) + shop::hidden(1); }""")
    subprocess.run(["g++", "-o", scratch + "/shop", scratch + "/shop.cpp"], check=True, capture_output=True)
    process = processes.start([scratch + "/shop"], stdout=subprocess.PIPE)
    assert process.stdout.read(1) == b"r"
    return process


def test_names_of_cpp_in_either_form(dyntrace, shop):
    assert complete(dyntrace, "add", f"{shop.pid}:shop::s") == [f"{shop.pid}:shop::sell"]
    assert complete(dyntrace, "add", f"{shop.pid}:_ZN4shop4") == [f"{shop.pid}:_ZN4shop4sellEic"]
    assert complete(dyntrace, "add", f"{shop.pid}:shop::(") == [f"{shop.pid}:shop::(anonymous namespace)::hidden"]
    for form in ("shop::sell", "shop::s*", "*::sell*", "_ZN4shop4*"):
        assert dyntrace("list-symbols", shop.pid, form).stdout.splitlines()[1].split(None, 3)[3] == "shop::sell(int, char)", form


def test_completion_in_a_terminal_with_bash(build, scratch, processes, spin, shop, own_name):
    """What readline makes of the candidates: it has an opinion of its own about colons."""
    one = spin(name=own_name)
    bash = Bash(build, scratch, processes)
    try:
        assert bash.complete("dyntrace list-pr") == "dyntrace list-processes |"
        assert bash.complete("dyntrace list-") == "dyntrace list-|"  # there are several
        for begin in ("dyntrace trace -p", "dyntrace trace --pid"):
            assert bash.complete(f"{begin} {own_name[:-1]}") == f"{begin} {own_name} |"
            for option in ("--function", "--probe"):
                line = f"{begin} {one.pid} -e {option}"
                assert bash.complete(f"{line} foo_m") == f"{line} foo_many |"
                line = f"{begin} {shop.pid} {option}"
                assert bash.complete(f"{line} shop::s") == f"{line} shop::sell |"
        line = f"dyntrace trace -p {one.pid} --function foo --tracer"
        assert bash.complete(f"{line} co") == f"{line} count |"
        assert bash.complete(f"{line} ca") == f"{line} call:|"
        assert bash.complete(f"dyntrace add {shop.pid}:shop::s") == f"dyntrace add {shop.pid}:shop::sell |"
        assert bash.complete(f"dyntrace add {shop.pid}:shop::t") == f"dyntrace add {shop.pid}:shop::tally\\<int\\> |"  # no redirection
    finally:
        bash.close()


def longer_pids(pid):
    """Pids of other processes that begin with the same digits."""
    return {name for name in os.listdir("/proc") if name.startswith(str(pid)) and name != str(pid)}


def test_completion_in_zsh(build, scratch, processes, daemon, spin, shop, own_name):
    one = spin(name=own_name)
    daemon.add(f"{one.pid}:foo", "-n", "mine")
    zsh = Zsh(build, scratch, processes, daemon.socket)
    try:
        assert zsh.complete("dyntrace list-pr") == "dyntrace list-processes |"
        assert zsh.complete("dyntrace list-") == "dyntrace list-|"  # there are several
        assert zsh.complete("dyntrace view --js") == "dyntrace view --json |"
        assert zsh.complete(f"dyntrace attach {own_name[:-1]}") == f"dyntrace attach {own_name} |"
        longer = longer_pids(one.pid)
        completed = zsh.complete(f"dyntrace attach {one.pid}")
        longer |= longer_pids(one.pid)  # with one of these there are several ways to go on
        assert completed in (f"dyntrace attach {one.pid} |", *([f"dyntrace attach {one.pid}|"] if longer else []))
        assert zsh.complete(f"dyntrace add {own_name[:-1]}") == f"dyntrace add {own_name}:|"
        assert zsh.complete(f"dyntrace add {one.pid}:foo_m") == f"dyntrace add {one.pid}:foo_many |"
        assert zsh.complete(f"dyntrace add {shop.pid}:shop::s") == f"dyntrace add {shop.pid}:shop::sell |"
        assert zsh.complete(f"dyntrace rm {one.pid}:m") == f"dyntrace rm {one.pid}:mine |"
        assert zsh.complete(f"dyntrace view {scratch}/tra") == f"dyntrace view {scratch}/traces/|"
    finally:
        zsh.close()
    daemon("detach", one.pid)
    one.finish()


# ---- limits ----------------------------------------------------------------------------------------------

def test_a_thousand_clients_in_a_burst(daemon):
    clients = [connect(daemon.socket) for _ in range(1000)]
    for one in clients:
        one.sendall(message("WIRE_STATUS"))
    for one in clients:
        kinds, bytes_ = [], b""
        while KINDS["WIRE_REPLY"] not in kinds:
            bytes_ += one.recv(65536)
            while len(bytes_) >= 16 and len(bytes_) >= 16 + struct.unpack("<I", bytes_[12:16])[0]:
                kinds.append(struct.unpack("<H", bytes_[6:8])[0])
                bytes_ = bytes_[16 + struct.unpack("<I", bytes_[12:16])[0]:]
        assert kinds == [KINDS["WIRE_ITEM"], KINDS["WIRE_REPLY"]]
    assert daemon.json("status")["clients"] == 1001
    for one in clients:
        one.close()
    until(lambda: daemon.json("status")["clients"] == 1, "the clients to be gone")


def switches(pid):
    """The number of context switches per thread."""
    total = 0
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/status") as file:
            total += sum(int(line.split()[1]) for line in file if "ctxt_switches" in line)
    return total


def asleep_for(seconds, *pids):
    """Waits until no thread has woken up in that time. Work that is due after the last command comes first."""
    deadline = time.monotonic() + 40 * PATIENCE
    while True:
        before = [switches(pid) for pid in pids]
        time.sleep(seconds)  # the measurement itself
        if before == [switches(pid) for pid in pids]:
            return
        assert time.monotonic() < deadline, f"woken up: {before} to {[switches(pid) for pid in pids]}"


def test_nobody_wakes_while_nothing_happens(daemon, spin):
    one = spin()
    daemon.attach(one.pid)
    worker = daemon.workers(one.pid)[0]
    asleep_for(2, daemon.process.pid, worker)
    daemon.add(f"{one.pid}:foo")
    one.round()
    asleep_for(2, daemon.process.pid)  # the worker looks for events now and then
    daemon("disable", f"{one.pid}:foo")
    asleep_for(2, daemon.process.pid, worker)
    assert daemon.hits(one.pid) == {"foo": CALLS}
