"""The units under a real systemd: a machine is booted from this one's files (an overlay of /, in memory), with dyntrace installed as
`make install` does. The machine's script is systemd_guest.py."""
import json
import os
import re
import subprocess

import pytest
from daemon_harness import CALLS
from fixtures import ROOT

TARGET = """[Unit]
Requires=dyntrace-test.service basic.target
AllowIsolate=yes
"""
SERVICE = """[Unit]
SuccessAction=exit
FailureAction=exit
[Service]
Type=oneshot
ExecStart=/usr/bin/python3 /source/tests/e2e/systemd_guest.py
"""


def install(build, root):
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet"], check=True, capture_output=True,
                   env={**os.environ, "DESTDIR": root})
    folder = os.path.join(root, "etc", "systemd", "system")
    for name, text in (("dyntrace-test.target", TARGET), ("dyntrace-test.service", SERVICE)):
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)


def boot(build, root, result):
    """Boots the machine and waits for the end of the guest's script. nspawn's filter of system calls is off: the daemon traces no process with
    a filter, and only a dyntrace without one reads filters. Its network is its own, because redis takes its usual port."""
    command = ["systemd-nspawn", "--quiet", "--directory", root, "--boot", "--register=no", "--keep-unit", "--link-journal=no",
               "--machine=dyntrace-test", "--private-network", f"--bind-ro={ROOT}:/source", f"--bind-ro={build}:/build", f"--bind={result}:/result",
               "systemd.unit=dyntrace-test.target"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100,
                          env={**os.environ, "SYSTEMD_SECCOMP": "0"})
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def facts(build, tmp_path_factory):
    base = str(tmp_path_factory.mktemp("machine"))
    root, memory, result = (os.path.join(base, name) for name in ("root", "memory", "result"))
    for path in (root, memory, result):
        os.mkdir(path)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", memory], check=True)
    try:
        for name in ("upper", "work"):
            os.mkdir(os.path.join(memory, name))
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o",
                        f"lowerdir=/,upperdir={memory}/upper,workdir={memory}/work", root], check=True)
        try:
            install(build, root)
            said = boot(build, root, result)
        finally:
            subprocess.run(["umount", root], check=True)
    finally:
        subprocess.run(["umount", memory], check=True)
    with open(os.path.join(result, "facts")) as file:
        found = json.load(file)
    assert "failed" not in found, found["failed"] + said[-2000:]
    return found


@pytest.mark.limit(120)
def test_the_units_are_good_and_the_group_is_made(facts):
    assert facts["group"] == "dyntrace"
    assert facts["verify"] == ""


def test_the_first_client_starts_the_daemon(facts):
    assert facts["socket started"] == "" and facts["before"] == ["inactive"]
    assert facts["socket"] == "root:dyntrace 660"
    assert json.loads(facts["status"])["socket"] == "/run/dyntrace/dyntraced.sock"
    assert facts["after"] == ["active", "running"]


def test_it_traces_inside_the_units_sandbox(facts):
    assert facts["added"] == "foo\n"
    assert facts["first"] == {"foo": CALLS}
    assert facts["denied"].startswith("exit status 1"), facts["denied"]  # journalctl found nothing


def test_it_traces_other_users_processes_into_other_folders_inside_the_sandbox(facts):
    assert facts["of another user"] == "nanosleep\n" and facts["detached"] == ""
    assert facts["modes"] == ["root 700", "root 600"]


def test_the_exposure_is_what_the_documents_say(facts):
    with open(os.path.join(ROOT, "docs", "rights.md")) as file:
        assert re.search(r"Overall exposure level for dyntraced.service: [\d.]+ \w+", facts["security"])[0] in file.read()


def test_killed_it_is_started_again_and_finds_its_targets(facts):
    assert facts["killed"] == "" and facts["restarts"] == ["1"]
    assert facts["found again"] == [facts["pid"]]
    assert facts["second"] == {"foo": 2 * CALLS}


def test_stopped_it_lets_its_targets_go(facts):
    assert facts["stopped"] == "" and facts["result"] == ["success", "inactive"]
    assert facts["trace"] == {"foo_entry": 2 * CALLS, "foo_exit": 2 * CALLS}


def test_a_users_own_manager_starts_a_users_own_daemon(facts):
    assert facts["user manager"] == facts["user socket started"] == "" and facts["user socket"] == "dyntracer 600"
    assert facts["user added"] == "nanosleep\n"
    assert facts["user service"] == ["active", "running"]
    assert facts["user list"] == [True]
    assert facts["user trace"].startswith("/home/dyntracer/.local/state/dyntrace/")
    assert facts["user detached"] == ""


def test_debians_hardened_redis_is_traced(facts):
    """Its unit has SystemCallFilter=, MemoryDenyWriteExecute=, NoExecPaths= and twenty more: the filter allows all that dyntrace needs."""
    assert facts["redis started"] == "" and facts["redis filters"] == ["2", True, "1"]
    assert facts["redis traces"] == [[0, 0, 0, True]] * 2
    assert re.search(r"\d{4} tracepoints placed", facts["redis all"]) and " events, 0 lost, " in facts["redis all"]
    assert facts["redis alive"] == ["PONG\n", "0\n", True]
