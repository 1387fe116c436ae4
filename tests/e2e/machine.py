"""Machines that are booted from this one's files: an overlay of /, in memory, under a real systemd, by systemd-nspawn. A script
acts in the machine and writes what it found to /result/facts, as JSON."""
import contextlib
import json
import os
import subprocess

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
ExecStart=/usr/bin/python3 /source/tests/{script}
"""


@contextlib.contextmanager
def mounted(what, folder, *options):
    subprocess.run(["mount", "-t", what, *options, what, folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def boot(root, binds, seconds):
    """Boots the machine and waits for the end of the guest's script. nspawn's filter of system calls is off: only
    a dyntrace without one reads filters. Its network is its own, because redis takes its usual port."""
    command = ["systemd-nspawn", "--quiet", "--directory", root, "--boot", "--register=no", "--keep-unit", "--link-journal=no",
               "--machine=dyntrace-test", "--private-network", f"--bind-ro={ROOT}:/source", *binds, "systemd.unit=dyntrace-test.target"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds,
                          env={**os.environ, "SYSTEMD_SECCOMP": "0"})
    return done.stdout + done.stderr


def facts_of(base, prepare, script, binds, seconds=100):
    """What the script (below tests/) found in a machine of its own; `prepare` is called with the machine's root first."""
    root, memory, result = (os.path.join(base, name) for name in ("root", "memory", "result"))
    for path in (root, memory, result):
        os.mkdir(path)
    with mounted("tmpfs", memory):
        for name in ("upper", "work"):
            os.mkdir(os.path.join(memory, name))
        with mounted("overlay", root, "-o", f"lowerdir=/,upperdir={memory}/upper,workdir={memory}/work"):
            prepare(root)
            for name, text in (("target", TARGET), ("service", SERVICE.format(script=script))):
                with open(os.path.join(root, "etc", "systemd", "system", f"dyntrace-test.{name}"), "w") as file:
                    file.write(text)
            said = boot(root, [*binds, f"--bind={result}:/result"], seconds)
    with open(os.path.join(result, "facts")) as file:
        found = json.load(file)
    assert "failed" not in found, found["failed"] + said[-2000:]
    return found
