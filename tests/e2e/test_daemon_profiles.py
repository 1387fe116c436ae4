"""`/etc/dyntrace/*.conf`: what the daemon traces by itself, in which programs (rules D16 to D18)."""
import os
import shutil
import subprocess

import pytest
from daemon_harness import CALLS
from harness import Program, Trace, until

ROOT = os.geteuid() == 0


@pytest.fixture
def folder(scratch):
    path = os.path.join(scratch, "profiles")
    os.mkdir(path, 0o755)
    return path


@pytest.fixture
def profile(folder):
    def write(name, text, mode=0o644):
        path = os.path.join(folder, name)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)
        return path
    return write


def placed(daemon, pid, names):
    """Waits until the process has these tracepoints."""
    daemon.targets.add(str(pid))

    def look():
        rows = [one for one in daemon.json("list-processes") if one["pid"] == pid]
        return rows and rows[0]["tracepoints"] == len(names) and sorted(daemon.hits(pid)) == sorted(names)
    until(look, f"the tracepoints {names}")


@pytest.fixture
def check(build, folder):
    """The status, the output and the errors of --check-profiles."""
    def run():
        result = subprocess.run([os.path.join(build, "dyntraced"), "--check-profiles", "--profiles", folder], capture_output=True,
                                text=True, check=False, timeout=50)
        return result.returncode, result.stdout, result.stderr
    return run


def test_processes_of_before_and_after_have_it_and_a_killed_daemon_comes_back_to_it(new_daemon, spin, own_name, folder, profile, scratch):
    """(D18) Each process has the tracepoints once; the trace goes on; `output` is where the traces are."""
    traces = os.path.join(scratch, "kept")
    os.mkdir(traces)
    profile("a.conf", f"# what we look at\npid = {own_name}\npid=nothing-is-called-so\nfunction = foo\nexit\nmax-size = 8M\noutput = {traces}\n")
    profile("b.conf", f"pid = {own_name}\nprobe = foo_many\ntracer = count\n")
    profile("notes.txt", "no profile\n")
    before = spin(name=own_name)
    daemon = new_daemon("--profiles", folder).start()
    placed(daemon, before.pid, ["foo", "foo_many"])
    assert (daemon.json("status")["profiles"], daemon.json("status")["profile_errors"]) == (2, [])
    assert daemon.json("status")["waiting"] == 3
    before.round()
    after = spin(name=own_name)
    placed(daemon, after.pid, ["foo", "foo_many"])
    after.round()
    daemon.kill()
    between = spin(name=own_name)
    before.round()
    daemon.start()
    placed(daemon, between.pid, ["foo", "foo_many"])
    until(lambda: all(daemon.hits(one.pid)["foo"] == hits for one, hits in ((before, 2 * CALLS), (after, CALLS))), "the hits")
    for one, rounds in ((before, 3), (after, 2), (between, 1)):
        one.round()
        assert daemon.hits(one.pid)["foo"] == rounds * CALLS
        assert len(daemon.json("list-tracepoints", one.pid)) == 2
        path = daemon.trace_of(one.pid)
        assert os.path.dirname(path) == traces
        daemon("detach", one.pid)
        assert Trace(path).names() == {"foo_entry": rounds * CALLS, "foo_exit": rounds * CALLS}
        one.finish()


def test_options_reach_the_tracepoint(new_daemon, spin, own_name, folder, profile):
    """Filter, contexts, mode and limits are those of the file."""
    profile("a.conf", f"pid = {own_name}\nfunction = foo\nname = it\nfilter = number == 3 || number == 4\ncontext = tid\nmode = overwrite\n"
            "buffer-size = 2M\nmax-files = 3\n")
    daemon = new_daemon("--profiles", folder).start()
    one = spin(name=own_name)
    placed(daemon, one.pid, ["it"])
    one.round()
    assert daemon("snapshot", own_name).stdout == f"{daemon.trace_of(one.pid)}.snapshot-1\n"
    trace = daemon.finish(one.pid)
    assert [event.fields["number"] for event in trace.named("it_entry")] == [3, 4]
    assert {event.fields["tid"] for event in trace.events} == {one.pid}
    one.finish()


def test_a_bad_line_names_file_and_line_and_the_others_count(new_daemon, check, spin, own_name, folder, profile):
    """(D17) In the log, in `status` and by --check-profiles; nothing of the bad file is placed."""
    bad = profile("a.conf", f"pid = {own_name}\nfunction = foo_many\nfunktion = foo\n")
    profile("b.conf", f"pid = {own_name}\nprobe = foo\n")
    why = f"{bad}:3: unknown option '--funktion'"
    status, output, errors = check()
    assert status == 1 and errors.startswith(f"dyntraced: {why}") and errors.count("\n") == 1
    assert output == f"{folder}: 1 file, 1 tracepoint; 1 not used\n"
    daemon = new_daemon("--profiles", folder).start()
    one = spin(name=own_name)
    placed(daemon, one.pid, ["foo"])
    assert f"profile {why}" in daemon.log_text()
    error, = daemon.json("status")["profile_errors"]
    assert error.startswith(why) and f"not used: {why}" in daemon("status").stdout
    daemon("detach", one.pid)
    one.finish()


@pytest.mark.parametrize("text, why", [
    ("function = foo\n", ": no process (give a line 'pid = NAME')"),
    ("pid = 17\n", ":1: option '--pid': '17' is a number"),
    ("pid = /usr/bin/redis-server\n", ":1: option '--pid': '/usr/bin/redis-server' is a path (give the file's name: 'redis-server')"),
    ("pid = x\n", ": nothing to record"),
    ("process = x\n", ":1: unknown option '--process'"),
    ("pid = x\nfunction = \n", ":2: "),
    ("pid = x\nfor = 10s\n", ":2: '--for' is for 'dyntrace trace' alone (a tracepoint stays until it is removed)"),
    ("pid = x\nfunction = f\nmin-duration = soon\nexit\n", ":3: "),
    ("pid = x\nfunction = f\nmin-duration = 1ms\n", ": min-duration: needs a line 'exit'"),
    ("pid = x\nfunction = f\noverhead = much\n", ":3: "),
    ("pid = x\nfunction = f\nrate = fast\n", ":3: "),
    ("pid = x\nfunction = f\ntracer = nix\n", ":3: "),
    ("pid = x\nfunction = f\ntracer = log:relative\n", ":3: option '--tracer': 'relative' is not an absolute path"),
    ("pid = x\nfunction = f\noutput = relative\n", ":3: option '--output': 'relative' is not an absolute path"),
    ("pid = x\nfunction = f\nmax-files = 3\n", ": --max-files: needs --rotate TIME or --max-size SIZE"),
    ("pid = x\nfunction = f\nby = y\n", ": by, of: need tracer = count"),
    ("pid = x\nfunction = f\nmode = overwrite\noverhead = 5%\n", ": overhead: not with mode overwrite or snapshot-when"),
    ("pid = x\nfunction = f\nfunction = g\nname = h\n", ": name: there are 2 places"),
    ("pid = x\nmarker = foo\n", ":2: option '--marker': 'foo' is not PROVIDER:NAME"),
    ("pid = x\nfunction = f\nfilter = a \033 b\n", ": 'a "),
])
def test_faults_are_told(check, folder, profile, text, why):
    path = profile("a.conf", text)
    status, output, errors = check()
    assert status == 1 and errors.startswith(f"dyntraced: {path}{why}"), errors
    assert errors.count("\n") == 1 and "\033" not in errors
    assert output == f"{folder}: 0 files, 0 tracepoints; 1 not used\n"


@pytest.mark.skipif(not ROOT, reason="needs root")
def test_only_what_nobody_else_can_write_counts(check, folder, profile):
    """(D16) Owner and mode of the file, of what a link leads to, and of the folder."""
    def told():
        status, _, errors = check()
        return status, errors
    path = profile("a.conf", "pid = x\nfunction = f\n")
    assert told() == (0, "")
    for mode in (0o664, 0o646):
        os.chmod(path, mode)
        assert told() == (1, f"dyntraced: {path}: not used: others may write to it (chmod go-w {path})\n")
    os.chmod(path, 0o644)
    os.chown(path, 65534, 0)
    refused = f"dyntraced: {path}: not used: it belongs to user 65534 (chown root {path})\n"
    assert told() == (1, refused)
    os.rename(path, path + ".away")
    os.symlink(path + ".away", path)
    assert told() == (1, refused)
    os.chown(path, 0, 0)
    assert told() == (0, "")
    os.unlink(path)
    os.mkfifo(path)
    assert told() == (1, f"dyntraced: {path}: not used: it isn't a file\n")
    os.unlink(path)
    os.chmod(folder, 0o777)
    assert told() == (1, f"dyntraced: {folder}: not used: others may write to it (chmod go-w {folder})\n")


def test_a_folder_that_is_named_must_exist(build):
    result = subprocess.run([os.path.join(build, "dyntraced"), "--profiles", "/nowhere/at/all"], capture_output=True, text=True,
                            check=False, timeout=50)
    assert (result.returncode, result.stderr) == (1, "dyntraced: --profiles: cannot read /nowhere/at/all: No such file or directory\n")



def test_forked_children_stay_with_their_parent(new_daemon, processes, program_path, own_name, scratch, folder, profile):
    """Children that a traced process has forked are in its trace: a daemon that comes back attaches to none of them."""
    path = os.path.join(scratch, own_name)
    shutil.copy(program_path("prefork"), path)
    profile("a.conf", f"pid = {own_name}\nfunction = foo\n")
    daemon = new_daemon("--profiles", folder).start()
    one = Program(processes, path, ["--children", 2, "--calls", CALLS, "--rounds", 2]).wait_ready()
    placed(daemon, one.pid, ["foo"])
    one.go().wait_ready()
    one.go().wait_ready()
    daemon.kill()
    daemon.start()
    daemon("status")
    one.go().wait_ready()
    assert [row["pid"] for row in daemon.json("list-processes")] == [one.pid], daemon.log_text()
    assert daemon.finish(one.pid).names() == {"foo_entry": 6 * CALLS}
    one.finish()
    one.close()
