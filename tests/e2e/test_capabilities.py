"""The capabilities of the unit: with all of them everything works, without one of them something doesn't."""
import os
import re
import shutil
import subprocess

import pytest
from daemon_harness import Daemon, helpers
from exec_points import GROUP, MEMBER, furnish
from fixtures import ROOT
from harness import in_first_pid_namespace

NAMES = re.search(r"^CapabilityBoundingSet=(.*)$", open(os.path.join(ROOT, "share", "dyntraced.service.in")).read(), re.M)[1].split()


class Bounded(Daemon):
    """A daemon of root's with some capabilities."""
    names = NAMES

    def for_user(self, command, user):
        if os.path.basename(command[0]) != "dyntraced":
            return Daemon.for_user(command, user)
        return ["setpriv", "--bounding-set", ",".join(["-all", *(f"+{name[4:].lower()}" for name in self.names)]), *command]


@pytest.fixture
def bounded(build, processes, scratch, program_path):
    furnish(scratch, build, program_path)
    daemons = []

    def start(names):
        one = Bounded(scratch, processes, scratch, ["--group", GROUP, "--all-targets"])
        one.names = names
        daemons.append(one)
        one.start()
        return one
    yield start
    for one in daemons:
        one.close()


@pytest.fixture
def target(processes, scratch):
    """A process that calls foo."""
    def start(word="--innocent", user=None, prefix=()):
        one = processes.start([*prefix, *Daemon.for_user([f"{scratch}/turncoat", word], user)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
        assert one.stdout.readline() == "ready\n"
        return one
    return start


def traces(daemon, pid, *words):
    daemon.targets.add(str(pid))
    result = daemon("add", f"{pid}:foo", *words, status=None)
    print(result.stderr)
    return result.returncode == 0


def records_for_root_into_a_user_s_folder(daemon, target):
    folder = os.path.join(daemon.scratch, "home")
    os.mkdir(folder, 0o700)
    os.chown(folder, *MEMBER[:2])
    return traces(daemon, target().pid, "ctf", f"{folder}/trace")


def gives_the_socket_to_its_group(daemon, target):
    return os.stat(daemon.socket).st_gid == GROUP


def traces_a_user_s_process(daemon, target):
    return traces(daemon, target(user=MEMBER).pid)


def traces_a_process_that_is_not_dumpable(daemon, target):
    return traces(daemon, target("--hidden", MEMBER).pid)


def hears_of_programs_from_the_kernel(daemon, target):
    if not in_first_pid_namespace():
        pytest.skip("the kernel's messages have the numbers of the first pid namespace: in others a daemon doesn't listen")
    daemon("add", "--wait", "nothing-of-this-name:foo")
    with open("/proc/net/netlink") as file:
        return any(line.split()[1:3] == ["11", str(daemon.process.pid)] for line in file)


def raises_a_limit_of_its_target(daemon, target):
    one = target()
    subprocess.run(["prlimit", f"--pid={one.pid}", "--nofile=3:3"], check=True)
    return traces(daemon, one.pid)


def reads_deleted_libraries(daemon, target):
    folder = os.path.join(daemon.scratch, "deleted")
    os.mkdir(folder)
    libc = re.search(r"(/\S*libc\.so\.6)", open("/proc/self/maps").read())[1]
    shutil.copy(libc, folder)
    one = target(prefix=["env", f"LD_LIBRARY_PATH={folder}"])
    shutil.rmtree(folder)
    daemon.targets.add(str(one.pid))
    return daemon("add", f"{one.pid}:poll@libc.so.6", status=None).returncode == 0


def ends_a_worker_of_a_user_s(daemon, target):
    """As the supervisor does, with its rights, when a worker hangs for two minutes or sends nonsense."""
    one = target(user=MEMBER)
    daemon.attach(one.pid)
    worker = helpers("worker", one.pid)[0]
    result = subprocess.run(daemon.for_user([os.path.join(daemon.build, "dyntraced")], None)[:3] + ["kill", "-KILL", str(worker)],
                            capture_output=True)
    return result.returncode == 0


NEEDS = {"CAP_CHOWN": gives_the_socket_to_its_group, "CAP_DAC_OVERRIDE": records_for_root_into_a_user_s_folder,
         "CAP_KILL": ends_a_worker_of_a_user_s, "CAP_SETGID": traces_a_user_s_process, "CAP_SETUID": traces_a_user_s_process,
         "CAP_NET_ADMIN": hears_of_programs_from_the_kernel, "CAP_SYS_PTRACE": traces_a_process_that_is_not_dumpable,
         "CAP_SYS_NICE": traces_a_user_s_process, "CAP_SYS_RESOURCE": raises_a_limit_of_its_target,
         "CAP_CHECKPOINT_RESTORE": reads_deleted_libraries}


def test_each_capability_has_a_use_and_a_line_in_the_documents():
    with open(os.path.join(ROOT, "docs", "rights.md")) as file:
        rows = re.findall(r"^\| (CAP_[^|]*) \|", file.read(), re.M)
    assert sorted(NEEDS) == sorted(NAMES) == sorted(", ".join(rows).split(", "))


NUMBERS = {"CAP_CHOWN": 0, "CAP_DAC_OVERRIDE": 1, "CAP_KILL": 5, "CAP_SETGID": 6, "CAP_SETUID": 7, "CAP_NET_ADMIN": 12,
           "CAP_SYS_PTRACE": 19, "CAP_SYS_NICE": 23, "CAP_SYS_RESOURCE": 24, "CAP_CHECKPOINT_RESTORE": 40}


def root_s_own():
    """Root in a container may have fewer."""
    with open("/proc/self/status") as file:
        bits = int(re.search(r"CapBnd:\t(\w+)", file.read())[1], 16)
    return [name for name in NAMES if bits >> NUMBERS[name] & 1]


def skip_without(names):
    missing = [name for name in names if name not in root_s_own()]
    if missing:
        pytest.skip(f"root itself doesn't have {' '.join(missing)} here")


@pytest.mark.parametrize("use", list(dict.fromkeys(NEEDS.values())))
def test_with_all_of_them_it_works(bounded, target, use):
    skip_without([name for name in NAMES if NEEDS[name] == use])
    assert use(bounded(root_s_own()), target)


@pytest.mark.parametrize("name", NAMES)
def test_without_one_of_them_it_does_not(bounded, target, name):
    skip_without([name])
    try:
        daemon = bounded([each for each in root_s_own() if each != name])
    except AssertionError:  # it doesn't even start
        return
    # since Linux 6.6 any user hears of programs that begin
    works = name == "CAP_NET_ADMIN" and tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 6)
    assert NEEDS[name](daemon, target) == works
