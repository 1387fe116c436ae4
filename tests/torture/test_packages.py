"""The Debian packages: two builds give the same bytes, lintian has nothing to say, and in a machine under a real systemd they are
installed, used by a member of the group, upgraded beside a running daemon, and purged (packages_guest.py)."""
import glob
import hashlib
import os
import subprocess

import pytest
from daemon_harness import CALLS
from fixtures import ROOT
from machine import facts_of

NAMES = ["dyntrace", "dyntrace-dbgsym", "libdyntrace-dev", "libdyntrace0", "libdyntrace0-dbgsym"]


def make(folder, **environment):
    done = subprocess.run([os.path.join(ROOT, "tools", "make-deb"), folder], cwd=ROOT, capture_output=True, text=True,
                          env={**os.environ, **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    return {os.path.basename(path).partition("_")[0]: path for path in glob.glob(os.path.join(folder, "*.deb"))}


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    return make(str(tmp_path_factory.mktemp("packages")))


@pytest.fixture(scope="module")
def facts(build, packages, tmp_path_factory):
    folder = os.path.dirname(packages["dyntrace"])
    return facts_of(str(tmp_path_factory.mktemp("machine")), lambda root: None, "torture/packages_guest.py",
                    [f"--bind-ro={build}:/build", f"--bind-ro={folder}:/debs"], seconds=600)


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


@pytest.mark.limit(3600)
def test_two_builds_are_the_same_bytes(packages, scratch):
    """Another place, time zone, language, home, umask and temporary folder."""
    mask = os.umask(0o077)
    try:
        again = make(os.path.join(scratch, "again"), TZ="Pacific/Chatham", LANG="C.UTF-8", LC_ALL="C.UTF-8", HOME=scratch, TMPDIR=scratch)
    finally:
        os.umask(mask)
    assert sorted(packages) == sorted(again) == NAMES
    assert {name: digest(path) for name, path in packages.items()} == {name: digest(path) for name, path in again.items()}


def test_lintian_has_nothing_to_say(packages):
    changes = glob.glob(os.path.join(os.path.dirname(packages["dyntrace"]), "*.changes"))
    done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", *changes], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_installed_it_listens_and_a_member_traces(facts):
    version, words, package = facts["versions"]
    assert version == f"dyntrace {package}\n" and words == version.strip()
    assert facts["group"] == "dyntrace" and facts["units"] == ["active", "enabled", "inactive"]
    assert facts["added"] == "foo\n" and facts["first"] == {"foo": CALLS}
    assert facts["recorded"] == "recorded\n" and facts["traces"] and facts["removed"] == ""


def test_an_upgrade_leaves_a_running_daemon_and_its_targets_alone(facts):
    assert facts["version after"] == "0.1.1", facts["upgraded"]
    assert facts["same daemon"] and facts["second"] == {"foo": 2 * CALLS}
    assert facts["restarted"] == "" and facts["added again"] == "foo\n" and facts["third"] == {"foo": CALLS}


def test_purged_it_leaves_nothing(facts):
    """The target goes on as it was before the first tracepoint (packages_guest.py looks)."""
    assert facts["left"] == [] and facts["units after"].startswith("exit status 1") and facts["group after"] != "dyntrace", facts["purged"]
