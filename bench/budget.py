"""
What a budget leaves of servers: all functions with exits, under load, with --overhead 5% and without, in turn.

A server's figure is its CPU time per request, which other work on the machine changes less than requests per second. A second server has the
same load beside it, and isn't traced: what others do to the caches of one, they do to those of the other. All of them take
precedence over other work: a server that gets no processor counts as idle, and is recorded whole. "Left" is the time of the second
one as a share of the traced one's, with the difference that they have without tracing taken out. "Estimated" is what dyntrace's summary says of
the same run, beside the time that was measured. uftrace and bpftrace record the same functions of redis, where they run: they have no budget.
"""

import contextlib
import json
import multiprocessing
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

from attach import Redis, take_precedence
from case import missing_program, needs_root
from stops import Server, postgres_program, start_postgres
from workload import interrupt, wait_until

GOAL = 93  # percent
BUDGET = "5%"
ROUNDS, QUICK_ROUNDS = 4, 2
TICK = os.sysconf("SC_CLK_TCK")
SLICE = 0.2  # seconds
SECONDS = 4  # of a measurement
PEER_SECONDS = 60


def cpu_seconds(pid):
    """Of a process, with those children that have ended."""
    with open(f"/proc/{pid}/stat") as file:
        return sum(map(int, file.read().rpartition(")")[2].split()[11:15])) / TICK


# ---- servers and their loads --------------------------------------------------------------------
#
# now() is the CPU time so far and the requests so far, under a load that doesn't end. Two servers of a kind have the same load at the
# same time: one is traced, and the other one tells what the machine does to both.

class RedisLoad:
    """SET and GET from 20 clients."""

    def __init__(self, bench, pipeline, name="redis", requests=10 ** 9):
        folder = bench.path(name)
        os.makedirs(folder, exist_ok=True)
        self.server, self.pipeline, self.requests, self.flood = Redis(folder), pipeline, requests, None
        os.sched_setaffinity(self.server.pid, range(os.cpu_count()))
        self.pid = self.server.pid

    def command(self):
        return ["redis-benchmark", "-s", self.server.socket, "-q", "-n", str(self.requests), "-c", "20", "-P", str(self.pipeline),
                "-t", "set,get"]

    def begin(self):
        self.flood = subprocess.Popen(self.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        take_precedence(self.flood.pid)

    def stop(self):
        if self.flood:
            self.flood.kill()
            self.flood.wait()
        self.flood = None

    def now(self):
        text = subprocess.run(["redis-cli", "-s", self.server.socket, "info", "stats"], capture_output=True, text=True, check=True).stdout
        return cpu_seconds(self.pid), int(text.partition("total_commands_processed:")[2].split()[0])

    def time(self):
        """Of `requests` requests."""
        before = cpu_seconds(self.pid)
        subprocess.run(self.command(), check=True, stdout=subprocess.DEVNULL)
        return cpu_seconds(self.pid) - before, 2 * self.requests

    def end(self):
        self.stop()
        self.server.end()
        if os.path.exists(self.server.socket):
            os.unlink(self.server.socket)


class NginxLoad:
    """A file of 600 bytes, over a connection that stays, 32 requests in each write."""

    CONFIG = """daemon off; master_process off; pid {0}/pid; error_log {0}/log; events {{ worker_connections 64; }}
http {{ access_log off; keepalive_requests 100000000; client_body_temp_path {0}/a; proxy_temp_path {0}/b; fastcgi_temp_path {0}/c;
uwsgi_temp_path {0}/d; scgi_temp_path {0}/e; server {{ listen unix:{0}/socket; root {0}/www; }} }}"""

    def __init__(self, bench, name="nginx"):
        self.folder = bench.path(name)
        os.makedirs(os.path.join(self.folder, "www"))
        with open(os.path.join(self.folder, "www", "index.html"), "w") as file:
            file.write("x" * 600)
        with open(os.path.join(self.folder, "conf"), "w") as file:
            file.write(self.CONFIG.format(self.folder))
        self.server = Server(["nginx", "-p", self.folder, "-c", os.path.join(self.folder, "conf")])
        self.pid, self.done, self.client = self.server.pid, multiprocessing.Value("Q", 0), None
        take_precedence(self.pid)
        wait_until(lambda: os.path.exists(os.path.join(self.folder, "socket")), "starting nginx", self.server.process)

    def begin(self):
        self.client = multiprocessing.Process(target=self.flood, daemon=True)
        self.client.start()
        take_precedence(self.client.pid)

    def flood(self):
        """It never sleeps: to wake a processor takes a server in a virtual machine some microseconds, and how often it has to depends on
        how the two fall into step. dyntrace without a single hit changed nginx's CPU time per request by 12% so."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(os.path.join(self.folder, "socket"))
        batch = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 32
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        size = len(connection.recv(65536))  # of one answer, which comes whole
        connection.setblocking(False)
        while True:
            connection.sendall(batch)
            left = 32 * size
            while left:
                with contextlib.suppress(BlockingIOError):
                    left -= len(connection.recv(left))
            self.done.value += 32

    def now(self):
        return cpu_seconds(self.pid), self.done.value

    def end(self):
        if self.client:
            self.client.kill()
            self.client.join()
        self.server.end()


class PostgresLoad:
    """pgbench -S: a client whose connection stays. Its process of the server is traced: one that is there already isn't followed.
    The second client's connection is to the server of the first."""

    def __init__(self, bench, first=None):
        self.is_first, self.server = not first, first.server if first else start_postgres(bench)
        self.marks, self.pid, self.clients = [], 0, None
        self.taken = first.taken if first else set()  # processes of the server that have an owner
        home = os.path.join(bench.scratch, "postgres-data")
        self.words = [postgres_program("pgbench"), "-h", home, *(["-U", "postgres"] if os.geteuid() == 0 else [])]
        try:
            if not first:
                take_precedence(self.server.pid)  # and its processes of connections
                wait_until(lambda: not subprocess.run([*self.words, "-i", "-q", "postgres"], capture_output=True).returncode,
                           "starting postgres", self.server.process)
                wait_until(lambda: not self.backends(), "ending pgbench -i", self.server.process)
        except BaseException:
            self.end()
            raise

    def begin(self):
        self.clients = subprocess.Popen([*self.words, "-S", "-n", "-c", "1", "-T", "36000", "-P", "1", "postgres"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        take_precedence(self.clients.pid)
        threading.Thread(target=self.read, daemon=True).start()
        wait_until(lambda: self.marks, "starting pgbench", self.clients)

    def backends(self):
        found = []
        with open(f"/proc/{self.server.pid}/task/{self.server.pid}/children") as file:
            for pid in file.read().split():
                try:
                    with open(f"/proc/{pid}/cmdline") as words:
                        if "[local]" in words.read() and int(pid) not in self.taken:
                            found.append(int(pid))
                except (FileNotFoundError, ProcessLookupError):
                    pass  # it has ended meanwhile
        return found

    def read(self):
        """Notes requests and CPU time so far at each "progress: 1.0 s, 4711.0 tps, ..."."""
        before = done = 0.0
        for line in self.clients.stderr:
            found = re.match(r"progress: ([\d.]+) s, ([\d.]+) tps", line)
            if found:
                now = float(found[1])
                done += (now - before) * float(found[2])
                before = now
                if not self.marks:
                    (self.pid,) = self.backends()  # pgbench's first connection has ended by now
                    self.taken.add(self.pid)
                self.marks.append((cpu_seconds(self.pid), done))

    def now(self):
        first = len(self.marks)
        wait_until(lambda: len(self.marks) > first, "pgbench", self.clients)
        return self.marks[first]

    def end(self):
        if self.clients:
            self.clients.kill()
            self.clients.wait()
        if self.is_first:
            self.server.end()


def twin_postgres(bench):
    first = PostgresLoad(bench)
    return first, PostgresLoad(bench, first)


LOADS = [
    ("redis, no pipeline", lambda bench: (RedisLoad(bench, 1), RedisLoad(bench, 1, "redis-2")), "redis-server"),
    ("redis, -P 16", lambda bench: (RedisLoad(bench, 16), RedisLoad(bench, 16, "redis-2")), "redis-server"),
    ("nginx", lambda bench: (NginxLoad(bench), NginxLoad(bench, "nginx-2")), "nginx"),
    ("postgres, pgbench -S", twin_postgres, postgres_program("postgres")),
]


# ---- a server with and without a budget ----------------------------------------------------------

class Tracing:
    """dyntrace with all functions of the program, and a budget."""

    def __init__(self, bench, pid, budget=BUDGET):
        self.directory = bench.path(f"budget-{pid}")
        program = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
        self.process = subprocess.Popen(
            [os.path.join(bench.build, "dyntrace"), "trace", "-p", str(pid), "-e", "--json", "--all-rows", "--function", f"*@{program}",
             *(["--overhead", budget] if budget else []), "-o", self.directory],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.said = []
        take_precedence(self.process.pid)
        wait_until(self.is_placed, "dyntrace", self.process)

    def is_placed(self):
        """Waits for its line."""
        self.said.append(self.process.stderr.readline())
        return "tracepoints placed" in self.said[-1]

    def end(self):
        text = interrupt(self.process)[1]
        shutil.rmtree(self.directory, ignore_errors=True)
        return json.loads(text[text.index("{"):])


def together(loads, seconds):
    """CPU seconds and requests of each of the loads, in the same time."""
    before = [load.now() for load in loads]
    time.sleep(seconds)
    return [tuple(a - b for a, b in zip(load.now(), first)) for load, first in zip(loads, before)]


def each(spans):
    return [seconds / requests for seconds, requests in spans]


def measure(bench, loads, rounds):
    """Lists of (seconds per request, the same of the server beside it that isn't traced): without tracing; with a budget, once its levels
    are found. Then what the whole run with it took more per request, and what dyntrace says that it took."""
    plain, traced, more, estimated = [], [], [], []
    for load in loads:
        load.begin()
    time.sleep(1)
    for _ in range(rounds):
        plain.append(each(together(loads, SECONDS)))
        tracing = Tracing(bench, loads[0].pid)
        try:
            first = together(loads, SECONDS)
            second = together(loads, SECONDS)
        finally:
            summary = tracing.end()
        if not any(one["hits"] for one in summary["functions"]):
            raise RuntimeError("dyntrace saw no hit of the server")
        traced.append(each(second))
        whole = each((a + c, b + d) for (a, b), (c, d) in zip(first, second))
        more.append(whole[0] - whole[1] * plain[-1][0] / plain[-1][1])
        estimated.append(summary["overhead_ns"] / 1e9 / (first[0][1] + second[0][1]))
    return plain, traced, more, estimated


def median(values):
    if not values:
        raise RuntimeError("the servers had no processor: nothing could be measured")
    return sorted(values)[len(values) // 2]


def run_load(bench, args, title, start):
    loads = start(bench)
    try:
        plain, traced, more, estimated = measure(bench, loads, QUICK_ROUNDS if args.quick else ROUNDS)
    finally:
        for load in reversed(loads):
            load.end()
    left = 100 * median([a[0] / a[1] * b[1] / b[0] for a, b in zip(plain, traced)])
    met = left >= GOAL
    print(f"{title:34} {median([one[1] for one in traced]) * 1e6:9.2f} {median([one[0] for one in traced]) * 1e6:9.2f} {left:7.1f}% "
          f"{median(more) * 1e6:9.2f} {median(estimated) * 1e6:9.2f}  {GOAL}%: {'met' if met else 'NOT met'}", flush=True)
    return {"case": title, "plain_s": plain, "traced_s": traced, "more_s": more, "estimated_s": estimated, "left": left, "met": met}


# ---- a burst ---------------------------------------------------------------------------------------

def slices(loads, seconds):
    """(seconds, ratio of the CPU time per command of two servers) of each slice, under loads that begin now."""
    found, begin = [], time.monotonic()
    for load in loads:
        load.begin()
    try:
        while (passed := time.monotonic() - begin) < seconds:
            spans = together(loads, SLICE)
            if all(requests > 100 and cpu for cpu, requests in spans):
                a, b = each(spans)
                found.append((passed, a / b))
    finally:
        for load in loads:
            load.stop()
    return found


def run_burst(bench, args):
    """A flood after an idle time, in which everything is recorded: how long does it cost more than the budget? A second server beside it
    has the same flood."""
    loads = RedisLoad(bench, 1), RedisLoad(bench, 1, "redis-2")
    first, later = [], []
    try:
        plain = median([ratio for _, ratio in slices(loads, 5)])
        for _ in range(QUICK_ROUNDS if args.quick else ROUNDS):
            tracing = Tracing(bench, loads[0].pid)
            try:
                time.sleep(3)
                found = slices(loads, 8)
            finally:
                tracing.end()
            first.append(found[0][1] / plain)
            # single slices have errors of 10% and more: ticks, other work
            later.append(median([ratio for passed, ratio in found if passed >= 1]) / plain)
    finally:
        for load in loads:
            load.end()
    met = median(later) <= 1.05
    print(f"{'redis: idle, then a flood':34} {median(first):9.2f} times the other's CPU time in the first {SLICE} s, "
          f"{median(later):.2f} after 1 s  5% more after 1 s: {'met' if met else 'NOT met'}", flush=True)
    return {"plain": plain, "first": first, "later": later, "met": met}


# ---- other tracers ---------------------------------------------------------------------------------

class UftraceRedis(RedisLoad):
    """All functions recorded, from the launch on."""

    def __init__(self, bench):
        path = os.path.join(bench.scratch, "uftrace-socket")
        self.process = subprocess.Popen(
            ["uftrace", "record", "--no-libcall", "--no-event", "--patch=.", f"--data={bench.path('uftrace-redis')}", "redis-server",
             "--port", "0", "--unixsocket", path, "--save", "", "--dir", bench.scratch], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.server, self.flood = self, None
        self.socket, self.pipeline, self.requests = path, 1, 20_000
        wait_until(lambda: os.path.exists(path), "starting redis-server under uftrace", self.process)
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as file:
            self.pid = int(file.read().split()[0])

    def end(self):
        os.kill(self.pid, signal.SIGTERM)
        self.process.communicate(timeout=PEER_SECONDS)


def bpftrace_time(bench, plain):
    """Counts the functions of redis by uprobes."""
    load = RedisLoad(bench, 1, requests=5_000)
    program = os.path.realpath(f"/proc/{load.pid}/exe")
    tracer = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", 'mount -t tracefs tracefs /sys/kernel/tracing; exec bpftrace -p "$0" -e "$1"', str(load.pid),
         f"uprobe:{program}:* {{ @hits = count(); }}"], env={**os.environ, "BPFTRACE_MAX_PROBES": "20000"},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        if "Attaching" not in tracer.stdout.readline():
            return None
        time.sleep(5)
        seconds, requests = load.time()
        return seconds / requests
    finally:
        tracer.kill()
        tracer.communicate()
        load.end()


def run_peers(bench, plain):
    """What they leave, without a budget: CPU time per request of redis, no pipeline."""
    def print_peer(title, seconds):
        if seconds:
            print(f"{title:34} {plain * 1e6:9.2f} {seconds * 1e6:9.2f} {100 * plain / seconds:7.1f}%", flush=True)
        else:
            print(f"left out: {title}: it doesn't start here")

    if not missing_program("uftrace"):
        load = UftraceRedis(bench)
        try:
            seconds, requests = load.time()
        finally:
            load.end()
        print_peer("uftrace: all functions", seconds / requests)
    if not needs_root() and not missing_program("bpftrace", "unshare"):
        print_peer("bpftrace: all functions counted", bpftrace_time(bench, plain))


def run(bench, args):
    title = f"--overhead {BUDGET}, all functions, exits"
    print(f"{title:34} {'us beside':>9} {'traced':>9} {'left':>8} {'more':>9} {'estimate':>9}  goal")
    figures = []
    for title, start, program in LOADS:
        reason = missing_program(program)
        if reason:
            print(f"left out: {title}: {reason}")
        else:
            figures.append(run_load(bench, args, title, start))
    burst = run_burst(bench, args)
    if figures:
        run_peers(bench, median([one[0] for one in figures[0]["plain_s"]]))
    return {"budget": figures, "burst": burst}, burst["met"] and all(figure["met"] for figure in figures)
