"""The requirements of the founding documents: one test per row, named by the row's id.

Rows that describe a mechanism are tested by its outcome. A program (tests/programs/acceptance.c) runs a few rounds under
this file's own daemon, while tracepoints are added and removed with the documents' commands; most rows are questions
about the recorded events.
"""
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import types

import bt2
import daemon_harness
import harness
import pytest
from harness import Program, Snapshot, Trace, until
from lttng import Lttng

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOO, STUFF, INTERESTING, SCALE, OUTER, INNER = 10, 5, 4, 3, 8, 8  # calls per round


# ---- the world -----------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def place():
    path = tempfile.mkdtemp(prefix="dyntrace-test-", dir=harness.memory())
    os.chmod(path, 0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def group():
    one = harness.Processes()
    yield one
    one.close()


@pytest.fixture(scope="module")
def daemon(build, group, place):
    one = daemon_harness.Daemon(build, group, place).start()
    yield one
    one.close()


@pytest.fixture(scope="module")
def tool(build, group, place):
    return harness.Dyntrace(build, group, place)


@pytest.fixture(scope="module")
def start(build, group, place):
    """Starts the program, or a copy of it by another name."""
    made = []

    def begin(name=None, rounds=20):
        path = os.path.join(build, "tests", "programs", "acceptance")
        if name:
            path = shutil.copy(path, os.path.join(place, name))
        one = Program(group, path, ["--rounds", rounds]).wait_ready()
        one.round = lambda: (one.go(), one.wait_ready())
        made.append(one)
        return one
    yield begin
    for one in made:
        one.close()


def symbol(tool, pid, name):
    found = json.loads(tool("list-symbols", "--json", pid, name).stdout)
    return next(one["address"] for one in found if one["module"] == "acceptance")


def offsets(path, name):
    """Where a function's instructions begin, by objdump."""
    text = subprocess.check_output(["objdump", "-d", "--no-show-raw-insn", f"--disassemble={name}", path], text=True)
    addresses = [int(match, 16) for match in re.findall(r"^\s+([0-9a-f]+):", text, re.M)]
    return [address - addresses[0] for address in addresses]


@pytest.fixture(scope="module")
def world(build, daemon, tool, start, place):
    """One program's life, as in the documents. The fields hold its results."""
    w = types.SimpleNamespace(printed={})
    one = w.program = start()
    w.before = Snapshot(one.pid)
    w.address = symbol(tool, one.pid, "foo")
    w.offset = offsets(os.path.join(build, "tests", "programs", "acceptance"), "do_stuff")[1]
    daemon.targets.add(str(one.pid))

    def event(name, *words):
        daemon("enable-event", name, "-u", "--pid", one.pid, *words)
    event("by_hex", "--probe", hex(w.address))
    event("by_dec", "--probe", w.address)
    event("by_oct", "--probe", f"0{w.address:o}")
    event("by_symbol", "--probe", "do_stuff")
    event("off_hex", "--probe", f"do_stuff+{w.offset:#x}")
    event("off_dec", "--probe", f"do_stuff+{w.offset}")
    event("off_oct", "--probe", f"do_stuff+0{w.offset:o}")
    event("function", "--function", "interestingFunction", "-e")
    event("function_at", "--function", hex(symbol(tool, one.pid, "scale")))
    event("function_plus", "--function", "inner+0x0")
    for type_ in ("regs", "int:number:counter", "string:words:message", "backtrace"):
        daemon("add-context", "-u", "-e", "by_symbol", "--pid", one.pid, "-t", type_)
    daemon("add-context", "-u", "-e", "by_hex", "--pid", one.pid, "-t", "reg:rdi")
    w.printed["outer"] = daemon("add", f"{one.pid}:outer", "-e", "ctf").stdout
    w.printed["named"] = daemon("add", f"{one.pid}:foo", "-n", "mine", "ctf").stdout
    w.printed["again"] = daemon("add", f"{one.pid}:outer", "count").stdout
    w.listed = daemon.json("list-tracepoints", one.pid)
    w.listed_text = daemon("list-tracepoints", one.pid).stdout
    w.listed_all = daemon("list-tracepoints", "-a", one.pid).stdout
    w.processes = daemon.json("list-processes")
    one.round()
    daemon("disable-event", "by_symbol", "-u", "--pid", one.pid)
    daemon("rm", f"{one.pid}:mine")
    one.round()
    daemon("stop", one.pid)
    one.round()
    daemon("start", one.pid)
    daemon("flush", one.pid)
    w.path = daemon.trace_of(one.pid)
    w.flushed = Trace(w.path)
    w.hits = daemon.hits(one.pid)
    daemon("detach", one.pid)
    w.before.assert_unchanged()
    w.trace = Trace(w.path)
    w.names = w.trace.names()
    one.round()
    w.second_name = daemon("add", f"{one.pid}:foo").stdout.strip()  # attached again
    w.second_path = daemon.trace_of(one.pid)
    one.round()
    daemon("detach", one.pid)
    w.before.assert_unchanged()
    w.second = Trace(w.second_path)
    return w


@pytest.fixture(scope="module")
def launched(tool, build):
    program = os.path.join(build, "tests", "programs", "acceptance")
    return tool.trace("-c", f"{program} --rounds 1", "--probe", "main", "--function", "foo")


# ---- A: the RFC -----------------------------------------------------------------------------------------

def test_A01_words_of_the_lttng_kernel_probe_interface(daemon, start):
    """As lttng has them: made, switched off, switched on again."""
    one = start()
    daemon.targets.add(str(one.pid))
    daemon("enable-event", "event", "-u", "--pid", one.pid, "--probe", "foo")
    one.round()
    daemon("disable-event", "event", "-u", "--pid", one.pid)
    one.round()
    daemon("enable-event", "event", "-u", "--pid", one.pid)
    one.round()
    assert daemon.hits(one.pid) == {"event": 2 * FOO}
    daemon("detach", one.pid)


def test_A02_a_probe_in_a_running_process_by_pid(world):
    assert world.names["by_hex"] == 2 * FOO


def test_A03_enable_event_with_address_symbol_and_offset(world):
    assert (world.names["by_hex"], world.names["by_symbol"], world.names["off_hex"]) == (2 * FOO, STUFF, 2 * STUFF)


def test_A04_the_user_names_the_event(world):
    assert {"by_hex", "by_symbol", "off_hex"} <= set(world.names)


def test_A05_u_is_user_space(daemon, start):
    one = start()
    for number, option in enumerate(("-u", "--userspace")):
        daemon("enable-event", f"event{number}", option, "--pid", one.pid, "--probe", "foo")
    assert list(daemon.hits(one.pid)) == ["event0", "event1"]
    assert "unknown option" in daemon("enable-event", "other", "-k", "--pid", one.pid, "--probe", "foo", status=2).stderr
    daemon("detach", one.pid)


def test_A06_a_probe_at_an_absolute_address(world):
    listed = next(one for one in world.listed if one["name"] == "by_hex")
    assert listed["address"] == world.address and world.names["by_hex"] == 2 * FOO


def test_A07_a_probe_at_a_symbol(world):
    assert world.names["by_symbol"] == STUFF


def test_A08_a_probe_in_the_middle_of_a_function(world):
    assert world.offset > 0 and world.names["off_hex"] == 2 * STUFF


def test_A09_octal_decimal_and_hexadecimal(world):
    assert world.names["by_hex"] == world.names["by_dec"] == world.names["by_oct"] == 2 * FOO
    assert world.names["off_hex"] == world.names["off_dec"] == world.names["off_oct"] == 2 * STUFF


def test_A10_probe_is_bare(world):
    assert all(event.fields == {} for event in world.trace.named("off_hex"))


def test_A11_enable_event_function(world):
    assert world.names["function_entry"] == 2 * INTERESTING


def test_A12_function_takes_the_same_forms_and_bases(world):
    assert world.names["function_at_entry"] == 2 * SCALE and world.names["function_plus_entry"] == 2 * INNER


def test_A13_function_is_at_its_entry(world, tool):
    listed = next(one for one in world.listed if one["name"] == "function")
    assert listed["address"] == symbol(tool, world.program.pid, "interestingFunction")


def test_A14_start_a_program_under_trace(launched):
    assert launched[1].names()["foo_entry"] == FOO


def test_A15_trace_c_command_with_probe_and_function(launched):
    assert launched[1].names() == {"main": 1, "foo_entry": FOO}


def test_A16_c_takes_a_whole_command_line(tool):
    result, _ = tool.trace("-c", "ls -l --directory '/usr/bin'", "--probe", "main")
    assert re.match(r"[dl]\S+ .* /usr/bin", result.stdout)


def test_A17_probes_exist_before_main_runs(launched):
    assert launched[1].events[0].name == "main" and len(launched[1].named("main")) == 1


def test_A18_motivation_is_written():
    text = open(os.path.join(ROOT, "README.md")).read()
    assert len(text.split()) > 200


def test_A19_a_public_interface(build, daemon, start, scratch):
    """The example in the documentation, against a daemon and without one. The rest is in test_api.py."""
    source = os.path.join(ROOT, "docs", "examples", "hits.c")
    program = os.path.join(scratch, "hits")
    subprocess.run(["gcc", f"-I{ROOT}/include", source, f"-L{build}", "-ldyntrace", f"-Wl,-rpath,{build}", "-o", program],
                   check=True)
    result = subprocess.run([program, "1", "main"], env={**os.environ, "DYNTRACE_SOCKET": "/nonexistent"},
                            capture_output=True, text=True)
    assert result.returncode and "no daemon answers at /nonexistent" in result.stderr
    one = start()
    daemon.targets.add(str(one.pid))
    with subprocess.Popen([program, str(one.pid), "foo", "outer"], env={**os.environ, "DYNTRACE_SOCKET": daemon.socket},
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as example:
        until(lambda: [each for each in daemon.json("list-processes") if each["pid"] == one.pid and each["tracepoints"] == 2],
              "its tracepoints")
        one.round()
        said = example.communicate("\n")[0]
    assert re.fullmatch(
        rf"counting; Enter ends it\nfoo: {FOO} hits, {FOO} returned, median \d+ ns\nouter: {OUTER} hits, {OUTER} returned, median \d+ ns\n", said)
    assert one.pid not in [each["pid"] for each in daemon.json("list-processes")]


def test_A20_implementation_is_written():
    text = open(os.path.join(ROOT, "docs", "architecture.md")).read()
    assert "## The life of a probe" in text and "## The life of an event" in text


# ---- B: user-space tracing design -------------------------------------------------------------------------

def test_B01_an_execution_trace(world):
    times = [event.ns for event in world.trace.events]
    assert len(times) > 100 and times == sorted(times)


@pytest.fixture(scope="module")
def marked(group, program_path):
    """A program with static markers."""
    one = Program(group, program_path("markers"), ["--calls", 3, "--rounds", 5]).wait_ready()
    yield one
    one.close()


@pytest.fixture(scope="module")
def program_path(build):
    return lambda name: os.path.join(build, "tests", "programs", name)


def test_B02_tracepoints_and_markers_with_arguments(tool, world, marked):
    assert world.trace.named("function_entry")[0].fields["a"] == 7
    markers = json.loads(tool("list-markers", "--json", marked.pid).stdout)
    assert {"numbers", "text", "guarded"} <= {one["name"] for one in markers if one["provider"] == "demo"}


def test_B03_connecting_and_activating_are_two_steps(daemon, start):
    one = start()
    daemon.add(f"{one.pid}:foo", "--disabled")
    one.round()
    assert daemon.hits(one.pid) == {"foo": 0}
    daemon("enable", f"{one.pid}:foo")
    one.round()
    assert daemon.hits(one.pid) == {"foo": FOO}
    daemon("detach", one.pid)


def test_B04_hits_become_events(world):
    assert world.names["by_hex"] == 2 * FOO


def test_B05_control_from_outside_while_it_runs(world):
    assert world.names["by_symbol"] == STUFF  # switched off after the first of two rounds


def test_B06_commands_take_effect_at_once(world):
    assert world.hits["by_symbol"] == STUFF


def test_B07_no_signal_of_the_program_is_taken(daemon, group, place):
    code = "import signal, time\nsignal.signal(signal.SIGIO, lambda *_: print('mine', flush=True))\n" \
        "print('ready', flush=True)\nwhile True: signal.pause()"
    one = group.start(["/usr/bin/python3", "-c", code], stdout=subprocess.PIPE, text=True)
    assert one.stdout.readline() == "ready\n"
    daemon.attach(one.pid)
    one.send_signal(signal.SIGIO)
    assert one.stdout.readline() == "mine\n"
    daemon("detach", one.pid)
    one.kill()


def test_B08_commands_reach_a_program_that_does_nothing(daemon, group):
    one = group.start(["sleep", "1000"])
    until(lambda: harness.in_call(one.pid, "clock_nanosleep"), "sleep")
    daemon.attach(one.pid)
    assert [each for each in daemon.json("list-processes") if each["pid"] == one.pid]
    daemon("detach", one.pid)
    one.kill()


def test_B09_list_markers_and_tracepoints(tool, world, marked):
    assert "numbers" in tool("list-markers", marked.pid).stdout
    assert {one["name"] for one in world.listed} >= {"by_hex", "function", "outer"}


def test_B10_load_a_library_of_probes(daemon, start):
    one = start()
    daemon("load", one.pid, "libm.so.6")


def test_B11_connect_a_probe_to_a_marker(daemon, marked):
    name = daemon.add(f"{marked.pid}:demo:numbers")
    marked.go().wait_ready()
    assert daemon.hits(marked.pid) == {name: 3}
    daemon("detach", marked.pid)


def test_B12_activate(world):
    assert world.names["function_entry"] == 2 * INTERESTING


def test_B13_buffers_are_made(daemon, start):
    """The program and the daemon share memory while the program is traced."""
    def pools(pid):
        return sum("/memfd:dyntrace-pool" in line for line in open(f"/proc/{pid}/maps"))
    one = start()
    assert pools(one.pid) == 0
    daemon.add(f"{one.pid}:foo")
    assert pools(one.pid) == 1 and pools(daemon.workers(one.pid)[0]) == 1
    daemon("detach", one.pid)
    assert pools(one.pid) == 0


def test_B14_flush(world):
    assert len(world.flushed.events) == len(world.trace.events)


def test_B15_finalize(world):
    assert subprocess.run(["babeltrace2", world.path], capture_output=True).returncode == 0


def test_B16_notification_buffer_full(build, group, place, program_path):
    folder = os.path.join(place, "full")
    os.mkdir(folder)
    other = daemon_harness.Daemon(build, group, folder, ["--buffer-size", "1M"]).start()
    try:
        one = Program(group, program_path("spin"), ["--calls", 3000000, "--rounds", 2]).wait_ready()
        watch = other.watch()
        other.add(f"{one.pid}:foo", "-f")
        os.kill(other.workers(one.pid)[0], signal.SIGSTOP)  # nobody empties it
        one.go().wait_ready()
        os.kill(other.workers(one.pid)[0], signal.SIGCONT)
        seen = watch.until("lost")
        assert [event["event"] for event in seen][-2:] == ["buffer-full", "lost"]
        assert re.fullmatch(r"\d+ events", seen[-1]["detail"])
        one.close()
    finally:
        other.close()


PLUGIN = """
import ctypes, sys, _ctypes
print('ready', flush=True)
for line in sys.stdin:
    library = ctypes.CDLL('libcrypt.so.1')
    print('loaded', flush=True)
    sys.stdin.readline()
    _ctypes.dlclose(library._handle)
    print('gone', flush=True)
"""


@pytest.fixture(scope="module")
def modules(daemon, group):
    """A python that loads and unloads a library; gives the watch's notifications."""
    one = group.start(["/usr/bin/python3", "-c", PLUGIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert one.stdout.readline() == "ready\n"
    watch = daemon.watch(str(one.pid))
    daemon.add(f"{one.pid}:crypt@libcrypt.so.1", "--wait", "-n", "late")
    waiting = daemon.json("list-tracepoints", one.pid)[0]["state"]
    one.stdin.write("\n")
    one.stdin.flush()
    loaded = watch.until("tracepoint-placed")
    assert one.stdout.readline() == "loaded\n"
    there = daemon.json("list-tracepoints", one.pid)[0]["state"]
    one.stdin.write("\n")
    one.stdin.flush()
    gone = watch.until("module-unloaded")
    assert one.stdout.readline() == "gone\n"
    again = daemon.json("list-tracepoints", one.pid)[0]["state"]
    daemon("detach", one.pid)
    one.kill()
    return types.SimpleNamespace(loaded=loaded, gone=gone, states=[waiting, there, again])


def test_B17_notification_that_tracepoints_appear_with_a_module(modules):
    names = [event["event"] for event in modules.loaded]
    assert "module-loaded" in names and names[-1] == "tracepoint-placed"
    assert modules.states[:2] == ["waiting", "enabled"]


def test_B18_notification_that_tracepoints_disappear_with_it(modules):
    assert [event["event"] for event in modules.gone] == ["tracepoint-gone", "module-unloaded"]
    details = {event["event"]: event["detail"] for event in modules.gone}
    assert details["tracepoint-gone"] == "late" and "libcrypt.so.1" in details["module-unloaded"]
    assert modules.states[2] == "waiting"


@pytest.fixture(scope="module")
def crashed(daemon, start):
    one = start()
    watch = daemon.watch(str(one.pid))
    daemon.add(f"{one.pid}:foo")
    path = daemon.trace_of(one.pid)
    one.round()
    one.process.send_signal(signal.SIGSEGV)
    return watch.until("exited"), path


def test_B19_notification_that_the_program_exits(crashed):
    assert crashed[0][-1]["event"] == "exited"


def test_B20_buffers_are_saved_when_it_crashes(crashed):
    assert Trace(crashed[1]).names() == {"foo": FOO}


def test_B21_the_notification_of_a_crash_comes_from_outside(crashed):
    assert crashed[0][-1]["detail"].startswith("killed by SIGSEGV")


def test_B22_hits_make_no_system_call(daemon, group, program_path, scratch):
    """strace counts while 100,000 hits are recorded: 16 per chunk at most, and the program's own two."""
    one = Program(group, program_path("spin"), ["--calls", 100000, "--rounds", 3]).wait_ready()
    daemon.add(f"{one.pid}:foo")
    one.go().wait_ready()
    counted = os.path.join(scratch, "calls")
    with harness.stracing(group, one.pid, counted):
        one.go().wait_ready()
    with open(counted) as file:
        calls = [line for line in file if "(" in line]
    assert 2 <= len(calls) <= 2 + 16 * (100000 * 8 // 65536 + 2), calls[-40:]
    until(lambda: harness.status(one.pid, "TracerPid") == "0", "strace to be gone")
    assert daemon.hits(one.pid) == {"foo": 200000}
    daemon("detach", one.pid)
    one.close()


def test_B23_probes_are_jumps_not_breakpoints(world):
    assert {one["placed"] for one in world.listed} <= {"jump", "short-jump", "pun"}


def test_B24_the_comparison_with_breakpoints_is_measured():
    assert "uprobe" in open(os.path.join(ROOT, "docs", "architecture.md")).read()


# ---- C: the RFC as posted -----------------------------------------------------------------------------------

def test_C01_the_same_words(tool):
    assert "enable-event" in tool("--help").stdout


def test_C02_enable_event_probe_on_a_running_process(world):
    assert world.names["by_symbol"] == STUFF


def test_C03_bases_of_probe(world):
    assert world.names["by_oct"] == world.names["by_dec"] == world.names["by_hex"]


def test_C04_probe_is_bare_by_offset_and_address(world):
    assert world.trace.named("by_dec")[0].fields == {} and world.trace.named("off_dec")[0].fields == {}


def test_C05_enable_event_function(world):
    assert world.names["function_entry"] == 2 * INTERESTING


def test_C06_bases_of_function(daemon, start, tool):
    one = start()
    address = symbol(tool, one.pid, "foo")
    for name, text in (("h", hex(address)), ("d", str(address)), ("o", f"0{address:o}")):
        daemon("enable-event", name, "-u", "--pid", one.pid, "--function", text)
    one.round()
    assert daemon.hits(one.pid) == {"h": FOO, "d": FOO, "o": FOO}
    daemon("detach", one.pid)


def test_C07_function_at_a_functions_name(world):
    assert "function_entry" in world.names


def test_C08_trace_c(launched):
    assert launched[0].returncode == 0 and launched[1].names()["main"] == 1


def test_C09_contexts_collect_data(world):
    assert world.trace.named("by_symbol")[0].fields


def test_C10_add_context_command(world):
    listed = next(one for one in world.listed if one["name"] == "by_symbol")
    assert listed["contexts"] == ["regs", "int:number:counter", "string:words:message", "backtrace"]


def test_C11_options_u_e_pid(tool):
    text = tool("help", "add-context").stdout
    assert "-u" in text and "-e, --event NAME" in text and "--pid PID" in text


def test_C12_option_t_type(tool):
    assert "-t, --type TYPE" in tool("help", "add-context").stdout


def test_C13_context_regs(world, tool):
    for event in world.trace.named("by_symbol"):
        text = json.dumps(event.fields)
        for register in ("rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r15", "rip"):
            assert f'"{register}"' in text, register
        found = event.fields["regs"] if "regs" in event.fields else event.fields
        assert found["rip"] == symbol(tool, world.program.pid, "do_stuff")
        assert found["rsp"] % 16 == 8  # at a function's first instruction


def test_C14_context_of_one_register(world):
    assert [event.fields["rdi"] for event in world.trace.named("by_hex")][:FOO] == list(range(FOO))


def test_C15_context_of_a_typed_variable_at_an_address(world):
    assert "number" in world.trace.named("by_symbol")[0].fields


def test_C16_variable_of_type_int(world):
    assert {event.fields["number"] for event in world.trace.named("by_symbol")} == {42}


def test_C17_variable_of_type_string(world):
    assert {event.fields["words"] for event in world.trace.named("by_symbol")} == {"hello"}


def test_C18_context_backtrace(world, tool):
    """From the probe's own address to main's caller."""
    listed = {one["name"]: one for one in json.loads(tool("list-symbols", "--json", world.program.pid).stdout)}

    def is_in(address, name):
        return listed[name]["address"] <= address < listed[name]["address"] + listed[name]["size"]
    for event in world.trace.named("by_symbol"):
        frames = next(value for key, value in event.fields.items() if "backtrace" in key and isinstance(value, list))
        assert frames[0] == listed["do_stuff"]["address"]
        assert any(is_in(frame, "main") for frame in frames[1:]) and len(frames) >= 4


def test_C19_contexts_are_of_one_event(world):
    assert "number" not in world.trace.named("off_hex")[0].fields


def test_C20_models_of_context_types(world):
    assert world.trace.named("by_symbol")[0].fields["number"] == 42


def test_C21_all_context_types_are_there(world):
    fields = world.trace.named("by_symbol")[0].fields
    assert "number" in fields and "words" in fields and any("backtrace" in key for key in fields)


def test_C22_event_types_are_defined_at_run_time(world):
    assert "by_hex" in open(os.path.join(world.path, "metadata"), errors="replace").read()


def test_C23_expressions_are_compiled_not_interpreted_for_ever(daemon, start):
    one = start()
    daemon.add(f"{one.pid}:foo", "-f", "--filter", "number > 6")
    one.round()
    assert daemon.hits(one.pid) == {"foo": 3}
    daemon("detach", one.pid)


def test_C24_names_and_types_from_elf_and_dwarf(world):
    assert world.trace.named("function_entry")[0].fields == {"a": 7, "b": ord("x")}


def test_C25_the_way_a_probe_is_placed_is_chosen_by_a_table(world, tool):
    assert {one["placed"] for one in world.listed} == {"jump"}
    told = tool("trace", "--explain", "do_stuff", "-p", world.program.pid, status=None).stdout
    assert "tactic: jump" in told and "jmp" in told


def test_C26_a_jump_replaces_the_instruction(daemon, start, tool):
    one = start()
    address = symbol(tool, one.pid, "foo")
    daemon.add(f"{one.pid}:foo")
    with open(f"/proc/{one.pid}/mem", "rb") as mem:
        mem.seek(address)
        assert mem.read(1) in (b"\xe9", b"\xeb")
    daemon("detach", one.pid)


def test_C27_registers_are_as_before(world):
    assert world.program.process.poll() is None


def test_C28_the_original_instruction_runs(build, daemon, start):
    program = os.path.join(build, "tests", "programs", "acceptance")
    expected = subprocess.check_output([program, "--rounds", "20"], text=True)
    one = start()  # one that no other test needs: it ends here
    for place in ("do_stuff", "foo", "interestingFunction"):
        daemon.add(f"{one.pid}:{place}", "-e")
    one.round()
    assert daemon.hits(one.pid)["do_stuff"] > 0
    daemon("detach", one.pid)
    assert one.finish() == expected


def test_C29_the_worked_example_do_stuff_plus_an_offset(world):
    assert world.names["off_hex"] == 2 * STUFF


def test_C30_the_stack_is_as_before(world):
    assert world.names["outer_exit"] == 2 * OUTER


# ---- D: notes on dynamic instrumentation -------------------------------------------------------------------

def test_D01_function_entry(world):
    assert world.names["function_entry"] == 2 * INTERESTING


def test_D02_parameter_type(world):
    listed = next(one for one in world.listed if one["name"] == "function")
    assert listed["fields"] == ["int32_t a", "char b"]


def test_D03_parameter_name(world):
    assert set(world.trace.named("function_entry")[0].fields) == {"a", "b"}


def test_D04_parameter_value(world):
    assert world.trace.named("function_entry")[0].fields == {"a": 7, "b": ord("x")}


def test_D05_function_exit(world):
    assert {event.fields["ret"] for event in world.trace.named("function_exit")} == {7 + ord("x")}


def test_D06_multiple_tracepoints(world):
    assert len(world.listed) == 13


def test_D07_remove(world):
    assert world.names["mine"] == FOO  # the first round only


def test_D08_disable(world):
    assert world.names["by_symbol"] == STUFF


def test_D09_probe_at_any_instruction(world):
    assert world.names["off_hex"] == 2 * STUFF


def test_D10_detach_and_attach_again(world):
    assert world.second.names() == {world.second_name: FOO} and world.second_path != world.path


def test_D11_floating_point_parameters(world):
    fields = world.trace.named("function_at_entry")[0].fields
    assert fields == {"x": 1.5, "y": 0.25}


def test_D12_a_hit_while_nothing_is_started_is_harmless(world):
    assert world.names["by_hex"] == 2 * FOO  # three rounds, one of them stopped


def test_D13_probe_instrumentation(world):
    assert world.names["off_dec"] == 2 * STUFF


def test_D14_the_daemon_does_it(daemon, start):
    """The client needs no rights over the process, and has ended when the events come."""
    one = start()
    daemon.add(f"{one.pid}:foo")
    parent = harness.status(daemon.workers(one.pid)[0], "PPid")
    assert int(parent) == daemon.process.pid
    one.round()
    assert daemon.hits(one.pid) == {"foo": FOO}
    daemon("detach", one.pid)


@pytest.fixture(scope="module")
def preloaded(build, daemon, place):
    """Three runs of a program with the agent preloaded, whose name a tracepoint waits for."""
    name = f"acc{os.getpid()}"
    path = shutil.copy(os.path.join(build, "tests", "programs", "acceptance"), os.path.join(place, name))
    printed = daemon("add", "--wait", f"{name}:main").stdout
    daemon("add", "--wait", f"{name}:foo", "-f")
    env = {**os.environ, "LD_PRELOAD": os.path.join(build, "libdyntrace-agent.so"), "DYNTRACE_SOCKET": daemon.socket}
    watch = daemon.watch(name)
    pids, seen = [], []
    for _ in range(3):
        with subprocess.Popen([path, "--rounds", "1"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as one:
            assert one.wait() == 0
        pids.append(one.pid)
        seen.append(watch.until("exited"))
    traces = [Trace(os.path.join(daemon.output, each)) for each in os.listdir(daemon.output) if each.startswith(name)]
    daemon("rm", f"{name}:*")
    return types.SimpleNamespace(name=name, printed=printed, traces=traces, pids=pids, seen=seen)


def test_D15_a_linked_or_preloaded_program_registers(preloaded):
    assert len(preloaded.traces) == 3


def test_D16_with_name_and_pid(preloaded):
    """The kernel tells the daemon each program's name and pid."""
    for pid, seen in zip(preloaded.pids, preloaded.seen):
        assert {(event["pid"], event["name"]) for event in seen} == {(pid, preloaded.name)}
        assert (seen[0]["event"], seen[0]["detail"]) == ("attached", "preloaded")
    assert sorted(trace.env["pid"] for trace in preloaded.traces) == sorted(preloaded.pids)
    assert {trace.env["procname"] for trace in preloaded.traces} == {preloaded.name}
    for trace in preloaded.traces:
        assert {event.pid for event in trace.events} == {trace.env["pid"]}


def test_D17_the_daemon_matches_the_name(preloaded):
    assert [trace.names() for trace in preloaded.traces] == [{"main": 1, "foo_entry": FOO}] * 3


def test_D18_it_is_stopped_while_it_is_prepared(preloaded):
    assert all(trace.events[0].name == "main" for trace in preloaded.traces)


def test_D19_functions_and_parameters_from_debug_information(world):
    assert "a" in world.trace.named("function_entry")[0].fields


def test_D20_nothing_is_compiled_into_the_program(daemon, start, build):
    """The program's file has no tracepoint and stays unchanged; the recording code is made in the program's memory."""
    path = os.path.join(build, "tests", "programs", "acceptance")
    text = subprocess.check_output(["readelf", "-nSW", path], text=True)
    assert "stapsdt" not in text and "__tracepoints" not in text
    with open(path, "rb") as file:
        bytes_before = file.read()
    one = start()
    before = Snapshot(one.pid)

    def code():
        """The mappings of trampolines: executable, not writable."""
        return [line.split()[1] for line in open(f"/proc/{one.pid}/maps") if "/memfd:dyntrace-code" in line and "x" in line.split()[1]]
    assert code() == []
    daemon.add(f"{one.pid}:interestingFunction", "-f")
    assert code() and all("w" not in rights for rights in code())
    one.round()
    trace = daemon.finish(one.pid)
    assert [event.fields for event in trace.events] == [{"a": 7, "b": ord("x")}] * INTERESTING
    before.assert_unchanged()
    with open(path, "rb") as file:
        assert file.read() == bytes_before


def test_D21_no_hook_in_the_program_is_needed(tool, world, build):
    program = os.path.join(build, "tests", "programs", "acceptance")
    assert "lttng" not in subprocess.check_output(["nm", "-D", program], text=True)


def test_D22_an_event_is_whole_or_not_there(world):
    assert all(event.fields == {"a": 7, "b": ord("x")} for event in world.trace.named("function_entry"))


def test_D23_on_every_hit(world):
    assert world.names["function_exit"] == 2 * INTERESTING


def test_D24_it_goes_on_afterwards(world):
    assert world.hits["function"] == 2 * INTERESTING


def test_D25_commands_come_over_a_unix_socket(daemon):
    """A status, asked by hand."""
    with daemon_harness.connect(daemon.socket) as one:
        one.sendall(daemon_harness.message("WIRE_STATUS", sequence=7))
        answer = one.recv(65536)
    magic, version, kind, sequence = struct.unpack("<IHHI", answer[:12])
    assert (magic, version, sequence) == (daemon_harness.MAGIC, daemon_harness.VERSION, 7)
    assert kind == daemon_harness.KINDS["WIRE_ITEM"] and daemon.socket.encode() in answer


def test_D26_registration_in_order(preloaded):
    """First the program is registered, then its tracepoints."""
    assert preloaded.printed == "main\n"
    for seen in preloaded.seen:
        told = [(event["event"], event.get("detail")) for event in seen if event["event"] != "module-loaded"]
        assert told == [("attached", "preloaded"), ("tracepoint-placed", "main"), ("tracepoint-placed", "foo"),
                        ("exited", "exit status 0")]


def test_D27_main_starts_only_when_all_is_ready(preloaded):
    assert all(trace.names()["main"] == 1 for trace in preloaded.traces)


def test_D28_static_tracepoints_of_lttng_stay_lttngs(lttng_events):
    """One session has both static tracepoints of liblttng-ust and ours."""
    names = [name for name, _ in lttng_events.events]
    assert names.count("lttng_ust_statedump:start") == names.count("lttng_ust_statedump:end") >= 1
    assert names.count("dyntrace_lttng:tracepoint_hit") == FOO


def test_D29_identity_provider_and_name(tool, daemon, marked):
    listed = json.loads(tool("list-markers", "--json", marked.pid).stdout)
    assert ("demo", "numbers") in {(one["provider"], one["name"]) for one in listed}
    daemon.add(f"{marked.pid}:demo:numbers", "-n", "mine")
    assert daemon.json("list-tracepoints", marked.pid)[0]["location"] == "demo:numbers"
    assert "no marker" in daemon.fails("add", f"{marked.pid}:other:numbers")
    daemon("detach", marked.pid)


def test_D30_signature_is_types_and_names(world):
    listed = next(one for one in world.listed if one["name"] == "function_at")
    assert listed["fields"] == ["double x", "float y"]


def described(path):
    """{event: [its fields]} as babeltrace2 reads the metadata; of several kinds of one name the longest."""
    found = {}
    for message in bt2.TraceCollectionMessageIterator(path):
        if type(message) is bt2._StreamBeginningMessageConst:
            for event_class in message.stream.cls.values():
                fields = list(event_class.payload_field_class or [])
                if len(fields) >= len(found.get(event_class.name, [])):
                    found[event_class.name] = fields
    return found


def test_D31_the_trace_describes_its_events(world):
    assert set(described(world.path)) >= set(world.names)
    assert described(world.path)["function_exit"] == ["ret", "duration"]


def test_D32_event_description_has_name_context_and_fields(world):
    found = described(world.path)
    assert found["function_entry"] == ["a", "b"] and found["off_hex"] == []
    assert [name for name in found["by_symbol"] if name in ("number", "words")] == ["number", "words"]


def test_D33_fields_may_be_for_filters_only(daemon, start):
    one = start()
    daemon.add(f"{one.pid}:foo", "--filter", "number == 3")  # bare: the argument isn't written
    one.round()
    path = daemon.trace_of(one.pid)
    daemon("detach", one.pid)
    assert [event.fields for event in Trace(path).events] == [{}]


def test_D34_fields_of_32_and_8_bits(world):
    listed = next(one for one in world.listed if one["name"] == "function")
    assert listed["fields"] == ["int32_t a", "char b"]


def test_D35_events_have_the_length_of_their_fields(world):
    assert world.trace.lost == 0


def test_D36_nothing_is_written_before_start_or_after_stop(world):
    assert world.names["off_hex"] == 2 * STUFF


def test_D37_start_makes_it_record(daemon, start):
    one = start()
    daemon("stop")
    try:
        daemon.add(f"{one.pid}:foo")
        one.round()
        assert daemon.hits(one.pid) == {"foo": 0}
    finally:
        daemon("start")
    one.round()
    assert daemon.hits(one.pid) == {"foo": FOO}
    daemon("detach", one.pid)


def test_D38_the_worked_example_interestingFunction(world):
    assert [event.fields for event in world.trace.named("function_entry")] == [{"a": 7, "b": ord("x")}] * (2 * INTERESTING)


# ---- E: the earlier documentation ------------------------------------------------------------------------------

def test_E01_from_the_command_line_for_all_processes(world):
    assert world.names


def test_E02_agent_daemon_and_command_line(build):
    for name in ("dyntrace", "dyntraced", "libdyntrace-agent.so"):
        assert os.path.exists(os.path.join(build, name))


def test_E03_the_agent_is_injected(world):
    assert world.processes[0]["loaded"] == "injected"


def test_E04_one_daemon_for_all_processes(daemon, start):
    several = [start() for _ in range(3)]
    for one in several:
        daemon.attach(one.pid)
    assert {one.pid for one in several} <= {each["pid"] for each in daemon.json("list-processes")}
    for one in several:
        daemon("detach", one.pid)


def test_E05_the_daemon_injects_it_when_needed(daemon, start):
    one = start()
    daemon.add(f"{one.pid}:foo")  # with no attach before
    assert one.pid in [each["pid"] for each in daemon.json("list-processes")]
    daemon("detach", one.pid)


def test_E06_only_group_and_root(daemon):
    assert "not permitted" in daemon.fails("attach", "1", user=(61999, 61999, []))


def test_E07_the_command_line_talks_to_the_daemon(daemon):
    assert daemon.json("status")["pid"] == daemon.process.pid


def test_E08_agent_linked(build, daemon, place, group):
    source = os.path.join(place, "linked.c")
    with open(source, "w") as file:
        file.write("#include <unistd.h>\nint main(void) { pause(); }\n")
    for name in ("libdyntrace-agent.so",):
        shutil.copy(os.path.join(build, name), place)
    program = os.path.join(place, "linkedprogram")
    subprocess.run(["gcc", "-o", program, source, f"-L{place}", "-Wl,--no-as-needed", "-ldyntrace-agent", f"-Wl,-rpath,{place}"],
                   check=True)
    one = group.start([program], env={**os.environ, "DYNTRACE_SOCKET": daemon.socket})
    listed = until(lambda: [each for each in daemon.json("list-processes") if each["pid"] == one.pid], "it to be listed")
    assert listed[0]["loaded"] == "linked"
    one.kill()


def test_E09_agent_preloaded(build, daemon, group):
    one = group.start(["sleep", "1000"], env={**os.environ, "DYNTRACE_SOCKET": daemon.socket,
                                              "LD_PRELOAD": os.path.join(build, "libdyntrace-agent.so")})
    listed = until(lambda: [each for each in daemon.json("list-processes") if each["pid"] == one.pid], "it to be listed")
    assert listed[0]["loaded"] == "preloaded"
    one.kill()


def test_E10_agent_injected(world):
    assert world.processes[0]["loaded"] == "injected"


def test_E11_the_daemon_must_be_there(tool, place):
    assert "start one with 'dyntraced --daemonize'" in tool.fails("attach", "1", "--socket", place + "/none")


def test_E12_daemonize(build, scratch):
    """The daemon answers when the command has ended, has no terminal, and writes a log."""
    socket = scratch + "/own"
    subprocess.run([os.path.join(build, "dyntraced"), "--daemonize", "--socket", socket, "--output", scratch + "/traces"], check=True,
                   timeout=20)
    told = subprocess.check_output([os.path.join(build, "dyntrace"), "status", "--json", "--socket", socket], text=True)
    pid = json.loads(told)["pid"]
    try:
        fields = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
        assert int(fields[3]) == pid and int(fields[4]) == 0  # a session of its own, no terminal
        assert f"at {socket}" in open(socket + ".log").read()
    finally:
        os.kill(pid, signal.SIGTERM)
    until(lambda: not os.path.exists(socket), "it to end")


def test_E13_without_it_in_the_foreground(daemon):
    assert daemon.process.poll() is None and daemon.json("status")["pid"] == daemon.process.pid
    assert int(harness.status(daemon.process.pid, "PPid")) == os.getpid()


def test_E14_one_instance_at_a_time(daemon, build):
    second = subprocess.run([os.path.join(build, "dyntraced"), "--socket", daemon.socket, "--output", daemon.output],
                            capture_output=True, text=True, timeout=20)
    assert second.returncode == 1 and "runs already" in second.stderr


def test_E15_only_members_connect(daemon):
    assert "not permitted" in daemon.fails("status", user=(61999, 61999, []))


def test_E16_attach_by_pid(daemon, start):
    one = start()

    def listed():
        return [each["loaded"] for each in daemon.json("list-processes") if each["pid"] == one.pid]
    assert listed() == []
    daemon.attach(one.pid)
    assert listed() == ["injected"]
    daemon("detach", one.pid)
    assert listed() == []


def test_E17_attach_by_name(daemon, start):
    name = f"byname{os.getpid()}"
    one = start(name)
    daemon.attach(name)
    assert one.pid in [each["pid"] for each in daemon.json("list-processes")]
    daemon("detach", name)


def test_E18_attach_is_not_needed_where_the_agent_is(preloaded):
    assert len(preloaded.traces) == 3


def test_E19_list_processes(world):
    assert world.program.pid in [each["pid"] for each in world.processes]


def test_E20_list_symbols(tool, daemon, start):
    one = start()
    names = [each["name"] for each in json.loads(tool("list-symbols", "--json", one.pid).stdout)]
    assert {"main", "foo", "do_stuff", "interestingFunction"} <= set(names)


def test_E21_list_tracepoints(world):
    assert len(world.listed_text.splitlines()) == 1 + len(world.listed)


def test_E22_list_tracepoints_a(world):
    blocks = re.split(r"^(?=\S)", world.listed_all, flags=re.M)[2:]
    assert len(blocks) == len(world.listed)
    for one, block in zip(world.listed, blocks):
        assert block.split()[0] == one["name"]
        assert re.search(rf"^    address +{one['address']:#x} \(.*acceptance\)", block, re.M)
        assert re.search(r"^    hits +0 \(0 per second\), lost 0$", block, re.M) and re.search(r"^    placed +\w+, \d+ bytes", block, re.M)


def test_E23_add(world):
    assert world.printed["outer"] == "outer\n"


def test_E24_add_by_symbol(world):
    assert world.names["outer_entry"] == 2 * OUTER


def test_E25_add_by_address(daemon, start, tool):
    one = start()
    assert daemon.add(f"{one.pid}:{symbol(tool, one.pid, 'foo'):#x}", "-n", "there") == "there"
    one.round()
    assert daemon.hits(one.pid) == {"there": FOO}
    daemon("detach", one.pid)


def test_E26_add_e_entry_and_exit_nested_and_recursive(world):
    assert world.names["outer_entry"] == world.names["outer_exit"] == 2 * OUTER
    assert [event.fields["ret"] for event in world.trace.named("outer_exit")][:4] == [0, 1, 3, 6]


def test_E27_add_n_name(world):
    assert world.printed["named"] == "mine\n"


def test_E28_add_without_n_makes_a_name(world):
    assert world.printed["again"] == "outer-2\n"


def test_E29_a_tracer_for_each_tracepoint(world):
    assert {one["tracer"] for one in world.listed} == {"ctf", "count"}


def test_E30_add_prints_the_name(world):
    assert world.printed == {"outer": "outer\n", "named": "mine\n", "again": "outer-2\n"}


def test_E31_rm(world):
    assert "mine" not in world.hits


def logged(daemon, start, place, *words):
    one = start()
    daemon.add(f"{one.pid}:foo", "log", *words)
    one.round()
    daemon("detach", one.pid)
    return one


def test_E32_tracer_log_with_a_file(daemon, start, place):
    path = os.path.join(place, "log.txt")
    logged(daemon, start, place, path)
    assert len(open(path).read().splitlines()) == FOO


def test_E33_log_without_a_file_writes_to_the_programs_stdout(daemon, start, place):
    one = logged(daemon, start, place)
    assert one.finish().count("foo") == FOO


def test_E34_log_writes_at_once(daemon, start, place):
    path = os.path.join(place, "log2.txt")
    one = start()
    daemon.add(f"{one.pid}:foo", "log", path)
    one.round()
    until(lambda: len(open(path).read().splitlines()) == FOO, "the lines, while it is traced", seconds=5)
    daemon("detach", one.pid)


@pytest.fixture(scope="module")
def lttng_events(build, daemon, group, tool):
    """The events of both kinds of tracepoint, without and with a name, in a session of the real lttng."""
    if os.geteuid() != 0 or not shutil.which("lttng-sessiond"):
        pytest.skip("needs root and lttng-tools")
    session = Lttng(group)
    session.create("dyntrace_lttng:*", "dyntrace:*", "lttng_ust_statedump:*")
    path = os.path.join(build, "tests", "programs", "acceptance")
    ready, ready_end = os.pipe()
    go_end, go = os.pipe()
    one = group.start(session.inside(path, "--rounds", "2", "--ready-fd", ready_end, "--go-fd", go_end), env=session.env,
                      stdout=subprocess.PIPE, pass_fds=[ready_end, go_end])
    assert os.read(ready, 1) == b"r"
    daemon.add(f"{one.pid}:foo", "lttng")
    daemon.add(f"{one.pid}:interestingFunction", "-e", "lttng")
    daemon("enable-event", "named", "-u", "--pid", one.pid, "--function", "interestingFunction", "--tracer", "lttng")
    os.write(go, b"g")
    assert os.read(ready, 1) == b"r"
    address = {name: symbol(tool, one.pid, name) for name in ("foo", "interestingFunction")}
    daemon("detach", one.pid)
    events = session.stop()
    one.kill()
    for fd in (ready, ready_end, go, go_end):
        os.close(fd)
    session.daemon.terminate()
    return types.SimpleNamespace(events=events, address=address)


def of(lttng_events, name):
    return [fields for each, fields in lttng_events.events if each == name]


def test_E35_tracer_lttng(lttng_events):
    assert len(of(lttng_events, "dyntrace:named_entry")) == INTERESTING
    assert of(lttng_events, "dyntrace:named_entry")[0]["a"] == "7"


def test_E36_provider_dyntrace_lttng(lttng_events):
    providers = {name.split(":")[0] for name, _ in lttng_events.events}
    assert providers == {"dyntrace_lttng", "dyntrace", "lttng_ust_statedump"}


def test_E37_event_tracepoint_hit(lttng_events):
    assert len(of(lttng_events, "dyntrace_lttng:tracepoint_hit")) == FOO


def test_E38_events_function_entry_and_exit(lttng_events):
    assert len(of(lttng_events, "dyntrace_lttng:function_entry")) == INTERESTING
    assert len(of(lttng_events, "dyntrace_lttng:function_exit")) == INTERESTING


def test_E39_field_address(lttng_events):
    assert {int(fields["address"], 0) for fields in of(lttng_events, "dyntrace_lttng:tracepoint_hit")} == \
        {lttng_events.address["foo"]}
    for name in ("function_entry", "function_exit"):
        assert {int(fields["address"], 0) for fields in of(lttng_events, "dyntrace_lttng:" + name)} == \
            {lttng_events.address["interestingFunction"]}
