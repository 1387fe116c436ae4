"""docs/two-hosts.sh: two hosts with names, session daemons and networks of their own stream to one relay daemon; one reader
sees both, merged by time."""
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest

from harness import until
from lttng import DAEMON, SPACE, Lttng
from test_lttng import SOURCE, Target, needs_lttng

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "two-hosts.sh"
pytestmark = [needs_lttng, pytest.mark.skipif(not shutil.which("ip"), reason="needs iproute2")]


class Host(Lttng):
    """A host name and a network of its own, beside its session daemon."""

    def __init__(self, processes, name, command=f"{SPACE} && exec {' '.join(DAEMON)}"):
        self.processes, self.name = processes, name
        self.env = {**os.environ, "LTTNG_HOME": "/run/home", "LTTNG_UST_REGISTER_TIMEOUT": "-1"}
        self.daemon = processes.start(["unshare", "--mount", "--uts", "--net", "sh", "-c",
                                       f"hostname {name} && {command}"], env=self.env,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def inside(self, *words):
        space = f"/proc/{self.daemon.pid}"
        return ["nsenter", f"--mount={space}/ns/mnt", f"--uts={space}/ns/uts", f"--net={space}/ns/net", f"--root={space}/root",
                *map(str, words)]

    def is_up(self):
        """In its own namespaces, with its own name."""
        return self.run("hostname", check=False).stdout == self.name + "\n" and \
            self.run("lttng", "--no-sessiond", "list", check=False).returncode == 0


@pytest.fixture
def relay(processes):
    """A host with a relay daemon."""
    host = Host(processes, "relay", f"{SPACE} && exec lttng-relayd -o /dev/shm/relay")
    until(lambda: host.run("hostname", check=False).stdout == "relay\n", "the relay's name")
    # its threads open their ports in any order
    until(lambda: {"5342", "5343", "5344"} <= set(re.findall(r":(\d+)", host.run("ss", "-ltn", check=False).stdout)), "lttng-relayd to listen")
    return host


def connect(relay, host, number):
    """Connects a host with the relay by a virtual cable; gives the relay's address."""
    relay.run("ip", "link", "add", f"to{number}", "type", "veth", "peer", "name", "eth0", "netns", host.daemon.pid)
    for side, device, last in ((relay, f"to{number}", 1), (host, "eth0", 2)):
        side.run("ip", "address", "add", f"10.77.{number}.{last}/24", "dev", device)
        side.run("ip", "link", "set", device, "up")
    return f"10.77.{number}.1"


@pytest.fixture
def hosts(processes, relay, build):
    if not os.path.exists(os.path.join(build, "libdyntrace-lttng.so")):
        pytest.skip("libdyntrace-lttng.so isn't built")
    both = [Host(processes, name) for name in ("alpha", "beta")]
    for number, host in enumerate(both):
        until(host.is_up, f"lttng-sessiond of {host.name}")
        host.relay = connect(relay, host, number)
    return both


def test_merged_by_time(hosts, relay, processes, build, tmp_path):
    (tmp_path / "typed.c").write_text(SOURCE)
    subprocess.run(["gcc", "-O2", "-g", "-pthread", "-o", tmp_path / "typed", tmp_path / "typed.c"], check=True)
    targets, scripts = [], []
    for host in hosts:
        target = Target(host, processes, tmp_path / "typed")
        script = processes.start(host.inside("sh", SCRIPT, host.relay, target.pid, "outer", "trip"), stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, text=True, cwd=tmp_path,
                                 env={**host.env, "DYNTRACE": os.path.join(build, "dyntrace")})
        for line in script.stderr:
            if "Ctrl-C ends it" in line:
                break
        else:
            raise AssertionError("the script ended")
        targets.append(target)
        scripts.append(script)
    for turn in (0, 1, 1, 0, 1):
        targets[turn].do(1)
    for script in scripts:
        os.killpg(script.pid, signal.SIGINT)
        assert script.wait(timeout=60) in (0, 130)
    result = relay.run("babeltrace2", "--no-delta", "--clock-seconds", "/dev/shm/relay")
    events = [re.match(r"\[([\d.]+)\] (\w+)\S* (dyntrace:\S+): ", line) for line in result.stdout.splitlines()]
    assert all(events), result.stdout[:500]
    assert [float(e[1]) for e in events] == sorted(float(e[1]) for e in events)
    names = ["alpha", "beta"]
    assert [(e[2], e[3]) for e in events] == [(names[turn], f"dyntrace:trip_{what}") for turn in (0, 1, 1, 0, 1)
                                              for what in ("entry", "exit")]
