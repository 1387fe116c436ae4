"""Programs that change what root's dyntrace reads of them: files replaced by pipes, devices, huge or other files, names with
newlines, a file system of their own. Root's command traces them or says why not; it never hangs, and opens nothing else."""
import os
import shutil
import signal
import subprocess

import pytest
from harness import descriptors, until

CODE = """
#include <stdio.h>
#include <unistd.h>
__attribute__((noinline)) int foo(int x) { __asm__ volatile("" ::: "memory"); return x + 1; }
int main(void) { puts("ready"); fflush(stdout); for (;;) { foo(1); usleep(500); } }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "code.c").write_text(CODE)
    subprocess.run(["gcc", "-g", "-O1", "-o", folder / "program", folder / "code.c"], check=True)
    return str(folder / "program")


def begin(processes, words):
    process = processes.start(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def trace(dyntrace, pid, *words):
    """Until the first event."""
    tracing = dyntrace.processes.start(
        [dyntrace.path, "trace", "-p", str(pid), "--function", "foo", "--print", "-o", dyntrace.new_output(), *words],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if tracing.stdout.readline():
        tracing.send_signal(signal.SIGINT)
    output, errors = tracing.communicate(timeout=120)
    result = subprocess.CompletedProcess(tracing.args, tracing.returncode, output, errors)
    assert "\x1b" not in result.stderr and "  foo\n" in result.stderr, result.stderr
    return result


def become_pipe(path):
    os.mkfifo(path)


def become_huge(path):
    with open(path, "wb") as file:
        file.truncate(500 << 30)


def become_device(path):
    os.symlink("/dev/zero", path)


def become_another(path):
    shutil.copy("/bin/ls", path)


def become_damaged(path):
    with open("/bin/ls", "rb") as source, open(path, "wb") as file:
        file.write(source.read(5000))


def become_folder(path):
    os.mkdir(path)


@pytest.mark.parametrize("replace", [become_pipe, become_huge, become_device, become_another, become_damaged, become_folder, lambda path: None])
def test_a_program_whose_file_is_replaced(dyntrace, processes, scratch, program, replace):
    """What runs is read, not what lies at its path."""
    path = os.path.join(scratch, "run\nme")  # a newline in /proc/PID/maps, too
    shutil.copy(program, path)
    one = begin(processes, [path])
    os.unlink(path)
    replace(path)
    result = trace(dyntrace, one.pid)
    assert result.returncode == 0 and "1 tracepoint placed" in result.stderr, result.stderr
    assert r"run\nme" in result.stderr
    one.kill()


@pytest.mark.parametrize("what", ["pipe", "link", "huge"])
def test_debug_files_of_another_file_system(dyntrace, processes, scratch, program, what):
    """A program in a mount namespace of its own lays debug files where root's dyntrace looks for them."""
    stripped, debug = os.path.join(scratch, "stripped"), os.path.join(scratch, "debug")
    shutil.copy(program, stripped)
    number = subprocess.run(["readelf", "-n", stripped], capture_output=True, text=True, check=True).stdout
    identity = number.split("Build ID: ")[1].split()[0]
    subprocess.run(["strip", "-g", stripped], check=True)
    secret = os.path.join(scratch, "secret")
    os.mkfifo(secret)  # whoever opens it waits
    place = f"{debug}/.build-id/{identity[:2]}"
    os.makedirs(place)
    path = f"{place}/{identity[2:]}.debug"
    {"pipe": lambda: os.mkfifo(path), "link": lambda: os.symlink(secret, path), "huge": lambda: become_huge(path)}[what]()
    words = f"mkdir -p /usr/lib/debug && mount --bind {debug} /usr/lib/debug && exec {stripped}"
    one = begin(processes, ["unshare", "-m", "sh", "-c", words])
    result = trace(dyntrace, one.pid)
    assert result.returncode == 0 and "1 tracepoint placed" in result.stderr, result.stderr
    one.kill()


LIBRARY = "libLLVM-14.so.1"


def test_a_library_that_shrinks_while_it_is_read(dyntrace, processes, scratch):
    """A mapped file that gets shorter is a SIGBUS for whoever maps it: dyntrace reads it instead."""
    path = os.path.join(scratch, LIBRARY)
    shutil.copy(f"/usr/lib/x86_64-linux-gnu/{LIBRARY}", path)
    code = f"import mmap, os, time\nfd = os.open({path!r}, os.O_RDONLY)\n" \
        "m = mmap.mmap(fd, 0, prot=mmap.PROT_READ | mmap.PROT_EXEC, flags=mmap.MAP_PRIVATE)\nprint('ready', flush=True)\ntime.sleep(1000)"
    one = begin(processes, ["/usr/bin/python3", "-c", code])
    process = processes.start([dyntrace.path, "trace", "-p", str(one.pid), "--function", f"_ZN4llvm*@{LIBRARY}", "--for", "0.01",
                               "-o", dyntrace.new_output()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def reads():
        try:
            return any(path in link for link in descriptors(process.pid).values())
        except OSError:
            return process.poll() is not None
    until(reads, "dyntrace to read the library")
    os.truncate(path, 8192)
    errors = process.communicate(timeout=120)[1]
    assert process.returncode in (0, 1, 125), (process.returncode, errors)
    assert one.poll() is None
    one.kill()
