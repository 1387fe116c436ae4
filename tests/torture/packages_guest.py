"""The script of the machine that test_packages.py boots: installs the packages of /debs, traces as a member of the group, upgrades
beside a running daemon, and purges. It writes what it found to /result/facts, as JSON."""
import glob
import itertools
import json
import os
import subprocess
import sys
import traceback

sys.path.insert(0, "/source/tests/e2e")
from harness import Processes, Program, Snapshot, be_patient  # noqa: E402

UID = 1500
# The folders that packages and daemons write to, and in these the files that dpkg, ldconfig and systemd keep for themselves.
PLACES = ("/bin", "/boot", "/etc", "/home", "/lib", "/lib64", "/media", "/mnt", "/opt", "/sbin", "/srv", "/usr", "/var")
NOT_OURS = ("/var/lib/dpkg/", "/var/log/", "/var/cache/", "/var/lib/systemd/", "/var/tmp/", "/etc/group-", "/etc/gshadow-")


def run(*words):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=100)
    return done.stdout if done.returncode == 0 else f"exit status {done.returncode}: {done.stdout}{done.stderr}"


def as_member(*words):
    return run("setpriv", "--reuid", UID, "--regid", UID, "--init-groups", *words)


def files():
    """All paths in these folders, without the files that others write."""
    found = set()
    for folder, folders, names in itertools.chain.from_iterable(map(os.walk, PLACES)):
        folders[:] = [name for name in folders if not (os.path.join(folder, name) + "/").startswith(NOT_OURS)
                      and not os.path.islink(os.path.join(folder, name))]
        found |= {os.path.join(folder, name) for name in [*names, *folders]}
    return {name for name in found if not name.startswith(NOT_OURS)}


def hits(pid):
    return {one["name"]: one["hits"] for one in json.loads(as_member("dyntrace", "list-tracepoints", pid, "--json"))}


def repack(path, version):
    """The same package with another version."""
    run("dpkg-deb", "-R", path, "/tmp/repacked")
    with open("/tmp/repacked/DEBIAN/control") as file:
        text = file.read().replace("0.1.0", version)
    with open("/tmp/repacked/DEBIAN/control", "w") as file:
        file.write(text)
    run("dpkg-deb", "-b", "/tmp/repacked", f"/tmp/{os.path.basename(path)}")
    run("rm", "-r", "/tmp/repacked")


def install_and_trace(facts, processes):
    debs = sorted(glob.glob("/debs/*.deb"))
    facts["installed"] = run("dpkg", "-i", *debs)
    facts["versions"] = [run("dyntrace", "--version"), run("dyntrace", "version").splitlines()[0],
                         run("dpkg-query", "-W", "-f", "${Version}", "dyntrace")]
    facts["group"] = run("getent", "group", "dyntrace").split(":")[0]
    run("usermod", "-a", "-G", "dyntrace", "dyntracer")
    facts["units"] = [run("systemctl", "is-active", "dyntraced.socket").strip(), run("systemctl", "is-enabled", "dyntraced.socket").strip(),
                      run("systemctl", "show", "--value", "-pActiveState", "dyntraced.service").strip()]
    program = Program(processes, "/build/tests/programs/spin", ["--rounds", 20]).wait_ready()
    before = Snapshot(program.pid)
    facts["added"] = as_member("dyntrace", "add", f"{program.pid}:foo", "-e", "count")
    program.go().wait_ready()
    facts["first"] = hits(program.pid)
    facts["recorded"] = run("dyntrace", "add", f"{program.pid}:foo", "-n", "recorded")
    facts["traces"] = len(glob.glob("/var/lib/dyntrace/traces/*"))
    facts["removed"] = run("dyntrace", "rm", f"{program.pid}:recorded")
    return debs, program, before


def upgrade(facts, debs, program):
    main = run("systemctl", "show", "--value", "-pMainPID", "dyntraced.service")
    for path in debs:
        repack(path, "0.1.1")
    facts["upgraded"] = run("dpkg", "-i", *[f"/tmp/{os.path.basename(path)}" for path in debs])
    facts["version after"] = run("dpkg-query", "-W", "-f", "${Version}", "dyntrace")
    facts["same daemon"] = run("systemctl", "show", "--value", "-pMainPID", "dyntraced.service") == main
    program.go().wait_ready()
    facts["second"] = hits(program.pid)
    facts["restarted"] = run("systemctl", "restart", "dyntraced.service")
    facts["after restart"] = as_member("dyntrace", "status")
    facts["added again"] = as_member("dyntrace", "add", f"{program.pid}:foo", "-e", "count")
    program.go().wait_ready()
    facts["third"] = hits(program.pid)


def act(facts):
    processes = Processes()
    try:
        run("useradd", "-u", UID, "-M", "dyntracer")
        run("rm", "-f", "/usr/sbin/policy-rc.d")  # an image for containers has one that forbids services to start
        before = files()
        debs, program, untraced = install_and_trace(facts, processes)
        upgrade(facts, debs, program)
        names = [os.path.basename(path).partition("_")[0] for path in debs]
        facts["purged"] = run("dpkg", "--purge", *names)
        untraced.assert_unchanged()
        program.go().wait_ready()
        program.finish()
        facts["left"] = sorted(files() - before)
        facts["group after"] = run("getent", "group", "dyntrace").split(":")[0]
        facts["units after"] = run("systemctl", "list-unit-files", "--no-legend", "dyntraced*").strip()
    finally:
        processes.close()


def main():
    be_patient()
    facts = {}
    try:
        act(facts)
    except Exception:  # the test shows any error
        facts["failed"] = traceback.format_exc() + str(facts)
    with open("/result/facts", "w") as file:
        json.dump(facts, file)


main()
