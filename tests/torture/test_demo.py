"""`make demo` behind its build: as root, as an ordinary user without sudo, where only root may attach to running processes, in a container, and
right after boot."""
import os
import shutil
import subprocess

import pytest
from fixtures import ROOT
from test_containers import make_root, podman_run

NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]


@pytest.fixture
def demo(place):
    """Runs the demonstration from a copy that all users may read; nobody has a sudo."""
    shutil.copytree(os.path.join(ROOT, "demo"), os.path.join(place, "demo"))
    page = os.path.join(place, "pages")
    os.mkdir(page)
    os.chmod(page, 0o777)
    for name in ("dyntrace", "dyntraced", "libdyntrace-agent.so"):
        os.symlink(os.path.join(place, name), os.path.join(page, name))
    programs = os.path.join(place, "bin")
    os.mkdir(programs)
    for name in os.listdir("/usr/bin"):
        if name != "sudo":
            os.symlink(os.path.join("/usr/bin", name), os.path.join(programs, name))

    def run(*prefix):
        done = subprocess.run([*prefix, os.path.join(place, "demo", "run"), page], env={"PATH": programs, "HOME": place, "TMPDIR": "/tmp"},
                              capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stdout + done.stderr
        assert os.path.getsize(os.path.join(page, "demo.html")) > 10_000
        return done.stdout
    return run


def test_as_root(demo):
    shown = demo()
    assert "sortCommand" in shown and "user:1" in shown and "PONG" in shown
    assert "ordinary user" not in shown


def test_as_an_ordinary_user(demo):
    """The same, for processes of one's own, and what root would add."""
    shown = demo(*NOBODY)
    assert "sortCommand" in shown and "user:1" in shown and "PONG" in shown
    assert "As an ordinary user you trace your own processes" in shown and "sudo make demo" in shown


def test_where_only_root_may_attach(demo):
    """A command is traced from its start."""
    folder = "/proc/sys/kernel"
    script = f'mount -t tmpfs none {folder} && mkdir {folder}/yama && echo 1 > {folder}/yama/ptrace_scope && exec "$@"'
    shown = demo("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *NOBODY)
    assert "kernel.yama.ptrace_scope is 1" in shown and "redis-server --version" in shown and "main" in shown
    assert "sudo make demo" in shown


def test_in_a_container(demo, place, scratch):
    """As the container's root, behind its filter and without a right of the host's."""
    root = os.path.join(scratch, "root")
    make_root(root)
    shown = demo(*podman_run(scratch, os.path.join(scratch, "r")), "-v", f"{place}:{place}", "-e", f"PATH={place}/bin", "-e", f"HOME={place}",
                 "--rootfs", root)
    assert "sortCommand" in shown and "user:1" in shown and "PONG" in shown


def test_right_after_boot(demo):
    """The monotonic clocks have just begun, as a time namespace shows them."""
    with open("/proc/uptime") as file:
        uptime = int(float(file.read().split()[0]))
    shown = demo("unshare", "--time", "--monotonic", str(-uptime), "--boottime", str(-uptime), "--fork", "sh", "-c",
                 'read uptime rest < /proc/uptime; echo "up for $uptime"; exec "$@"', "sh")
    assert float(shown.split("up for ")[1].split()[0]) < 60
    assert "sortCommand" in shown and "user:1" in shown and "PONG" in shown
