"""The script of the machine that test_systemd.py boots: acts as an administrator and as a user, and writes the results to
/result/facts, as JSON."""
import json
import os
import re
import signal
import subprocess
import sys
import traceback

sys.path.insert(0, "/source/tests/e2e")
from hardening import FEW, TOGETHER, Service, trace_services  # noqa: E402
from harness import Dyntrace, Processes, Program, Snapshot, Trace, be_patient, in_call, status, until  # noqa: E402

USER, UID = "dyntracer", 1500
RUNTIME = f"/run/user/{UID}"
BIN = "/usr/local/bin/"


def run(*words, **options):
    result = subprocess.run(list(map(str, words)), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=50,
                            **options)
    return result.stdout if result.returncode == 0 else f"exit status {result.returncode}: {result.stdout}{result.stderr}"


def dyntrace(*words, prefix=()):
    return run(*prefix, BIN + "dyntrace", *words)


def listed(prefix=()):
    return json.loads(dyntrace("list-processes", "--json", prefix=prefix))


def unit(*words, manager=()):
    """The properties of dyntraced.service that are asked for, as a list."""
    return run(*manager, "systemctl", *(["--user"] if manager else []), "show", "--value", *[f"-p{word}" for word in words],
               "dyntraced.service").splitlines()


def as_user():
    return ["setpriv", "--reuid", str(UID), "--regid", str(UID), "--init-groups", "env", f"XDG_RUNTIME_DIR={RUNTIME}",
            f"HOME=/home/{USER}"]


def count(program, facts, name):
    """Runs another round; gives the hits by the daemon's count."""
    program.go().wait_ready()
    hits = json.loads(dyntrace("list-tracepoints", program.pid, "--json"))
    facts[name] = {one["name"]: one["hits"] for one in hits}


def system_daemon(facts, processes):
    facts["group"] = run("getent", "group", "dyntrace").split(":")[0]
    facts["security"] = run("systemd-analyze", "security", "--no-pager", "dyntraced.service").splitlines()[-1]
    facts["asker's security"] = run("systemd-analyze", "security", "--no-pager", "dyntraced-asker@x.service").splitlines()[-1]
    facts["verify"] = run("systemd-analyze", "verify", "--man=no", "dyntraced.service", "dyntraced.socket", "dyntraced-asker.socket",
                          "dyntraced-asker@x.service")
    facts["socket started"] = run("systemctl", "start", "dyntraced.socket")
    facts["before"] = unit("ActiveState")
    facts["socket"] = run("stat", "-c", "%U:%G %a", "/run/dyntrace/dyntraced.sock").strip()
    facts["status"] = dyntrace("status", "--json")
    facts["after"] = unit("ActiveState", "SubState")
    one = Program(processes, "/build/tests/programs/spin", ["--rounds", 20]).wait_ready()
    facts["pid"] = one.pid
    before = Snapshot(one.pid)
    facts["added"] = dyntrace("add", f"{one.pid}:foo", "-e")
    count(one, facts, "first")
    other = processes.start(["setpriv", "--reuid=1600", "--regid=1600", "--clear-groups", "sleep", "1000"])
    until(lambda: in_call(other.pid, "clock_nanosleep"), "sleep to sleep")
    facts["of another user"] = dyntrace("add", f"{other.pid}:nanosleep", "-e", "ctf", "/home/trace-of-another")
    facts["modes"] = run("stat", "-c", "%U %a", "/home/trace-of-another", "/home/trace-of-another/metadata").split("\n")[:2]
    facts["detached"] = dyntrace("detach", other.pid)
    main = unit("MainPID")
    facts["killed"] = run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "dyntraced.service")
    until(lambda: unit("MainPID") not in (main, ["0"]) and unit("ActiveState") == ["active"], "another daemon")
    facts["found again"] = [each["pid"] for each in listed()]
    count(one, facts, "second")
    trace = listed()[0]["trace"]
    facts["restarts"] = unit("NRestarts")
    facts["stopped"] = run("systemctl", "stop", "dyntraced.socket", "dyntraced.service")
    facts["result"] = unit("Result", "ActiveState")
    before.assert_unchanged()
    facts["trace"] = Trace(trace).names()
    facts["denied"] = run("journalctl", "--no-pager", "-u", "dyntraced.service", "-g", "Operation not permitted", "-o", "cat")
    one.finish()


def user_daemon(facts, processes):
    run("useradd", "-m", "-u", UID, USER)
    os.makedirs(RUNTIME, mode=0o700, exist_ok=True)
    os.chown(RUNTIME, UID, UID)
    facts["user manager"] = run("systemd-run", "--quiet", f"--uid={USER}", "-pDelegate=yes", "-pType=notify", "--unit=manager",
                                f"--setenv=XDG_RUNTIME_DIR={RUNTIME}", f"--setenv=HOME=/home/{USER}",
                                "/lib/systemd/systemd", "--user")
    until(lambda: os.path.exists(RUNTIME + "/systemd/private"), "the user's manager")
    facts["user socket started"] = run(*as_user(), "systemctl", "--user", "start", "dyntraced.socket")
    facts["user socket"] = run("stat", "-c", "%U %a", RUNTIME + "/dyntrace.sock").strip()
    process = processes.start([*as_user(), "sleep", "1000"])
    until(lambda: in_call(process.pid, "clock_nanosleep"), "sleep to sleep")
    facts["user added"] = dyntrace("add", f"{process.pid}:nanosleep", prefix=as_user())
    facts["user service"] = unit("ActiveState", "SubState", manager=as_user())
    facts["user list"] = [each["pid"] == process.pid for each in listed(as_user())]
    facts["user trace"] = listed(as_user())[0]["trace"]
    facts["user detached"] = dyntrace("detach", process.pid, prefix=as_user())
    run("systemctl", "stop", "manager.service")


def commands_processed():
    """By redis's own count, without this question."""
    return int(re.search(r"total_commands_processed:(\d+)", run("redis-cli", "info", "stats"))[1])


def benchmark():
    run("redis-benchmark", "-q", "-n", 1000, "-c", 5, "-t", "set,get")


def hardened_service(facts, processes):
    """redis-server.service as Debian ships it, traced with exits while it works, twice; then all its functions."""
    facts["redis started"] = run("systemctl", "start", "redis-server.service")
    until(lambda: run("redis-cli", "ping") == "PONG\n", "redis")
    pid = int(run("systemctl", "show", "--value", "-pMainPID", "redis-server.service"))
    facts["redis filters"] = [status(pid, "Seccomp"), int(status(pid, "Seccomp_filters")) > 5, status(pid, "NoNewPrivs")]
    tracer = Dyntrace(BIN, processes, "/tmp")
    facts["redis traces"] = []
    for _ in range(2):
        before = Snapshot(pid)
        first = commands_processed()
        tracing = tracer.start_trace(pid, "--function", "call", "--function", "lookupCommand", "-e", "-t", "backtrace")
        benchmark()
        trace = tracing.stop()
        before.assert_unchanged(busy=True)
        names = trace.names()
        done = commands_processed() - first - 1  # without the first question
        facts["redis traces"].append([names["call_entry"] - done, names["call_exit"] - done, trace.lost,
                                      all(len(event.fields["backtrace"]) > 3 for event in trace.named("call_entry"))])
    before = Snapshot(pid)
    tracing = tracer.start_trace(pid, "--function", "*", "-e", "--buffer-size", "64M")
    benchmark()
    tracing.process.send_signal(signal.SIGINT)
    facts["redis all"] = tracing.process.communicate(timeout=50)[1]
    before.assert_unchanged(busy=True)
    facts["redis alive"] = [run("redis-cli", "ping"), run("systemctl", "show", "--value", "-pNRestarts", "redis-server.service"),
                            int(run("systemctl", "show", "--value", "-pMainPID", "redis-server.service")) == pid]
    run("systemctl", "stop", "redis-server.service")


def filtered_by_the_daemon(facts):
    """A service with a filter, of a user without rights, through the daemon as it is shipped."""
    service = Service(run, ["SystemCallFilter=@system-service", "MemoryDenyWriteExecute=yes", "NoNewPrivileges=yes", "User=nobody"])
    facts["filtered"] = [status(service.pid, "Seccomp"), run("systemctl", "start", "dyntraced.socket")]
    before = Snapshot(service.pid)
    try:
        facts["filtered"].append(dyntrace("add", f"{service.pid}:foo", "-e", "-t", "backtrace"))
        service.round()
        path = listed()[0]["trace"]
        facts["filtered"].append(dyntrace("detach", service.pid))
        before.assert_unchanged()
        trace = Trace(path)
        facts["filtered"] += [trace.names(), trace.lost, all(len(event.fields["backtrace"]) >= 3 for event in trace.named("foo_entry"))]
        service.round()
    finally:
        service.close()


def hardened_by_the_daemon(facts):
    """The same redis through the daemon, inside the unit's sandbox: the asker, a service of its own, reads the filters."""
    facts["daemon"] = run("systemctl", "start", "dyntraced.socket") + run("systemctl", "start", "redis-server.service")
    until(lambda: run("redis-cli", "ping") == "PONG\n", "redis")
    pid = int(run("systemctl", "show", "--value", "-pMainPID", "redis-server.service"))
    facts["private users"] = dyntrace("add", f"{pid}:call")
    run("systemctl", "stop", "dyntraced.socket", "dyntraced.service")
    os.makedirs("/etc/systemd/system/dyntraced.service.d", exist_ok=True)
    with open("/etc/systemd/system/dyntraced.service.d/all.conf", "w") as file:
        file.write(f"[Service]\nExecStart=\nExecStart={BIN}dyntraced --all-targets\n")
    facts["daemon"] += run("systemctl", "daemon-reload") + run("systemctl", "start", "dyntraced.socket")
    facts["daemon traces"] = []
    for _ in range(2):
        before, first = Snapshot(pid), commands_processed()
        said = [dyntrace("add", f"{pid}:{name}", "-e", "-t", "backtrace") for name in ("call", "lookupCommand")]
        benchmark()
        path = listed()[0]["trace"]
        asker = [status(int(one), name) for one in run("pgrep", "-f", "dyntraced --asker$").split() for name in ("Seccomp", "CapBnd")]
        said.append(dyntrace("detach", pid))
        before.assert_unchanged(busy=True)
        done, trace = commands_processed() - first - 1, Trace(path)
        names = trace.names()
        facts["daemon traces"].append([said, asker, names["call_entry"] - done, names["call_exit"] - done, trace.lost,
                                       all(len(event.fields["backtrace"]) > 3 for event in trace.named("call_entry"))])
    facts["daemon's filters"] = status(int(unit("MainPID")[0]), "Seccomp")
    facts["daemon's socket"] = run("stat", "-c", "%U:%G %a", "/run/dyntrace/asker.sock").strip()
    facts["daemon's end"] = run("systemctl", "stop", "dyntraced.socket", "dyntraced.service", "redis-server.service")
    until(lambda: run("pgrep", "-f", "dyntraced --asker$").startswith("exit status 1"), "the asker's end")


def main():
    be_patient()
    facts, processes = {}, Processes()
    try:
        system_daemon(facts, processes)
        user_daemon(facts, processes)
        hardened_service(facts, processes)
        filtered_by_the_daemon(facts)
        hardened_by_the_daemon(facts)
        facts["hardened"] = trace_services(run, Dyntrace(BIN, processes, "/tmp"), [*FEW, TOGETHER])
    except Exception:  # the test shows any error
        facts["failed"] = traceback.format_exc() + run("journalctl", "--no-pager", "-u", "dyntraced.service", "-o", "cat")
    processes.close()
    with open("/result/facts", "w") as file:
        json.dump(facts, file)


main()
