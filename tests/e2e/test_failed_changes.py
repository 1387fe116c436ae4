"""Changes that fail half way (H31, H32): what is in the text is in a list, and the next change works."""
import subprocess

from harness import Snapshot


def text_of(pid, path, symbol, size=8):
    """The bytes of a function in the process, and in its file."""
    symbols = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    offset = next(int(line.split()[0], 16) for line in symbols.splitlines() if line.endswith(f" T {symbol}"))
    with open(f"/proc/{pid}/maps") as maps:
        base = int(next(line for line in maps if line.rstrip().endswith(path)).split("-")[0], 16)
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(base + offset)
        return memory.read(size)


def test_failed_removal_is_tried_again_by_the_next_change(daemon, program, program_path):
    """A thread in vfork can't be held: `rm` fails, and says so. The jump stays in the text until a later change has removed it."""
    path = program_path("standstill")
    one = program("standstill", "--rounds", 3).wait_ready()
    before = {name: text_of(one.pid, path, name) for name in ("foo", "bar")}
    daemon.add(f"{one.pid}:foo", "count")
    daemon.add(f"{one.pid}:bar", "count")
    one.go().wait_ready()  # in vfork
    error = daemon.fails("rm", f"{one.pid}:foo")
    assert error.startswith(f"process {one.pid} can't be stopped: its thread {one.pid} (standstill) is in uninterruptible sleep"), error
    assert text_of(one.pid, path, "foo") != before["foo"]
    one.go().wait_ready()  # out of it
    daemon("rm", f"{one.pid}:foo")
    assert text_of(one.pid, path, "foo") == before["foo"]
    assert daemon.hits(one.pid) == {"bar": 200}
    for _ in range(60):  # memory of what was removed is used again
        daemon.add(f"{one.pid}:foo", "-n", "again", "count")
        daemon("rm", f"{one.pid}:again")
    one.go().wait_ready()
    one.go().wait_ready()
    assert daemon.hits(one.pid) == {"bar": 400}
    daemon("detach", one.pid)
    assert {name: text_of(one.pid, path, name) for name in ("foo", "bar")} == before
    assert one.finish() == "600 600\n"


def test_failed_removal_doesn_t_stand_in_the_way_of_detach(daemon, program, program_path):
    one = program("standstill", "--rounds", 1).wait_ready()
    daemon.targets.add(str(one.pid))
    before = Snapshot(one.pid)
    daemon.add(f"{one.pid}:foo", "-e")
    one.go().wait_ready()
    daemon.fails("rm", f"{one.pid}:foo")
    one.go().wait_ready()
    daemon("detach", one.pid)
    before.assert_unchanged()
    assert one.finish() == "200 200\n"
