"""dyntrace trace -p of several processes, in one trace: by name, by several -p, and by --children."""
import collections
import json
import os
import re
import shutil
import signal
import socket
import subprocess

import pytest

from harness import Program, Snapshot, Trace, hits, summary_rows, text, until


class Several:
    """A running dyntrace trace of several processes."""

    def __init__(self, dyntrace, pids, *words, has_trace=True):
        self.output, self.before = dyntrace.new_output() if has_trace else None, {pid: Snapshot(pid) for pid in pids}
        output = ["-o", self.output] if has_trace else []
        self.process = dyntrace.processes.start([dyntrace.path, "trace", "--wide", *output, *words], stdin=subprocess.DEVNULL,
                                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=dyntrace.scratch)
        until(self.is_placed, "probes in all processes")

    def is_placed(self):
        assert self.process.poll() is None, self.process.communicate()[1]
        return all(text(pid) != before.text for pid, before in self.before.items())

    def stop(self, number=signal.SIGINT):
        if number:
            self.process.send_signal(number)
        self.stdout, self.stderr = self.process.communicate(timeout=30)
        assert self.process.returncode == 0, self.stderr
        return Trace(self.output) if self.output else None


def per_pid(trace, name):
    return dict(collections.Counter(event.pid for event in trace.named(name)))


@pytest.fixture
def spins(processes, program_path, scratch):
    """Three processes of a program whose name nobody else has, which have begun; one more has another name."""
    made, names = [], [f"spin-{os.getpid() % 10000}"] * 3 + [f"twin-{os.getpid() % 10000}"]
    for number, name in enumerate(names):
        path = os.path.join(scratch, name)
        if not os.path.exists(path):
            shutil.copy(program_path("spin"), path)
        made.append(Program(processes, path, ["--threads", 1, "--calls", 100 * (number + 1), "--rounds", 2]))
    yield [one.wait_ready() for one in made]
    for one in made:
        one.close()


@pytest.mark.parametrize("words", [["--function", "foo"], ["--function", "foo", "-e"], ["--function", "foo", "--mode", "overwrite"]])
def test_all_processes_of_a_name(dyntrace, spins, words):
    """Hits of all of them are in one trace, in one row of the table, and every process is left as it was."""
    pids = [spin.pid for spin in spins[:3]]
    name = os.path.basename(os.readlink(f"/proc/{pids[0]}/exe"))
    tracing = Several(dyntrace, pids, "-p", name, *words)
    for spin in spins:
        spin.go().wait_ready()
    trace = tracing.stop()
    assert per_pid(trace, "foo_entry") == {pid: 100 * (i + 1) for i, pid in enumerate(pids)} and trace.lost == 0
    assert per_pid(trace, "foo_exit") == (per_pid(trace, "foo_entry") if "-e" in words else {})
    row = summary_rows(tracing.stderr)["foo"]
    assert (row["hits"], row["lost"]) == ("600", "0") and f"({min(pids)}) and 2 more processes" in tracing.stderr
    for before in tracing.before.values():
        before.assert_unchanged()
    for spin in spins:
        spin.finish()


def test_several_targets(dyntrace, spins):
    """-p again and again: pids and names; each process once. Programs of other names have rows of their own."""
    first, other = spins[0], spins[3]
    name = os.path.basename(os.readlink(f"/proc/{other.pid}/exe"))
    tracing = Several(dyntrace, [first.pid, other.pid], "-p", first.pid, "-p", name, "-p", other.pid, "--function", "foo")
    for spin in spins:
        spin.go().wait_ready()
    assert per_pid(tracing.stop(), "foo_entry") == {first.pid: 100, other.pid: 400}
    assert hits(tracing.stderr) == {"foo": 100, f"foo@{name}": 400}


CHURN = """
import os, time
while True:
    for _ in range(16):
        if not os.fork():
            time.sleep(0.002)
            os._exit(0)
    try:
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        pass
"""


def test_children_that_end_meanwhile(dyntrace, processes):
    """A server whose children live for milliseconds: one that ends while dyntrace begins doesn't keep the others from being traced."""
    churn = processes.start(["/usr/bin/python3", "-c", CHURN])
    for _ in range(12):
        output = dyntrace.new_output()
        dyntrace("trace", "-q", "-p", churn.pid, "--children", "--function", "fork@libc.so.6", "--for", "0.1", "-o", output)
        assert any(event.pid == churn.pid for event in Trace(output).named("fork_entry"))


@pytest.mark.parametrize("exits", [[], ["-e"]], ids=["entries", "exits"])
def test_counts_of_all(dyntrace, spins, exits):
    """Each process counts in memory of its own: one row has the sum."""
    pids = [spin.pid for spin in spins]
    first, other = (os.path.basename(os.readlink(f"/proc/{pid}/exe")) for pid in (pids[0], pids[3]))
    tracing = Several(dyntrace, pids, "-p", first, "-p", other, "--tracer", "count", "--function", "foo", *exits, has_trace=False)
    for spin in spins:
        spin.go().wait_ready()
    spins[1].finish()  # 200 calls more; its counts stay
    tracing.stop()
    assert hits(tracing.stderr) == {"foo": 800, f"foo@{other}": 400}
    for pid in set(pids) - {pids[1]}:
        tracing.before[pid].assert_unchanged()


@pytest.mark.parametrize("exits", [[], ["-e"]], ids=["entries", "exits"])
def test_keys_of_all(dyntrace, spins, exits):
    """Each process has a table of keys of its own: rows with the same keys become one, also those of a process that has ended."""
    pids = [spin.pid for spin in spins]
    first, other = (os.path.basename(os.readlink(f"/proc/{pid}/exe")) for pid in (pids[0], pids[3]))
    tracing = Several(dyntrace, pids, "-p", first, "-p", other, "--tracer", "count", "--by", "$pid", "--json", "--function", "foo", *exits,
                      has_trace=False)
    for spin in spins:
        spin.go().wait_ready()
    spins[1].finish()  # 200 calls more
    tracing.stop()
    rows = {row["key"]["$pid"]: row["hits"] for row in json.loads(tracing.stdout)}
    assert sum(rows.values()) == 1200 and rows[pids[1]] == 400 and set(rows) == set(pids)


def test_backtraces_of_all(dyntrace, spins):
    """Names by the addresses of each process, which differ."""
    pids = [spin.pid for spin in spins]
    tracing = Several(dyntrace, pids, *[word for pid in pids for word in ("-p", pid)], "-t", "backtrace:3", "--function", "foo")
    for spin in spins:
        spin.go().wait_ready()
    assert per_pid(tracing.stop(), "foo_entry") == {pid: 100 * (i + 1) for i, pid in enumerate(pids)}
    lines = dyntrace("view", tracing.output).stdout.splitlines()
    chains = [re.sub(r"\+0x\w+( \([^)]*\))?", "", re.search(r"backtrace = \[ (.*) \]", line)[1]) for line in lines]
    assert collections.Counter(chains) == {"foo, foo_many, main": 1000}


def test_the_first_may_end(dyntrace, spins):
    """Tracing goes on until the last process ends."""
    oldest = min(spins[:3], key=lambda spin: spin.pid)
    tracing = Several(dyntrace, [spin.pid for spin in spins[:3]], *[word for spin in spins[:3] for word in ("-p", spin.pid)],
                      "--function", "foo")
    oldest.process.kill()
    oldest.process.wait()
    others = [spin for spin in spins[:3] if spin is not oldest]
    for spin in others:
        spin.go().wait_ready()
        spin.finish()
    trace = tracing.stop(number=0)
    assert per_pid(trace, "foo_entry") == {spin.pid: 200 * (spins.index(spin) + 1) for spin in others}


def test_refusals(dyntrace, spins):
    pids = [spin.pid for spin in spins[:3]]
    name = os.path.basename(os.readlink(f"/proc/{pids[0]}/exe"))
    message = dyntrace.fails("trace", "-p", name, "--tracer", "log", "--function", "foo", status=125)
    assert message.startswith(f"3 processes are called '{name}': 'log' works with one process at a time: use the pid of one: ")
    assert all(f"{pid} (" in message for pid in pids)
    before = [Snapshot(pid) for pid in pids]
    assert "no function 'nosuch'" in dyntrace.fails("trace", "-p", name, "--function", "nosuch", status=125)
    assert dyntrace.fails("trace", "--children", "--function", "f", "--", "ls", status=2) == "trace: --children: needs -p TARGET"
    for snapshot in before:
        snapshot.assert_unchanged()


@pytest.fixture
def nginx(processes, scratch):
    """A real nginx with two workers: (master, workers, a function that makes a request)."""
    address = os.path.join(scratch, "nginx.sock")
    with open(os.path.join(scratch, "nginx.conf"), "w") as file:
        file.write(f"daemon off; master_process on; worker_processes 2; pid {scratch}/nginx.pid; error_log {scratch}/error.log;\n"
                   f"events {{}} http {{ access_log off; server {{ listen unix:{address}; return 200 'hello'; }} }}\n")
    os.chmod(scratch, 0o755)
    master = processes.start(["/usr/sbin/nginx", "-p", scratch, "-c", os.path.join(scratch, "nginx.conf")],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def children():
        with open(f"/proc/{master.pid}/task/{master.pid}/children") as file:
            return [int(word) for word in file.read().split()]

    def ask():
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(address)
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            answer = b""
            while block := client.recv(4096):
                answer += block
        assert b"hello" in answer
    until(lambda: os.path.exists(address) and len(children()) == 2, "nginx and its workers")
    ask()
    yield master, children(), ask
    master.terminate()
    master.wait()


def test_nginx_and_its_workers(dyntrace, nginx):
    """The master runs as root, its workers may not: they were forked from it."""
    master, workers, ask = nginx
    tracing = Several(dyntrace, [master.pid, *workers], "-p", master.pid, "--children", "--function", "ngx_http_process_request*")
    for _ in range(20):
        ask()
    trace = tracing.stop()
    assert len(trace.named("ngx_http_process_request_entry")) == 20 and set(per_pid(trace, "ngx_http_process_request_entry")) <= set(workers)
    assert "and 2 more processes" in tracing.stderr
    for before in tracing.before.values():
        before.assert_unchanged(busy=True)
    ask()
