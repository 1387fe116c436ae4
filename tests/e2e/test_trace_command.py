"""dyntrace trace -c: commands traced from their first instruction."""
import os
import re
import subprocess
import time

import pytest

from harness import Trace, counts, summary_rows

VARIANTS = ["hello", "hello_nopie", "hello_static", "hello_static_pie", "hello_musl", "hello_musl_static"]


def run_plain(*command):
    return subprocess.run(command, capture_output=True, text=True)


def test_stripped_ls(dyntrace):
    """main of Debian's ls, which has no symbols, is found from the entry point; ls notices nothing."""
    expected = run_plain("ls", "-l", "/etc/apt")
    result, trace = dyntrace.trace("-c", "ls -l /etc/apt", "--function", "main")
    assert result.stdout == expected.stdout
    assert trace.names() == {"main_entry": 1}
    assert trace.events[0].fields["arg0"] == 3  # argc
    assert trace.lost == 0


def test_rest_of_line_is_the_command(dyntrace):
    result, trace = dyntrace.trace("--function", "main", "--", "ls", "-d", "/tmp with spaces", status=2)
    assert "/tmp with spaces" in result.stderr
    assert trace.names() == {"main_entry": 1}


def test_exit_status_is_passed_on(dyntrace, program_path):
    dyntrace.trace("--function", "main", "--", program_path("hello"), "--status", "7", status=7)


def test_death_by_signal_is_passed_on(dyntrace):
    _, trace = dyntrace.trace("--function", "main", "--", "sh", "-c", "kill -SEGV $$", status=128 + 11)
    assert trace.names() == {"main_entry": 1}


@pytest.mark.parametrize("variant", VARIANTS)
def test_kinds_of_executable(dyntrace, program_path, variant):
    result, trace = dyntrace.trace("--function", "main", "--function", "foo", "--probe", "foo_many",
                                   "--", program_path(variant), "--calls", "1000")
    assert result.stdout == "hello\n"
    assert trace.names() == {"main_entry": 1, "foo_entry": 1000, "foo_many": 1}
    calls = trace.named("foo_entry")
    assert [event.fields for event in calls] == [
        {"number": i, "factor": 1000 * i, "text": "dyntrace"} for i in range(1000)]
    assert all(a.ns <= b.ns for a, b in zip(calls, calls[1:]))


@pytest.mark.parametrize("variant", VARIANTS)
def test_kinds_of_executable_stripped(dyntrace, program_path, variant, scratch):
    stripped = os.path.join(scratch, variant)
    subprocess.run(["strip", "-o", stripped, program_path(variant)], check=True)
    result, trace = dyntrace.trace("--function", "main", "--", stripped, "--calls", "1")
    assert result.stdout == "hello\n"
    assert trace.names() == {"main_entry": 1}
    assert trace.events[0].fields["arg0"] == 3


def test_threads(dyntrace, program_path):
    result, trace = dyntrace.trace("--function", "foo", "--", program_path("spin"), "--threads", "4", "--calls", "5000",
                                   "--rounds", "1")
    assert trace.per_tid("foo_entry") == dict(counts(result.stdout))
    assert trace.lost == 0


def test_forked_children_are_traced(dyntrace, program_path):
    result, trace = dyntrace.trace("--function", "foo", "--", program_path("forker"), "--children", "3", "--calls", "500")
    assert trace.per_tid("foo_entry") == dict(counts(result.stdout))
    assert {event.pid for event in trace.events} == {pid for pid, _ in counts(result.stdout)}


def test_forked_children_are_left_alone_on_demand(dyntrace, program_path):
    result, trace = dyntrace.trace("--no-follow-fork", "--function", "foo", "--", program_path("forker"),
                                   "--children", "3", "--calls", "500")
    parent = counts(result.stdout)[0]
    assert trace.per_tid("foo_entry") == dict([parent])


def test_script_means_its_interpreter(dyntrace, scratch):
    script = os.path.join(scratch, "script")
    with open(script, "w") as file:
        file.write("#!/bin/sh\necho from a script $1\nexit 5\n")
    os.chmod(script, 0o755)
    result, trace = dyntrace.trace("--function", "main", "--", script, "argument", status=5)
    assert result.stdout == "from a script argument\n"
    assert trace.names() == {"main_entry": 1}
    assert trace.events[0].fields["arg0"] == 3  # sh SCRIPT argument


def test_probe_inside_a_function(dyntrace, program_path):
    """Each instruction of foo that objdump shows can be named; a refusal gives the reason, on one line."""
    path = program_path("hello")
    listing = run_plain("objdump", "-d", "--no-show-raw-insn", "--disassemble=foo", path).stdout
    addresses = [int(match, 16) for match in re.findall(r"^\s+([0-9a-f]+):", listing, re.M)]
    offsets = [address - addresses[0] for address in addresses]
    placed = 0
    for offset in offsets[1:]:
        location = f"foo+{offset:#x}"
        result = dyntrace("trace", "-o", dyntrace.new_output(), "--probe", location, "--", path, "--calls", "10",
                          status=None)
        if result.returncode == 0:
            assert result.stdout == "hello\n"
            placed += 1
        else:
            assert result.stderr.startswith(f"dyntrace: cannot probe '{location}': ")
            assert result.stderr.count("\n") == 1
    assert placed >= 2


def test_probe_between_instructions(dyntrace, program_path):
    path = program_path("hello")
    listing = run_plain("objdump", "-d", "--no-show-raw-insn", "--disassemble=main", path).stdout
    starts = [int(match, 16) for match in re.findall(r"^\s+([0-9a-f]+):", listing, re.M)]
    starts = [start - starts[0] for start in starts]
    before, after = next((a, b) for a, b in zip(starts, starts[1:]) if b - a > 1)
    message = dyntrace.fails("trace", "--probe", f"main+{before + 1}", "--", path, status=125)
    assert message == (f"cannot probe 'main+{before + 1:#x}': not the start of an instruction "
                       f"(the nearest are {'main' if not before else f'main+{before:#x}'} and main+{after:#x})")


def test_neighbours_share_a_site(dyntrace, program_path):
    """Probes on neighbouring instructions, closer than a jump is long, and twice at the same place."""
    path = program_path("hello")
    listing = run_plain("objdump", "-d", "--no-show-raw-insn", "--disassemble=main", path).stdout
    starts = [int(match, 16) for match in re.findall(r"^\s+([0-9a-f]+):", listing, re.M)]
    second = starts[1] - starts[0]
    assert second < 5
    _, trace = dyntrace.trace("--function", "main", "--probe", "main", "--probe", f"main+{second}", "--", path)
    assert trace.names() == {"main_entry": 1, "main-2": 1, f"main+{second:#x}": 1}
    assert [event.name for event in trace.events][-1] == f"main+{second:#x}"


def test_numbers_in_all_bases(dyntrace, program_path):
    path = program_path("hello_nopie")
    address = next(int(line.split()[0], 16) for line in run_plain("nm", path).stdout.splitlines()
                   if line.endswith(" T foo"))
    for text in (f"{address:#x}", str(address), f"0{address:o}"):
        _, trace = dyntrace.trace("--probe", text, "--", path, "--calls", "4")
        assert trace.names() == {f"{address:#x}": 4} or trace.names() == {"foo": 4}


def test_glob(dyntrace, program_path):
    _, trace = dyntrace.trace("--function", "foo*", "--", program_path("hello"), "--calls", "9")
    assert trace.names() == {"foo_entry": 9, "foo_many_entry": 1}


def test_function_of_a_library(dyntrace, program_path):
    _, trace = dyntrace.trace("--function", "puts@libc.so.6", "--function", "main", "--", program_path("hello"))
    assert trace.names() == {"puts_entry": 1, "main_entry": 1}


def test_library_function_is_found_without_its_module(dyntrace, program_path):
    _, trace = dyntrace.trace("--function", "puts", "--", program_path("hello"))
    assert trace.names() == {"puts_entry": 1}


def test_pipes_need_a_shell(dyntrace):
    message = dyntrace.fails("trace", "-c", "ls | cat", "--function", "main", status=2)
    assert "sh -c" in message


def test_traces_of_two_hosts_are_read_together_in_order(dyntrace, program_path):
    """Each on its own machine's clock; babeltrace2 merges them by time and names the hosts."""
    paths = [dyntrace.new_output() for _ in range(3)]
    for host, path in zip(("first", "second", "first"), paths):
        subprocess.run(["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', host, dyntrace.path, "trace", "-q", "-o", path,
                        "--function", "foo", "--", program_path("spin"), "--calls", "5"], check=True, stdin=subprocess.DEVNULL)
    text = subprocess.run(["babeltrace2", "--clock-seconds", *reversed(paths)], check=True, capture_output=True, text=True).stdout
    lines = [re.match(r"\[([0-9.]+)\] \(\S+\) (\w+):", line).groups() for line in text.splitlines()]
    assert lines == sorted(lines, key=lambda line: float(line[0]))
    assert [host for _, host in lines] == 5 * ["first"] + 5 * ["second"] + 5 * ["first"]


def test_environment_of_the_trace(dyntrace, program_path):
    path = program_path("hello")
    _, trace = dyntrace.trace("--function", "main", "--", path, "--calls", "2")
    assert trace.env["hostname"] == os.uname().nodename
    with open("/proc/sys/kernel/random/boot_id") as file:
        assert trace.env["boot_id"] == file.read().rstrip("\n")
    # from an event's time to CLOCK_MONOTONIC, as journald has it; the wall clock may be slewed meanwhile
    before, wall, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
    assert wall - after - 50_000_000 < int(trace.env["monotonic_offset"]) < wall - before + 50_000_000
    assert trace.env["procname"] == "hello"
    assert trace.env["tracer_name"] == "dyntrace"
    assert path in " ".join(str(value) for value in trace.env.values())
    assert any(f"{path} --calls 2" in str(value) for value in trace.env.values())


def test_wall_clock(dyntrace, program_path):
    import time
    before = time.time_ns()
    _, trace = dyntrace.trace("--function", "main", "--", program_path("hello"))
    assert before - 1_000_000 <= trace.events[0].ns <= time.time_ns() + 1_000_000


def test_summary(dyntrace, program_path):
    output = dyntrace.new_output()
    result, _ = dyntrace.trace("--function", "foo", "--function", "main", "--", program_path("hello"), "--calls", "30",
                               output=output)
    assert summary_rows(result.stderr) == {"foo": {"hits": "30", "lost": "0"}, "main": {"hits": "1", "lost": "0"}}
    assert result.stderr.endswith(f"; trace: {output}\nlook at it: dyntrace report {output}\n")


def test_default_directory(dyntrace, program_path, scratch):
    dyntrace("trace", "--function", "main", "--", program_path("hello"))
    made = [name for name in os.listdir(scratch) if re.fullmatch(r"hello-\d{8}-\d{6}\.dyntrace", name)]
    assert len(made) == 1
    assert Trace(os.path.join(scratch, made[0])).names() == {"main_entry": 1}


def test_default_directories_of_one_second(dyntrace, program_path, scratch):
    """The next trace of a second has a number."""
    import time
    now = int(time.time())
    taken = [time.strftime("hello-%Y%m%d-%H%M%S", time.localtime(now + i)) for i in range(30)]
    for name in taken:
        os.mkdir(os.path.join(scratch, name + ".dyntrace"))
    for number in (2, 3):
        said = dyntrace("trace", "--function", "main", "--", program_path("hello")).stderr
        made = re.search(r"trace: \./(hello-\d{8}-\d{6})-%d\.dyntrace$" % number, said, re.M)
        assert made and made[1] in taken, said
        if number == 2:  # the same second, as far as the name goes
            for name in taken:
                os.makedirs(os.path.join(scratch, name + "-2.dyntrace"), exist_ok=True)
    assert Trace(os.path.join(scratch, made[0].removeprefix("trace: "))).names() == {"main_entry": 1}


# ---- errors ------------------------------------------------------------------------------------------

def test_no_such_command(dyntrace, scratch):
    message = dyntrace.fails("trace", "--function", "main", "--", "no-such-command", status=127)
    assert "no-such-command" in message
    assert os.listdir(scratch) == []


def test_command_not_executable(dyntrace, scratch):
    path = os.path.join(scratch, "data")
    open(path, "w").close()
    assert path in dyntrace.fails("trace", "--function", "main", "--", path, status=126)


def test_near_names(dyntrace, program_path):
    message = dyntrace.fails("trace", "--function", "foo_mny", "--", program_path("hello"), status=125)
    assert "foo_many" in message


def test_not_a_function(dyntrace, program_path):
    message = dyntrace.fails("trace", "--function", "stdout", "--", program_path("hello"), status=125)
    assert "not a function" in message


def test_nothing_starts_when_a_name_is_wrong(dyntrace, scratch):
    marker = os.path.join(scratch, "marker")
    dyntrace.fails("trace", "--function", "nonsense", "--", "touch", marker, status=125)
    assert not os.path.exists(marker)


def test_existing_directory(dyntrace, program_path, scratch):
    path = os.path.join(scratch, "there")
    os.mkdir(path)
    message = dyntrace.fails("trace", "-o", path, "--function", "main", "--", program_path("hello"), status=125)
    assert path in message and "exists" in message


def test_unwritable_directory(dyntrace, program_path):
    message = dyntrace.fails("trace", "-o", "/proc/nowhere/trace", "--function", "main", "--",
                             program_path("hello"), status=125)
    assert "/proc/nowhere" in message


@pytest.mark.parametrize("words, part", [
    (["--function", "main"], "no target"),
    (["-c", "ls"], "nothing to record"),
    (["-c", "ls", "-p", "1", "--function", "main"], "more than one target"),
    (["-c", "ls", "--function", "main", "--buffer-size", "1K"], "--buffer-size"),
    (["-c", "ls", "--function", "main+"], "main+"),
    (["--function", "main", "--"], "no command"),
])
def test_usage(dyntrace, words, part):
    assert part in dyntrace.fails("trace", *words, status=2)


def test_no_call_passes_a_filter(dyntrace, program_path):
    """Told apart from a function that nobody calls."""
    words = ["--", program_path("hello")]
    for options, told in ((["--filter", "arg0 == 12345"], "--filter"), (["-e", "--min-duration", "1000s"], "--min-duration"),
                          (["-e", "--min-duration", "1000s", "--filter", "arg0 != 12345"], "--filter and --min-duration"),
                          (["--tracer", "count", "--filter", "arg0 == 12345"], "--filter")):
        where = [] if "count" in options else ["-o", dyntrace.new_output()]
        errors = dyntrace("trace", *where, "--function", "main", *options, *words, status=None).stderr
        assert errors.splitlines()[0] == f"(no calls passed {told})", errors


def test_one_of_each(dyntrace, scratch):
    """Words behind a 1 are singular."""
    output, path = dyntrace.new_output(), os.path.join(scratch, "one.svg")
    dyntrace("trace", "-e", "--function", "main", "-o", output, "--", "true")
    dyntrace("export", output, "--flamegraph", path)
    with open(path) as file:
        assert " of 1 call on 1 thread" in file.read()


def test_assignments_in_filters(dyntrace):
    first, *_ = dyntrace("trace", "--function", "main", "--filter", "arg0 = 3", "--", "true", status=2).stderr.splitlines()
    assert first == "dyntrace: trace: main: --filter: nothing is assigned here (== compares)"


def test_a_command_that_cannot_be_loaded(dyntrace, scratch):
    """What its loader says is followed by one line, and the exit status is the loader's."""
    for name, text in (("gone.c", "int gone(void) { return 1; }"), ("needs.c", "int gone(void); int main(void) { return gone(); }")):
        with open(os.path.join(scratch, name), "w") as file:
            file.write(text)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", "libgone.so", "gone.c"], check=True, cwd=scratch)
    subprocess.run(["gcc", "-o", "needs", "needs.c", "-L.", "-lgone"], check=True, cwd=scratch)
    os.remove(os.path.join(scratch, "libgone.so"))
    for words in (["--function", "main"], ["-e", "--function", "main"], ["--function", "malloc@libc.so.6"],
                  ["--tracer", "count", "--function", "*"]):
        result = dyntrace("trace", *words, "--", "./needs", status=127)
        assert re.fullmatch(r"\./needs: error while loading shared libraries: libgone\.so: .*\n"
                            r"dyntrace: the command ended with exit status 127 before it could be traced\n", result.stderr), result.stderr


def test_interpreter_missing(dyntrace, scratch):
    path = os.path.join(scratch, "script")
    with open(path, "w") as file:
        file.write("#!/nonexistent/interpreter\n")
    os.chmod(path, 0o755)
    assert dyntrace.fails("trace", "--function", "main", "--", path, status=127) == \
        f"{path}: its interpreter does not exist (the program behind #! in its first line, or its dynamic loader)"
