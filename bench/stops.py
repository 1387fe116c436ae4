"""
How long a server stands still when all of its functions get a probe, with exits.

Each server is started here, idle, with files in the benchmark's scratch folder. The figure is the longest stop that dyntrace
reports: the minimum of some tries, as the machine has other work too.
"""

import glob
import os
import pwd
import shutil
import subprocess
import time

from attach import Redis
from case import missing_program
from placing import TRIES, QUICK_TRIES, place
from workload import wait_until

WORDS = ["--function", "*", "-e"]


class Server:
    """A process that waits for its standard input. It is killed in the end: mariadbd blocks SIGTERM then."""

    def __init__(self, words, **more):
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)
        self.pid = self.process.pid

    def end(self):
        self.process.kill()
        self.process.communicate()


def start_redis(bench):
    return Redis(bench.scratch)


def postgres_program(name):
    """The newest that is installed; Debian doesn't put it into PATH."""
    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"))
    return found[-1] if found else shutil.which(name) or name


def start_postgres(bench):
    """It refuses to run as root."""
    home = os.path.join(bench.scratch, "postgres-data")
    data = os.path.join(home, "data")
    os.mkdir(home)
    user = {}
    if os.geteuid() == 0:
        entry = pwd.getpwnam("postgres")
        os.chmod(bench.scratch, 0o755)
        os.chown(home, entry.pw_uid, entry.pw_gid)
        user = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    subprocess.run([postgres_program("initdb"), "-D", data, "-A", "trust"], check=True, cwd=home, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, **user)
    server = Server([postgres_program("postgres"), "-D", data, "-c", "listen_addresses=", "-k", home], cwd=home, **user)
    wait_until(lambda: glob.glob(f"{home}/.s.PGSQL.*[0-9]"), "starting postgres", server.process)
    return server


def start_mariadb(bench):
    """Without system tables, which it needs no server for: it reads statements from its standard input."""
    data = os.path.join(bench.scratch, "mariadb-data")
    os.mkdir(data)
    server = Server([mariadb_program(), "--no-defaults", "--bootstrap", f"--datadir={data}", f"--tmpdir={data}",
                     *(["--user=root"] if os.geteuid() == 0 else [])])
    wait_until(lambda: os.path.exists(f"{data}/ibtmp1"), "starting mariadbd", server.process)
    return server


def mariadb_program():
    return shutil.which("mariadbd") or "/usr/sbin/mariadbd"


def start_node(bench):
    """Its program tells when it runs."""
    path = os.path.join(bench.scratch, "node-runs")
    server = Server(["node", "-e", f"require('fs').writeFileSync({path!r}, ''); setInterval(() => {{}}, 1000)"])
    wait_until(lambda: os.path.exists(path), "starting node", server.process)
    return server


# title, how it is started, its program, goal in ms
SERVERS = [
    ("redis-server", start_redis, lambda: "redis-server", 5),
    ("postgres", start_postgres, lambda: postgres_program("postgres"), 15),
    ("mariadbd", start_mariadb, mariadb_program, 30),
    ("node", start_node, lambda: "node", 60),
]


def measure(bench, server, tries):
    runs = []
    for number in range(tries):
        runs.append(place(bench, server.pid, WORDS, f"stop-{server.pid}-{number}"))
        shutil.rmtree(os.path.join(bench.scratch, f"placing-stop-{server.pid}-{number}"), ignore_errors=True)
        time.sleep(0.1)
    return runs[0][0], [run[1] for run in runs]


def run(bench, args):
    print(f"{'all functions, with exits':34} {'probes':>7} {'stopped ms':>10} {'median':>8}  goal")
    figures = []
    for title, start, program, goal in SERVERS:
        reason = missing_program(program())
        if reason:
            print(f"left out: {title}: {reason}")
            continue
        server = start(bench)
        try:
            count, stopped = measure(bench, server, QUICK_TRIES if args.quick else TRIES)
        finally:
            server.end()
        met = min(stopped) <= goal
        figures.append({"case": title, "probes": count, "stopped_ms": stopped, "goal_ms": goal, "met": met})
        print(f"{title:34} {count:7,} {min(stopped):10.2f} {sorted(stopped)[len(stopped) // 2]:8.2f}  "
              f"{goal} ms: {'met' if met else 'NOT met'}", flush=True)
    return {"stops": figures}, all(figure["met"] for figure in figures)
