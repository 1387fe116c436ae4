"""The units under a real systemd: a machine is booted from this one's files, with dyntrace installed as `make install` does. The
machine's script is systemd_guest.py."""
import json
import os
import re
import subprocess

import pytest
from daemon_harness import CALLS
from fixtures import ROOT
from hardening import CALLS as SERVICE_CALLS
from hardening import FEW, THREADS, TOGETHER, assert_outcomes
from machine import facts_of


def install(build):
    def into(root):
        subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet"], check=True, capture_output=True,
                       env={**os.environ, "DESTDIR": root})
    return into


@pytest.fixture(scope="module")
def facts(build, tmp_path_factory):
    return facts_of(str(tmp_path_factory.mktemp("machine")), install(build), "e2e/systemd_guest.py", [f"--bind-ro={build}:/build"])


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
        text = file.read()
    assert re.search(r"Overall exposure level for dyntraced.service: [\d.]+ \w+", facts["security"])[0] in text
    assert re.search(r"Overall exposure level for dyntraced-asker@x.service: [\d.]+ \w+", facts["asker's security"])[0] in text


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


def test_a_filtered_service_is_traced_by_the_daemon(facts):
    calls = SERVICE_CALLS * THREADS
    assert facts["filtered"] == ["2", "", "foo\n", "", {"foo_entry": calls, "foo_exit": calls}, 0, True]


def test_debians_hardened_redis_is_traced_by_the_daemon(facts):
    """The daemon's own sandbox has a filter, too, so it reads none; its asker does, with three capabilities and no filter."""
    assert "has special rights: its user's rights aren't enough to trace it (start dyntraced with --all-targets)" in facts["private users"]
    assert facts["daemon"] == facts["daemon's end"] == "" and facts["daemon's filters"] == "2"
    rights = f"{1 << 19 | 1 << 21 | 1 << 23:016x}"
    assert facts["daemon traces"] == [[["call\n", "lookupCommand\n", ""], ["0", rights], 0, 0, 0, True]] * 2
    assert facts["daemon's socket"] == "root:root 600"


def test_services_with_hardening_options_are_traced(facts):
    """Each kind of fence, and all options that need no refusal together; make torture tries each option by itself."""
    assert_outcomes(facts["hardened"], [*FEW, TOGETHER])
