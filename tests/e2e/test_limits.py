"""docs/limits.md: each line of its first table, and each point about fences, names the tests that prove it. A line that changes, or a test
that goes, has to be looked at here. Below are tests of lines that have none elsewhere."""
import ast
import functools
import os
import pathlib
import re
import subprocess

import pytest
from harness import Snapshot
from test_hazards import AS_NOBODY, another_user, wrapped  # noqa: F401 - a fixture among them

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTAINER, FENCED, ASKER, SYSTEMD = "test_containers", "test_fenced", "test_daemon_asker", "test_systemd"

# "my program": {each claim of its line: its tests}
TABLE = {
    "runs in a container": {
        "yes, as root": [f"{CONTAINER}::test_traces_a_program_in_a_container"],
        "from the host, with `trace` or the daemon": [f"{CONTAINER}::test_traces_a_program_in_a_container",
                                                      f"{ASKER}::test_a_container_is_traced_by_the_daemon"],
        "or inside": [f"{CONTAINER}::test_traces_from_inside_a_container"],
    },
    "is a hardened service": {
        "yes, as root": [f"{SYSTEMD}::test_services_with_hardening_options_are_traced", f"{SYSTEMD}::test_debians_hardened_redis_is_traced",
                         "test_hardening::test_each_option"],
        "with `PrivateUsers=`, the daemon needs `--all-targets`": [f"{SYSTEMD}::test_debians_hardened_redis_is_traced_by_the_daemon"],
        "a filter that forbids most calls costs values behind pointers": [f"{FENCED}::test_nothing_is_allowed",
                                                                          f"{FENCED}::test_strings_of_the_heap_are_loaded_without_the_call",
                                                                          f"{FENCED}::test_strings_of_a_command_are_loaded_without_the_call"],
        "one without `rt_sigreturn` is refused": [f"{FENCED}::test_no_call_of_ours_kills", f"{FENCED}::test_every_thread_is_asked"],
    },
    "sandboxes itself while it runs": {
        "yes": ["test_filtered::test_locked_in", "test_browsers::test_renderers_that_begin_while_traced"],
        "what the filter forbids is done without from then on": [f"{FENCED}::test_a_filter_that_comes_later_is_judged",
                                                                 f"{FENCED}::test_a_filter_of_a_forked_child_is_judged",
                                                                 f"{ASKER}::test_a_filter_that_comes_later_is_judged",
                                                                 f"{ASKER}::test_a_filter_of_a_forked_child_is_judged"],
    },
    "handles its own system calls (Wine)": {
        "yes": ["test_dispatched::test_own_system_calls_stay_its_own"],
        "no values behind pointers in the heap, no names of threads": ["test_dispatched::test_what_is_lost_without_calls"],
    },
    "runs under Valgrind": {
        "no": ["test_valgrind::test_a_tool_is_recognised", "test_valgrind::test_under_valgrind"],
        "trace it without Valgrind": ["test_valgrind::test_a_tool_is_recognised"],
    },
    "is written in Go": {
        "yes, stripped too": ["test_go_functions::test_counts", "test_go_functions::test_stripped"],
        "exits at each `ret`, without results": ["test_go_functions::test_exits"],
        "fewer places inside": ["test_go_functions::test_places"],
    },
    "is written in OCaml": {
        "yes": ["test_return_addresses::test_ocaml"],
        "calls that end in a tail call have no exit": ["test_ends::test_fates"],
    },
    "has a JIT (JVM, V8)": {
        "its own C and C++ code": ["test_runtimes::test_javascript", "test_runtimes::test_java", "test_ends::test_compiled_callers"],
        "generated code can't be probed": ["test_limits::test_generated_code_is_refused"],
        "calls from it have exits only in LuaJIT, HotSpot, Mono": ["test_exits::test_callers_made_at_run_time", "test_ends::test_compiled_callers",
                                                                   "test_runtimes::test_java"],
    },
    "is setuid or changed its user": {
        "as root": ["test_limits::test_a_process_that_changed_its_user"],
        "with the daemon only under `--all-targets`": ["test_daemon_users::test_a_process_that_changed_its_user_needs_all_targets"],
    },
    "uses musl": {
        "yes": ["test_trace_command::test_kinds_of_executable"],
        "not the tracers `lttng` and `call`": ["test_lttng::test_no_shared_glibc_is_refused", "test_call::test_programs_that_load_nothing"],
        "`dlclose` unloads nothing": ["test_modules::test_musl"],
    },
    "is statically linked": {
        "yes": ["test_trace_command::test_kinds_of_executable", "test_filtered::test_a_static_program_is_locked_in"],
        "not the tracers `lttng` and `call`": ["test_lttng::test_no_shared_glibc_is_refused", "test_call::test_programs_that_load_nothing"],
        "no traps": ["test_traps::test_refused_where_masks_cannot_be_watched"],
    },
    "belongs to me, and I am not root": {
        "yes": ["test_limits::test_a_user_s_own_process", "test_hazards::test_takeover_without_root"],
        "your own processes, as far as Yama allows": ["test_trace_process::test_not_permitted", "test_limits::test_yama_says_no"],
    },
    "runs where Yama restricts ptrace": {
        "1, 2: as root": ["test_limits::test_root_under_yama"],
        "3: no": ["test_limits::test_yama_says_no"],
        "with 1, users can still trace commands that dyntrace starts": ["test_limits::test_a_user_s_command_under_yama"],
    },
    "has no symbols or debug information": {
        "yes": ["test_trace_command::test_kinds_of_executable_stripped"],
        "functions are `fn_ADDRESS`, arguments those of `arg0` to `arg5` that the code may read, unless a prototype is known": [
            "test_names::test_functions_of_a_stripped_program", "test_arguments", "test_prototypes::test_common_libraries"],
    },
}

# the points of the section about fences, by their first words
FENCES = {
    "`dyntrace status TARGET`": [f"{FENCED}::test_status_and_explain_tell_what_a_filter_allows", f"{FENCED}::test_status_of_other_filters"],
    "A process with a filter": [f"{FENCED}::test_a_filter_that_allows_all_we_need_changes_nothing", f"{FENCED}::test_every_thread_is_asked"],
    "A call that the filter doesn't allow": [f"{FENCED}::test_no_call_of_ours_kills", f"{FENCED}::test_whatever_is_not_allowed_is_refused",
                                             f"{FENCED}::test_the_table_has_every_call_that_is_made",
                                             f"{FENCED}::test_the_table_has_every_call_of_the_sources", f"{FENCED}::test_nothing_is_allowed",
                                             f"{FENCED}::test_block_mode_says_that_it_cannot_wait",
                                             f"{FENCED}::test_signals_in_a_slow_path_that_blocks_none"],
    "Browsers": ["test_browsers::test_each_kind_of_process", "test_browsers::test_renderers_that_begin_while_traced",
                 "test_browsers::test_each_kind_of_process_of_firefox"],
    "Reading filters": [f"{FENCED}::test_a_dyntrace_behind_a_filter_tries_it", f"{ASKER}::test_the_asker_has_few_rights_and_ends_with_the_daemon",
                        "test_limits::test_a_user_s_own_fenced_process"],
    "The daemon": [f"{ASKER}::test_no_call_of_ours_kills", f"{ASKER}::test_threads_with_different_filters",
                   f"{ASKER}::test_one_thread_takes_up_a_filter_later", f"{ASKER}::test_a_filter_of_a_forked_child_is_judged"],
    "Strict mode": ["test_limits::test_strict_mode_is_refused"],
    "Syscall User Dispatch": ["test_dispatched::test_own_system_calls_stay_its_own", "test_dispatched::test_dispatch_that_begins_while_traced",
                              "test_dispatched::test_dispatch_comes_back_when_the_tracer_is_killed"],
    "The tracers `lttng` and `call`": [f"{ASKER}::test_no_library_is_loaded_behind_a_filter"],
    "A program that installs a filter later": ["test_filtered::test_locked_in", f"{FENCED}::test_a_filter_that_comes_later_is_judged",
                                               f"{FENCED}::test_leaving_a_program_that_locked_itself_in",
                                               "test_filtered::test_who_asks_for_filters_has_none", "test_traps::test_taken_out_in_time"],
    "Not noticed": [],  # what dyntrace can't know
    "A thread that gives up the clock": ["test_dispatched::test_a_thread_that_gives_up_the_clock",
                                         "test_dispatched::test_measures_of_a_thread_without_the_clock",
                                         "test_filtered::test_a_clock_that_is_forbidden_is_noticed_at_attach"],
    "A program that steps itself": [],  # it dies: nothing to hold dyntrace to
    "From inside a container": [f"{CONTAINER}::test_traces_from_inside_a_container", f"{FENCED}::test_a_dyntrace_behind_a_filter_tries_it",
                                f"{CONTAINER}::test_traces_from_inside_a_sandbox_with_the_hosts_pids"],
    "Pid namespaces": ["test_hazards::test_pid_namespace", "test_hazards::test_h36_ended_threads_of_a_pid_namespace",
                       "test_spaces::test_children_in_pid_namespaces_of_their_own"],
}


def limits():
    return (ROOT / "docs" / "limits.md").read_text()


def plain(text):
    """Without links."""
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)


@functools.cache
def functions(module):
    """The tests of a file."""
    paths = [ROOT / "tests" / folder / f"{module}.py" for folder in ("e2e", "torture")]
    tree = ast.parse(next(path for path in paths if path.exists()).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def exists(test):
    module, _, name = test.partition("::")
    return name in functions(module) if name else bool(functions(module))


def test_each_line_of_the_table_is_proved():
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", limits().partition("\n## Rights")[0], re.M)
    found = {plain(row[0]): [claim for cell in row[1:] for claim in plain(cell).split("; ")] for row in rows if row[0] != "my program"}
    assert found == {name: list(claims) for name, claims in TABLE.items()}
    assert all(tests for claims in TABLE.values() for tests in claims.values())


def test_each_point_about_fences_is_proved():
    section = limits().partition("\n## System call filters\n")[2].partition("\n## ")[0]
    assert [plain(name) for name in re.findall(r"^- \*\*(.+?)\*\*", section, re.M)] == list(FENCES)


def test_these_tests_exist():
    named = {test for claims in TABLE.values() for tests in claims.values() for test in tests} | {test for tests in FENCES.values() for test in tests}
    assert not sorted(test for test in named if not exists(test))


# ---- tests of these lines that have no better place ----------------------------------------------------------------------

JITTED = """
import ctypes, mmap, sys
code = mmap.mmap(-1, 4096, prot=7)
code[:6] = b"\\xb8\\x2a\\0\\0\\0\\xc3"
print(ctypes.addressof(ctypes.c_char.from_buffer(code)), flush=True)
sys.stdin.read()
"""


def start_python(processes, code):
    return processes.start(["/usr/bin/python3", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_generated_code_is_refused(dyntrace, processes):
    target = start_python(processes, JITTED)
    place = hex(int(target.stdout.readline()))
    before = Snapshot(target.pid)
    assert f"'{place}': not in the code of any module of python3" in dyntrace.fails("trace", "-p", target.pid, "--probe", place, "--for", 5, status=125)
    before.assert_unchanged()
    target.stdin.close()
    assert target.wait(timeout=30) == 0


def test_a_process_that_changed_its_user(dyntrace, processes, another_user):  # noqa: F811
    """Root traces it: its user's rights wouldn't do."""
    code = "import os, sys; os.setresgid(61903, 61903, 61903); os.setresuid(61903, 61903, 61903); print('ready', flush=True)\n" \
        "while sys.stdin.readline(): print(os.getppid() > 0, flush=True)"
    target = start_python(processes, code)
    assert target.stdout.readline() == "ready\n"
    tracing = dyntrace.start_trace(target.pid, "--function", "getppid@libc.so.6")
    for _ in range(5):
        target.stdin.write("again\n")
        target.stdin.flush()
        assert target.stdout.readline() == "True\n"
    trace = tracing.stop()
    tracing.before.assert_unchanged()
    assert trace.names() == {"getppid_entry": 5} and trace.lost == 0
    target.stdin.close()
    assert target.wait(timeout=30) == 0


STRICT = r"""
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) { char c = 'r'; prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT); if (write(1, &c, 1) == 1 && read(0, &c, 1) >= 0) write(1, "a", 1);
    syscall(SYS_exit, 0); }
"""


def test_strict_mode_is_refused(dyntrace, processes, scratch):
    path = os.path.join(scratch, "strict")
    subprocess.run(["gcc", "-w", "-x", "c", "-o", path, "-"], check=True, text=True, input=STRICT)
    target = processes.start([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert target.stdout.read(1) == "r"
    assert "seccomp" in dyntrace.fails("trace", "-p", target.pid, "--function", "main", "--for", 5, status=125)
    assert target.communicate("g", timeout=30)[0] == "a" and target.returncode == 0


def test_a_user_s_own_process(dyntrace, program_path, processes, scratch, another_user):  # noqa: F811
    """Entries, exits and texts, without root."""
    command, spin = dyntrace.for_others(program_path("spin"))
    target = wrapped(processes, scratch, AS_NOBODY, spin, "--calls", 50, "--rounds", 1).wait_ready()
    before, output = Snapshot(target.pid), os.path.join(scratch, "trace")
    tracing = processes.start([*AS_NOBODY, command, "trace", "-p", target.pid, "-o", output, "--function", "foo", "-e"], stderr=subprocess.PIPE, text=True)
    assert "tracing spin" in tracing.stderr.readline()
    target.go().wait_ready()
    tracing.terminate()
    assert " events, 0 lost" in tracing.communicate(timeout=30)[1] and tracing.returncode == 0
    before.assert_unchanged()
    target.finish()
    target.close()


def test_a_user_s_own_fenced_process(dyntrace, program_path, processes, scratch, another_user):  # noqa: F811
    """Only root reads filters: refused, with what to do."""
    command, fenced = dyntrace.for_others(program_path("fenced"))
    target = wrapped(processes, scratch, AS_NOBODY, fenced, "--deny", 165, "--calls", 5).wait_ready()
    before = Snapshot(target.pid)
    result = subprocess.run([*AS_NOBODY, command, "trace", "-p", str(target.pid), "--function", "foo", "--for", "5"], cwd=scratch,
                            capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert result.returncode in (125, 126) and "root" in result.stderr and "filter" in result.stderr, result.stderr
    before.assert_unchanged()
    target.go().wait_ready()
    assert target.finish().split()[0] == "10"
    target.close()


# This machine's kernel may have no Yama: what dyntrace makes of its answers is tried with a file of the same name.

def under_yama(scope, *command):
    folder = "/proc/sys/kernel"
    script = f'mount -t tmpfs none {folder} && mkdir {folder}/yama && echo {scope} >{folder}/yama/ptrace_scope && exec "$@"'
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *map(str, command)]


@pytest.mark.parametrize("scope", [1, 2])
def test_root_under_yama(dyntrace, program, scratch, another_user, scope):  # noqa: F811
    spin = program("spin", "--calls", 5, "--rounds", 1).wait_ready()
    result = subprocess.run(under_yama(scope, dyntrace.path, "trace", "-p", spin.pid, "-o", dyntrace.new_output(), "--function", "foo", "--for", "0.01"),
                            capture_output=True, text=True)
    assert result.returncode == 0 and "tracing spin" in result.stderr, result.stderr
    spin.go().wait_ready()
    spin.finish()


@pytest.mark.parametrize("scope, said", [(1, "is 1 (run as root)"), (2, "is 2 (run as root)"),
                                         (3, "is 3, which forbids it to everybody until the next boot with another value")])
def test_yama_says_no(dyntrace, processes, scratch, another_user, scope, said):  # noqa: F811
    """The kernel's refusal, as for a process that isn't dumpable, and the reason for it."""
    command, _ = dyntrace.for_others("/bin/true")
    code = "import ctypes, sys; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); print('ready', flush=True); sys.stdin.read()"
    target = processes.start([*AS_NOBODY, "/usr/bin/python3", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert target.stdout.readline() == "ready\n"
    result = subprocess.run(under_yama(scope, *AS_NOBODY, command, "trace", "-p", target.pid, "--function", "getppid@libc.so.6"),
                            cwd=scratch, capture_output=True, text=True)
    assert result.returncode == 126 and f"kernel.yama.ptrace_scope {said}" in result.stderr, result.stderr
    target.stdin.close()
    assert target.wait(timeout=30) == 0


def test_a_user_s_command_under_yama(dyntrace, program_path, scratch, another_user):  # noqa: F811
    command, hello = dyntrace.for_others(program_path("hello"))
    result = subprocess.run(under_yama(1, *AS_NOBODY, command, "trace", "--function", "foo", "--", hello, "--calls", 20),
                            cwd=scratch, capture_output=True, text=True)
    assert result.returncode == 0 and result.stdout == "hello\n" and "20 events, 0 lost" in result.stderr, result.stderr
