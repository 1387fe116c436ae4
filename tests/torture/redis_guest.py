"""The script of the machine that test_hardening.py boots: Debian's redis-server.service under load, attached to and left ten times."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import traceback

sys.path.insert(0, "/source/tests/e2e")
from harness import Dyntrace, Processes, Snapshot, be_patient, status, until  # noqa: E402

VISITS = 10
KILLED = 3, 7  # these visits end by kill -9; the next one takes over, or `detach` removes the probes


def run(*words):
    result = subprocess.run(list(map(str, words)), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)
    return result.stdout if result.returncode == 0 else f"exit status {result.returncode}: {result.stdout}{result.stderr}"


def visit(tracer, pid, number):
    """All functions with exits, while the benchmark goes on; [exit status, events, lost]."""
    tracing = tracer.start_trace(pid, "--function", "*", "-e", "--mode", "overwrite", "--buffer-size", "16M")
    until(lambda: run("redis-cli", "ping") == "PONG\n", "an answer")
    tracing.process.send_signal(signal.SIGKILL if number in KILLED else signal.SIGINT)
    said = tracing.process.communicate(timeout=120)[1]
    if number in KILLED:
        return [tracing.process.returncode, run(tracer.path, "detach", pid)]
    found = re.search(r"(\d+) events, (\d+) lost", said)
    return [tracing.process.returncode, found is not None and int(found[1]) > 1000, "stays" in said]


def main():
    be_patient()
    facts, processes = {}, Processes()
    try:
        own = shutil.copy(os.path.realpath("/usr/bin/redis-server"), "/var/redis-server")  # uprobes of the machine around stay in its own file
        assert run("mount", "--bind", own, os.path.realpath("/usr/bin/redis-server")) == ""
        facts["started"] = run("systemctl", "start", "redis-server.service")
        until(lambda: run("redis-cli", "ping") == "PONG\n", "redis")
        pid = int(run("systemctl", "show", "--value", "-pMainPID", "redis-server.service"))
        facts["filters"] = [status(pid, "Seccomp"), int(status(pid, "Seccomp_filters")) > 5]
        tracer = Dyntrace("/usr/local/bin/", processes, "/tmp")
        load = processes.start(["redis-benchmark", "-q", "-l", "-c", "5", "-t", "set,get,lpush,zadd"], stdout=subprocess.DEVNULL)
        before = Snapshot(pid)
        facts["visits"] = []
        for number in range(VISITS):
            facts["visits"].append(visit(tracer, pid, number))
            before.assert_unchanged(busy=True)
        facts["alive"] = [load.poll(), run("redis-cli", "ping"), run("systemctl", "show", "--value", "-pNRestarts", "redis-server.service"),
                          int(run("systemctl", "show", "--value", "-pMainPID", "redis-server.service")) == pid]
    except Exception:  # the test shows any error
        facts["failed"] = f"{traceback.format_exc()}\n{facts}"
    processes.close()
    with open("/result/facts", "w") as file:
        json.dump(facts, file)


main()
