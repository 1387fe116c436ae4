"""Values behind pointers are read by plain loads (X3 to X11, H44): a load that fails is mended, and the program sees its own masks,
handlers and faults as without a tracer. tests/programs/gone.c gives pointers to memory that goes away, in every state of its signals."""
import collections
import os
import signal
import subprocess

import pytest

from harness import Program, Trace, status, until
from test_go_values import Watched

LENGTHS = 200  # of gone.c
FAULTS = 1 << signal.SIGSEGV - 1 | 1 << signal.SIGBUS - 1


def has_handlers(pid):
    """Does the agent handle the signals of loads? gone.c itself doesn't, while it waits."""
    return int(status(pid, "SigCgt"), 16) & FAULTS == FAULTS


def alone(path, *arguments):
    """What gone.c prints without a tracer, and its end."""
    result = subprocess.run([path, *map(str, arguments)], capture_output=True, text=True, timeout=60)
    return result.stdout, result.returncode


def expected(output, closed):
    """{(where, text): number} of the first process's events; its calls in a loop have no certain text."""
    turns = {1: 2, 2: 1, 3: 1, 4: 6, 5: 3, 6: 1, 7: 1, 8: 2, 9: 1, 10: 1, 11: 4, 12: 8, 13: 2, 14: 1, 15: 2, 16: 1, 17: 4, 18: 3,
             19: 1, 20: 1, **({22: 4, 23: 1} if closed else {})}
    texts = collections.Counter()
    for where, number in turns.items():
        texts[where, "here"] = 8 * number
        texts[-where, "unreadable"] = 2 * number
    for length in range(LENGTHS):
        text = "".join(chr(ord("a") + (i + length) % 26) for i in range(length))
        if length % 3 == 2 and length > 3:
            text = text[:length // 2] + "ä" + text[length // 2 + 2:]
        texts[1000 + length, text] = 2
        texts[2000 + length, text + "z(unreadable)"] = 2
    assert f"hits: {sum(texts.values()) - 40 + 2000}\n" in output  # without those of the forked child
    return texts


def found(trace, filtered=False):
    texts = collections.Counter()
    for event in trace.named("take_entry"):
        text = event.fields["text"]
        texts[event.fields["where"], "unreadable" if text.startswith("(unreadable 0x") else text] += 1
    turns = {text: texts.pop((21, text), 0) for text in ("here", "unreadable", "(unreadable)")}
    assert sum(turns.values()) == 2000 or filtered
    return texts


@pytest.mark.parametrize("end", [0, 1, 2, 3])
@pytest.mark.parametrize("closed", [0, 1])
@pytest.mark.parametrize("name", ["gone", "gone_static"])
def test_memory_that_goes_away(dyntrace, program, program_path, name, end, closed):
    without = alone(program_path(name), "--end", end, "--closed", closed)
    target = program(name, "--end", end, "--closed", closed).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "take")
    until(lambda: has_handlers(target.pid), "handlers in front")
    target.go().wait_ready()
    output = target.finish(without[1])
    assert output == without[0]
    trace = tracing.stop()
    assert found(trace) == expected(output, closed)
    assert trace.lost == 0


@pytest.mark.parametrize("how", ["ended", "killed"])
def test_nothing_stays(dyntrace, program, how):
    """The handlers are the program's own again; after kill -9, too."""
    target = program("gone").wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "take")
    until(lambda: has_handlers(target.pid), "handlers in front")
    if how == "ended":
        tracing.stop()
    else:
        tracing.process.kill()
        tracing.process.wait()
        assert has_handlers(target.pid)
        dyntrace("detach", target.pid)
    assert int(status(target.pid, "SigCgt"), 16) & FAULTS == 0
    target.go().wait_ready()
    target.finish()


def test_registers_are_kept(dyntrace, program_path):
    """Trampolines that copy strings themselves use registers, two vector registers among them, and keep them all."""
    without = alone(program_path("kept"))
    result, trace = dyntrace.trace("--function", "spot", "-e", "--", program_path("kept"))
    assert without == ("1120 calls, 0 registers changed\n", 0)
    assert without[0] in result.stdout
    whole = [chr(ord("a") + length % 26) * length for length in range(280) for _ in range(4)]
    texts = [text if len(text) <= 256 else text[:256] + "..." for text in whole]
    assert [event.fields["text"] for event in trace.named("spot_entry")] == texts
    assert [event.fields["ret"] for event in trace.named("spot_exit")] == texts
    assert trace.lost == 0


def test_conditions_on_memory_that_goes_away(dyntrace, program, program_path):
    """A filter that reads memory, in the trampoline, is false where the memory is gone."""
    without = alone(program_path("gone"))
    target = program("gone").wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "take", "--filter", "text[0] == 'h' && text[1] == 'e'")
    until(lambda: has_handlers(target.pid), "handlers in front")
    target.go().wait_ready()
    output = target.finish(without[1])
    assert output == without[0]
    trace = tracing.stop()
    texts = {key: number for key, number in found(trace, True).items() if key[0] < 1000}
    assert texts == {key: number for key, number in expected(output, 0).items() if key[1] == "here"}
    assert trace.lost == 0


TILES = r"""
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "handshake.h"
#define ARCH_REQ_XCOMP_PERM 0x1023
#define TILE_DATA 18

__attribute__((noipa)) void take(const char *text) { __asm__ volatile("nop; nop; nop; nop; nop" : : "r"(text)); }
static void on_fault(int number) { _exit(number); }

/* A tile that isn't in its initial state: the thread's frames hold all tiles from here on. */
__attribute__((target("amx-tile"))) static void use_tiles(void)
{
	static struct { uint8_t palette, start, rest[14]; uint16_t columns[16]; uint8_t rows[16]; } config = { .palette = 1 };
	static uint8_t ones[16 * 64];

	config.columns[0] = 64;
	config.rows[0] = 16;
	for (size_t i = 0; i < sizeof(ones); i++)
		ones[i] = 1;
	__asm__ volatile("ldtilecfg %0" : : "m"(config));
	__asm__ volatile("tileloadd (%0,%1,1), %%tmm0" : : "r"(ones), "r"(64L) : "memory");
}

int main(int argc, char **argv)
{
	size_t least = getauxval(AT_MINSIGSTKSZ), room = (least + 4095) / 4096 * 4096;
	char *memory = mmap(NULL, 4096 + room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* just large enough for the largest frame, above a page that nobody may touch */
	stack_t stack = { .ss_sp = memory + 4096, .ss_size = least };
	struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_ONSTACK };

	sprintf(page, "here");
	mprotect(memory, 4096, PROT_NONE);
	sigaltstack(&stack, NULL);
	sigaction(SIGSEGV, &action, NULL);
	handshake(argc, argv);
	for (int turn = 0; turn < 2; turn++) {
		for (int i = 0; i < 8; i++)
			take(page);
		mprotect(page, 4096, PROT_NONE);
		take(page);
		mprotect(page, 4096, PROT_READ | PROT_WRITE);
		if (!turn && syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA))
			return 77;
		if (!turn)
			use_tiles();
	}
	return 0;
}
"""


def test_frames_that_grow(dyntrace, processes, scratch):
    """(X8) The program's alternate stack has room for the kernel's largest frame, and for nothing else; before it asks for AMX's tiles, its
    frames are small, and values are loaded."""
    path = os.path.join(scratch, "tiles")
    programs = os.path.join(os.path.dirname(__file__), "..", "programs")
    subprocess.run(["gcc", "-O1", "-g", "-D_GNU_SOURCE", "-I", programs, "-x", "c", "-", "-o", path], input=TILES, text=True, check=True)
    if subprocess.run([path]).returncode == 77:
        pytest.skip("the processor has no AMX")
    target = Program(processes, path, []).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "take")
    until(lambda: has_handlers(target.pid), "handlers in front")
    target.finish()
    tracing.process.communicate(timeout=30)
    texts = [event.fields["text"] for event in Trace(tracing.output).events]
    assert [text.startswith("(unreadable") for text in texts] == ([False] * 8 + [True]) * 2
    assert [text for text in texts if not text.startswith("(unreadable")] == ["here"] * 16


CUT = r"""
#include <string>
#include <string.h>
#include <sys/mman.h>
__attribute__((noipa)) void counted(const std::string &text) { __asm__ volatile("nop; nop; nop; nop; nop" : : "r"(&text)); }
__attribute__((noipa)) void ended(const char *text) { __asm__ volatile("nop; nop; nop; nop; nop" : : "r"(text)); }
int main()
{
	char *pages = (char *)mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *end = pages + 4096;

	munmap(end, 4096);
	for (size_t length = 0; length < 20; length++) {
		counted(std::string(length, 'a') + std::string(20, 0));
		memset(pages, 'a', 4096);
		end[-1] = (char)0xed; // the beginning of a character
		ended(end - 1 - length);
	}
}
"""


@pytest.mark.parametrize("most", [16, 17])
def test_no_string_is_longer_than_asked(dyntrace, scratch, most):
    path = os.path.join(scratch, "cut")
    subprocess.run(["g++", "-O1", "-g", "-x", "c++", "-", "-o", path], check=True, input=CUT, text=True)
    _, trace = dyntrace.trace("--string-max", most, "--function", "counted", "--function", "ended", "--", path)
    letters = ["a" * length for length in range(20)]
    assert [event.fields["text"] for event in trace.named("counted_entry")] == [
        text[:most] + "\\x00" * ((most - len(text)) // 4 if len(text) < most else 0) + "..." for text in letters]
    assert [event.fields["text"] for event in trace.named("ended_entry")] == [
        text + "\\xed(unreadable)" if len(text) + 4 <= most else text[:most] + "..." for text in letters]


MAKES_CODE = r"""
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include "handshake.h"

__attribute__((noipa)) void take(const char *text) { __asm__ volatile("nop; nop; nop; nop; nop" : : "r"(text)); }

int main(int argc, char **argv)
{
	static const unsigned char code[] = { 0x49, 0x89, 0xca, 0xb8, 14, 0, 0, 0, 0x0f, 0x05, 0xc3 }; /* rt_sigprocmask */
	void *made = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long (*change)(long how, const unsigned long *set, unsigned long *old, long size) = made;
	unsigned long all = ~0UL;

	memcpy(made, code, sizeof(code));
	sprintf(page, "here");
	handshake(argc, argv);
	for (int i = 0; i < 8; i++)
		take(page);
	change(SIG_BLOCK, &all, NULL, 8);
	mprotect(page, 4096, PROT_NONE);
	take(page);
	return 0;
}
"""


def test_static_program_that_makes_code(dyntrace, processes, scratch):
    """(X9) A static program blocks the signals by a system call that its file doesn't show: it is read without plain loads."""
    path = os.path.join(scratch, "makes")
    programs = os.path.join(os.path.dirname(__file__), "..", "programs")
    subprocess.run(["gcc", "-O1", "-g", "-static", "-I", programs, "-x", "c", "-", "-o", path], input=MAKES_CODE, text=True, check=True)
    target = Program(processes, path, []).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "take").wait_told()
    assert not has_handlers(target.pid)
    target.finish()
    tracing.process.communicate(timeout=30)
    texts = [event.fields["text"] for event in Trace(tracing.output).events]
    assert texts[:8] == ["here"] * 8 and texts[8].startswith("(unreadable") and len(texts) == 9


OUTLIVES = r"""
#include <pthread.h>
#include <sched.h>
#include "handshake.h"
static volatile size_t total;
__attribute__((noinline)) void say(const char *text) { total += strlen(text); }
static void *rest(void *unused)
{
	char path[64], text[256] = "";

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", getpid());
	while (!strstr(text, ") Z")) {
		FILE *file = fopen(path, "r");
		if (!file || !fgets(text, sizeof(text), file))
			exit(1);
		fclose(file);
		sched_yield();
	}
	for (int i = 0; i < 20; i++) { /* each on a page of its own, which nobody has read yet */
		char *page = malloc(200000);
		snprintf(page, 20, "number %d", i);
		say(page);
	}
	exit(0);
}
int main(int argc, char **argv)
{
	pthread_t thread;

	handshake(argc, argv);
	pthread_create(&thread, NULL, rest, NULL);
	pthread_exit(NULL);
}
"""


def test_without_its_first_thread(dyntrace, tmp_path):
    """The memory of a process whose first thread has ended is read all the same."""
    path = str(tmp_path / "outlives")
    sources = os.path.join(os.path.dirname(__file__), "..", "programs")
    subprocess.run(["gcc", "-O1", "-g", "-pthread", "-I", sources, "-x", "c", "-", "-o", path], input=OUTLIVES, text=True, check=True)
    _, trace = dyntrace.trace("--function", "say", "--", path)
    assert [event.fields["text"] for event in trace.events] == [f"number {i}" for i in range(20)]


NOTHING = """
__attribute__((noinline)) void note(const char *a, const char *b, long n) { __asm__ volatile("nop; nop; nop; nop; nop" : : "r"(a), "r"(b), "r"(n)); }
int main(void) { for (long n = 0; n < 100; n++) note(n & 1 ? "here" : 0, n & 2 ? "there" : 0, n); return 0; }
"""


def test_no_string(dyntrace, scratch):
    """NULL is no string, at the first hit, which the agent gathers, and at later ones."""
    path = os.path.join(scratch, "nothing")
    subprocess.run(["gcc", "-O2", "-g", "-x", "c", "-", "-o", path], check=True, input=NOTHING, text=True)
    _, trace = dyntrace.trace("--function", "note", "--", path)
    assert [(event.fields["a"], event.fields["b"], event.fields["n"]) for event in trace.events] == [
        ("here" if n & 1 else "(null)", "there" if n & 2 else "(null)", n) for n in range(100)]


PARTS = r"""
#include <omp.h>
#include "handshake.h"
__attribute__((noipa)) void say(const char *text, long number) { __asm__ volatile("nop; nop; nop; nop; nop" : : "r"(text), "r"(number)); }

int main(int argc, char **argv)
{
	long sum = 0;

	for (int round = 0; round < 2; round++) {
		handshake(argc, argv);
		for (long turn = 0; turn < 300; turn++) {
			#pragma omp parallel for reduction(+:sum) num_threads(3) schedule(static, 1)
			for (int part = 0; part < 3; part++) {
				char *text = malloc(4096);

				snprintf(text, 64, "turn %ld part %d", turn, part);
				#pragma omp critical
				say(text, 900 * round + 3 * turn + part);
				sum += (long)strlen(text);
				free(text);
			}
		}
	}
	printf("%ld\n", sum);
	return 0;
}
"""


def build(scratch, name, source, *options):
    path = os.path.join(scratch, name)
    programs = os.path.join(os.path.dirname(__file__), "..", "programs")
    subprocess.run(["gcc", "-O2", "-g", "-D_GNU_SOURCE", "-I", programs, *options, "-x", "c", "-", "-o", path], input=source, text=True,
                   check=True)
    return path


def test_library_that_waits_by_itself(dyntrace, processes, scratch):
    """(X11) libgomp makes system calls of its own, which are all futex: the program is read by plain loads. The second half of its work
    has no tracer."""
    path = build(scratch, "parts", PARTS, "-fopenmp")
    without = alone(path)
    target = Program(processes, path, []).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "say")
    until(lambda: has_handlers(target.pid), "handlers in front")
    target.go().wait_ready()
    trace = tracing.stop()
    assert int(status(target.pid, "SigCgt"), 16) & FAULTS == 0
    assert target.finish() == without[0] and without[1] == 0
    assert sorted((event.fields["number"], event.fields["text"]) for event in trace.events) == [
        (3 * turn + part, f"turn {turn} part {part}") for turn in range(300) for part in range(3)]
    assert trace.lost == 0


# Two system calls: one whose number the code tells, one whose number the caller tells.
OWN_CALLS = r"""
long told(long how, const unsigned long *set) {
	register long size __asm__("r10") = 8;
	long result;
	__asm__ volatile("syscall" : "=a"(result) : "a"(%dL), "D"(how), "S"(set), "d"(0L), "r"(size) : "rcx", "r11", "memory");
	return result;
}
long asked(long number, long how, const unsigned long *set) {
	register long size __asm__("r10") = 8;
	long result;
	__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(how), "S"(set), "d"(0L), "r"(size) : "rcx", "r11", "memory");
	return result;
}
"""

# A function that takes a text: four times while its page is there, and once when it can't be read any more.
GONE = r"""
__attribute__((noipa)) void take(const char *text) { __asm__ volatile("nop; nop; nop; nop; nop" : : "r"(text)); }

static void gone(void)
{
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	strcpy(page, "here");
	for (int i = 0; i < 4; i++)
		take(page);
	mprotect(page, 4096, PROT_NONE);
	take(page);
	munmap(page, 4096);
}
"""

CALLER = r"""
#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include "handshake.h"
""" + GONE + r"""
static long (*told)(long how, const unsigned long *set);
static long (*asked)(long number, long how, const unsigned long *set);

static void find(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);

	told = dlsym(library, "told");
	asked = dlsym(library, "asked");
}

int main(int argc, char **argv)
{
	unsigned long all = ~0UL;

	if (!LATE)
		find(LIBRARY);
	handshake(argc, argv);
	gone();
	if (LATE)
		find(LIBRARY);
	handshake(argc, argv);
	gone();
	if (asked)
		told(SIG_BLOCK, &all);
	gone();
	if (asked)
		told(SIG_UNBLOCK, &all);
	gone();
	if (asked)
		asked(14, SIG_BLOCK, &all);
	gone();
	printf("done\n");
	return 0;
}
"""


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("name, number, loads", [("harmless", 202, True), ("mask", 14, False), ("unsafe", 56, False)])
def test_library_with_calls_of_its_own(dyntrace, processes, scratch, name, number, loads, late):
    """(X10) A library that may block the signals by system calls of its own rules plain loads out, and ends them if it comes later; one
    whose calls are harmless doesn't."""
    source = OWN_CALLS % number
    if name != "mask":
        source = source[:source.index("long asked")]
    library = build(scratch, "own_calls.so", source, "-shared", "-fPIC")
    path = build(scratch, "caller", CALLER, f'-DLIBRARY="{library}"', f"-DLATE={late:d}")
    target = Program(processes, path, []).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "take").wait_told()
    if loads or late:
        until(lambda: has_handlers(target.pid), "handlers in front")
    target.go().wait_ready()
    if late and name != "harmless":
        until(lambda: not has_handlers(target.pid), "no handlers in front")
    assert has_handlers(target.pid) == (name == "harmless" or (loads and not late))
    assert target.finish() == "done\n"
    tracing.process.communicate(timeout=30)
    trace = Trace(tracing.output)
    assert [event.fields["text"].startswith("(unreadable") for event in trace.events] == ([False] * 4 + [True]) * 5
    assert trace.lost == 0


FUNCTION = "; .type asked, @function; .size asked, . - asked"

# Blocks the signals, in code without known functions but the last two. The number before the system call isn't the one that it makes.
MISLEADING_CODE = {
    "entered": "mov $14, %eax; jmp 1f; mov $39, %eax; 1: syscall; ret",
    "another_register": "mov $14, %eax; mov $39, %r8d; syscall; ret",
    "end_of_another": "lea 1f - 0x27(%rip), %rax; .byte 0x8b, 0x84, 0xb8; .long 0x27; syscall; ret; 1: .long 14",  # 0x27(%rax, %rdi, 4)
    "middle": "mov $14, %ecx; jmp 1f + 1; 1: mov $0x00ebc889, %eax; syscall; ret" + FUNCTION,  # mov %ecx, %eax; jmp . + 2
    "middle_of_another": "mov $14, %eax; jmp 1f + 2; mov $39, %eax; 1: mov $0x90909090, %r8d; syscall; ret" + FUNCTION,
    "x32": "mov $0x4000000e, %eax; syscall; ret" + FUNCTION,
}


@pytest.mark.parametrize("name", MISLEADING_CODE)
def test_misleading_code(dyntrace, processes, scratch, name):
    """(X10, X11) What stands before a system call tells its number only where nothing else leads there."""
    source = f'__asm__(".globl asked; asked: mov %rsi, %rdi; mov %rdx, %rsi; mov $8, %r10d; xor %edx, %edx; {MISLEADING_CODE[name]}");\n' \
             "void told(void) { }\n"
    library = build(scratch, "unknown.so", source, "-shared", "-fPIC", "-nostdlib")
    path = build(scratch, "caller", CALLER, f'-DLIBRARY="{library}"', "-DLATE=0")
    target = Program(processes, path, []).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "take").wait_told()
    assert not has_handlers(target.pid)
    assert target.finish() == "done\n"
    tracing.process.communicate(timeout=30)
    assert [event.fields["text"].startswith("(unreadable") for event in Trace(tracing.output).events] == ([False] * 4 + [True]) * 5


def test_program_linked_with_the_agent(dyntrace, processes, scratch):
    """The agent's file makes system calls of its own, but nothing of it runs besides the copy that the tracer maps."""
    folder = os.path.dirname(dyntrace.path)
    path = build(scratch, "linked", CALLER, '-DLIBRARY="libc.so.6"', "-DLATE=0", "-Wl,--no-as-needed", f"-L{folder}", f"-Wl,-rpath,{folder}",
                 "-l:libdyntrace-agent.so")
    target = Program(processes, path, []).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "take")
    until(lambda: has_handlers(target.pid), "handlers in front")
    assert target.go().wait_ready().finish() == "done\n"
    tracing.process.communicate(timeout=30)
    trace = Trace(tracing.output)
    assert [event.fields["text"].startswith("(unreadable") for event in trace.events] == ([False] * 4 + [True]) * 5
    assert trace.lost == 0


SHARERS = r"""
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include "handshake.h"
#define PAGE 4096
#define TURNS 1000

__attribute__((noipa)) void take(const char *text) { __asm__ volatile("nop; nop; nop; nop; nop" : : "r"(text) : "memory"); }
static void on_fault(int number) { _exit(50 + number); }

static int other(void *what)
{
	sigset_t all;

	sigfillset(&all);
	if (!strcmp(what, "default"))
		signal(SIGSEGV, SIG_DFL);
	if (!strcmp(what, "handler"))
		signal(SIGSEGV, on_fault);
	if (!strcmp(what, "mask"))
		sigprocmask(SIG_SETMASK, &all, NULL);
	for (int i = 0; i < TURNS; i++) {
		char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		strcpy(page, "here");
		take(page);
		take(page);
		mprotect(page, PAGE, PROT_NONE);
		take(page);
		munmap(page, PAGE);
	}
	return 0;
}

/* A process that shares this one's memory and thread block, with a stack inside of this thread's. */
int main(int argc, char **argv)
{
	static char block[1 << 16] __attribute__((aligned(64)));
	char stack[1 << 18], *text = strdup("text");
	int flags = CLONE_VM | SIGCHLD | (OWN_BLOCK ? CLONE_SETTLS : 0), status = -1;

	*(char **)(block + PAGE) = *(char **)(block + PAGE + 16) = block + PAGE; /* as a libc has it */
	handshake(argc, argv);
	for (int i = 0; i < 20; i++)
		take(text);
	int pid = clone(other, stack + sizeof(stack), flags, argv[argc - 1], NULL, block + PAGE);
	while (waitpid(pid, &status, WNOHANG | __WALL) == 0)
		take(text);
	printf("%x\n", status);
	return 0;
}
"""


@pytest.mark.parametrize("own_block", [False, True])
@pytest.mark.parametrize("what", ["default", "handler", "mask"])
def test_process_that_shares_the_memory(dyntrace, processes, scratch, what, own_block):
    """(X10) Such a process has masks and actions of its own, and perhaps the thread block of a thread that runs beside it."""
    path = build(scratch, "sharers", SHARERS, f"-DOWN_BLOCK={own_block:d}")
    target = Program(processes, path, [what]).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "take")
    until(lambda: has_handlers(target.pid), "handlers in front")
    assert target.finish() == "0\n"
    tracing.process.communicate(timeout=30)


NULLS = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
struct node { long id; const char *name; struct node *next; const char *last; };
__attribute__((noipa)) void visit(struct node *node) { __asm__ volatile("nop; nop; nop; nop; nop" : : "r"(node) : "memory"); }
int main(int argc, char **argv)
{
	struct node node = { 1, (const char *)8, (struct node *)strtoul(argv[1], NULL, 0), (const char *)-1 };
	fprintf(stderr, "ready\\n");
	getchar();
	for (int i = 0; i < 2000; i++)
		visit(&node);
	fprintf(stderr, "done\\n");
	getchar();
	return 0;
}
"""


@pytest.mark.parametrize("address", [0, 4000, 1 << 60])
def test_null_pointers_take_no_call(dyntrace, processes, scratch, address):
    """What no program has is known to be unreadable without asking the kernel: a null pointer with a member's offset, say."""
    path = os.path.join(scratch, "nulls")
    subprocess.run(["gcc", "-O1", "-g", "-x", "c", "-", "-o", path], input=NULLS, text=True, check=True)
    watched = Watched(dyntrace, processes, path, scratch, str(address), "--function", "visit", "-t", "var:node->next->id", "-t", "var:node->next->name",
                      "-t", "var:node->name", "-t", "var:node->last")
    watched.go()
    trace, calls = watched.end()
    values = [0, "(unreadable)", "(unreadable 0x8)", "(unreadable 0xffffffffffffffff)", "node->next->id"]
    assert [list(event.fields.values())[1:] for event in trace.events] == [values] * 2000
    assert trace.lost == 0 and calls < 200  # a few for the first hits, and for each chunk
