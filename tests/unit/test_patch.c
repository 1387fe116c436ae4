/*
 * A target of our own: a forked child whose threads call functions without end and check what they
 * return. Its text is this program's; the trampolines' memory is shared, so that they are written
 * from here. The rules P1 to P8 are those of patch.h.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/base/cleanup.h"
#include "control/code/near.h"
#include "control/code/relocate.h"
#include "control/patch/patch.h"

#include "thin.h"

#define VICTIMS 64
#define THREADS 4
#define CODE_SIZE 65536u
#define STACK_SIZE 65536u
#define HOLD_NS 30000000u
#define TIMEOUT_MS 20000 /* only what hangs takes as long */

/* ---- the functions -------------------------------------------------------------------------- */

/*
 * victim_N(x) = x + N; the first instructions are 1, 3 and 4 bytes. Spread over pages, and every
 * eighth starts 3 bytes before a page's end. victim_table has their addresses.
 */
__asm__(".intel_syntax noprefix\n"
	".pushsection .data.rel.ro.victims, \"aw\"\n.globl "
	"victim_table\nvictim_table:\n.popsection\n"
	".text\n"
	".balign 4096\n"
	".set n, 0\n"
	".rept 64\n"
	" .if n & 7\n  .balign 64\n"
	" .else\n  .balign 4096\n  .skip 4093\n .endif\n"
	" .pushsection .data.rel.ro.victims, \"aw\"\n .quad 1f\n .popsection\n"
	"1: push rbp\n mov rbp, rsp\n lea rax, [rdi+0x11]\n add rax, n - 0x11\n pop rbp\n ret\n"
	" .set n, n + 1\n"
	".endr\n"
	/* read(rdi, rsi, rdx): the call in the middle of the first 5 bytes, and at their end */
	".balign 64\n.globl read_in_middle\n"
	"read_in_middle: xor eax, eax\n syscall\n nop\n ret\n"
	".balign 64\n.globl read_at_end\n"
	"read_at_end: nop\n xor eax, eax\n syscall\n ret\n"
	".balign 4096\n"
	".att_syntax\n");
extern uint64_t (*const victim_table[VICTIMS])(uint64_t);
ssize_t read_in_middle(int fd, void *to, size_t n);
ssize_t read_at_end(int fd, void *to, size_t n);

/* ---- writes that fail ----------------------------------------------------------------------- */

/* Writes to a page that fail: of those that touch it, `count` after the first `skip`. */
static struct refused {
	uint64_t page;
	size_t skip, count;
} refused[2];

static void allow_writes(void)
{
	memset(refused, 0, sizeof(refused));
}

static void refuse_writes(taddr at, size_t skip, size_t count)
{
	refused[refused[0].page != 0] =
		(struct refused){ at.v & ~(DT_PAGE - 1), skip, count };
}

static bool is_refused(struct refused *one, uint64_t from, uint64_t end)
{
	if (!one->count || end <= one->page || from >= one->page + DT_PAGE)
		return false;
	if (one->skip) {
		one->skip--;
		return false;
	}
	one->count--;
	return true;
}

/* The linker hands all calls of mem_write to this one. */
struct error *__real_mem_write(struct proc *proc, taddr to, const void *from, size_t size);
struct error *__wrap_mem_write(struct proc *proc, taddr to, const void *from, size_t size);
struct error *__wrap_mem_write(struct proc *proc, taddr to, const void *from, size_t size)
{
	for (size_t i = 0; i < 2; i++) {
		if (is_refused(&refused[i], to.v, to.v + size))
			return error_new(ERROR_FAILED, "no write");
	}
	return __real_mem_write(proc, to, from, size);
}

/* ---- the target ----------------------------------------------------------------------------- */

/* Shared by both. */
struct shared {
	atomic_bool wrong; /* a function returned something else */
	atomic_ulong calls[THREADS];
	atomic_int ready; /* threads at their places */
	atomic_ulong word; /* what lies on a stack */
	atomic_bool word_goes; /* it is still there, for two instructions */
	atomic_bool leave;
	char got[8];
	ssize_t got_size;
};

static struct shared *shared;
static uint8_t *code; /* trampolines */
static uint8_t *stack; /* the child's */

struct target {
	pid_t pid;
	struct proc *proc;
	int go[2]; /* pipes to the child */
	int go_signal[2];
};

static struct target target;

static void *call_forever(void *number)
{
	size_t me = (size_t)number;

	for (uint64_t x = me * 1000;; x++) {
		size_t n = x % VICTIMS;

		if (victim_table[n](x) != x + n)
			shared->wrong = true;
		shared->calls[me]++;
	}
	return NULL;
}

static void child_calls(void)
{
	pthread_t thread;

	for (size_t i = 1; i < THREADS; i++)
		pthread_create(&thread, NULL, call_forever, (void *)i);
	shared->ready++;
	call_forever(NULL);
}

static void child_reads(ssize_t (*read_fn)(int, void *, size_t))
{
	shared->ready++;
	shared->got_size = read_fn(target.go[0], shared->got, sizeof(shared->got));
	shared->ready++;
	pause();
}

static void child_reads_in_middle(void)
{
	child_reads(read_in_middle);
}

static void child_reads_at_end(void)
{
	child_reads(read_at_end);
}

/* Keeps shared->word on its stack, until victim 1 is seen patched and `leave` allows it. */
static void child_holds_word(void)
{
	volatile uint64_t on_stack = shared->word;

	shared->ready++;
	while (!shared->leave || *(volatile const uint8_t *)victim_table[1] != 0xe9)
		sched_yield();
	shared->word_goes = true;
	on_stack = 0;
	shared->ready++;
	while (on_stack == 0)
		sched_yield();
}

static uint64_t own_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Keeps shared->word on its stack until it has run for some time. */
static void child_holds_word_a_while(void)
{
	volatile uint64_t on_stack = shared->word;

	shared->ready++;
	while (!shared->leave)
		sched_yield();
	for (uint64_t from = own_ns(); own_ns() < from + HOLD_NS;)
		;
	shared->word_goes = true;
	on_stack = 0;
	shared->ready++;
	while (on_stack == 0)
		sched_yield();
}

static void handler(int signal)
{
	char byte;

	shared->ready++;
	while (read(target.go_signal[0], &byte, 1) != 1)
		;
}

static void use_alternate_stack(void)
{
	static char alternate[65536] __attribute__((aligned(4096)));
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK | SA_RESTART };

	sigaltstack(&(stack_t){ .ss_sp = alternate, .ss_size = sizeof(alternate) }, NULL);
	sigaction(SIGUSR1, &action, NULL);
}

/* Interrupted in the middle of a function; the handler waits on another stack. */
static void child_in_handler(void)
{
	use_alternate_stack();
	child_reads(read_in_middle);
}

/* A word deep in the ordinary stack, while the thread runs on the alternate one. */
static void child_in_handler_with_word(void)
{
	volatile uint64_t on_stack = shared->word;

	use_alternate_stack();
	raise(SIGUSR1);
	while (on_stack)
		sched_yield();
}

/* A page of text, shared with a file. */
static void child_idles(void)
{
	shared->ready++;
	for (;;)
		pause();
}

static void wait_for(bool (*condition)(void))
{
	while (!condition()) {
		assert_int_equal(waitpid(target.pid, NULL, WNOHANG), 0);
		sched_yield();
	}
}

static bool is_ready(void)
{
	return shared->ready >= 1;
}

static bool is_ready_2(void)
{
	return shared->ready >= 2;
}

/*
 * The child runs on a stack of its own: what it inherits of ours is full of addresses of
 * trampolines. word: for shared->word.
 */
static void start(void (*run)(void), uint64_t word)
{
	static const int fatal[] = { SIGSEGV, SIGILL, SIGBUS, SIGFPE, SIGSYS, SIGTRAP };
	static ucontext_t context;

	memset(shared, 0, sizeof(*shared));
	shared->word = word;
	assert_int_equal(pipe2(target.go, O_CLOEXEC), 0);
	assert_int_equal(pipe2(target.go_signal, O_CLOEXEC), 0);
	target.pid = fork();
	assert_true(target.pid >= 0);
	if (target.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (size_t i = 0; i < sizeof(fatal) / sizeof(*fatal); i++)
			signal(fatal[i], SIG_DFL); /* cmocka catches them */
		getcontext(&context);
		context.uc_stack = (stack_t){ .ss_sp = stack, .ss_size = STACK_SIZE };
		makecontext(&context, run, 0);
		setcontext(&context);
	}
	assert_null(proc_open_plain(target.pid, &target.proc));
}

static int stop_target(void **state)
{
	int status;

	allow_writes();
	if (target.pid <= 0)
		return 0;
	kill(target.pid, SIGKILL);
	waitpid(target.pid, &status, 0);
	proc_close(target.proc);
	for (int i = 0; i < 2; i++) {
		close(target.go[i]);
		close(target.go_signal[i]);
	}
	memset(&target, 0, sizeof(target));
	return 0;
}

/* It still runs, and nothing went wrong in it. */
static void check_alive(void)
{
	assert_int_equal(waitpid(target.pid, NULL, WNOHANG), 0);
	assert_false(shared->wrong);
}

/* Each thread has made some more calls. */
static void check_progress(void)
{
	for (size_t i = 0; i < THREADS; i++) {
		unsigned long before = shared->calls[i];

		while (shared->calls[i] < before + 2 * VICTIMS) {
			check_alive();
			sched_yield();
		}
	}
	check_alive();
}

/* ---- sites ---------------------------------------------------------------------------------- */

/* Moves whole instructions of at least `room` bytes and jumps back. */
static struct patch_site make_long_site(const void *address, size_t number, size_t room)
{
	uint8_t *at = code + number * 128;
	taddr pc = taddr_of((uint64_t)address);
	struct patch_site site = { .address = pc, .tramp_start = taddr_of((uint64_t)at) };
	struct emitter e;

	emit_init(&e, at, 128, site.tramp_start);
	while (site.length < room) {
		struct insn insn;

		assert_true(decode((const uint8_t *)address + site.length, 16,
				   taddr_add(pc, site.length), &insn));
		site.moves[site.move_count++] = (struct patch_move){ site.length, emit_pc(&e) };
		for (size_t i = 0; site.length == 0 && i < 4;
		     i++) { /* a probe's code: no boundaries */
			emit_push(&e, RCX);
			emit_pop(&e, RCX);
		}
		assert_null(relocate(&insn, &e));
		site.length += insn.length;
	}
	site.moves[site.move_count++] = (struct patch_move){ site.length, emit_pc(&e) };
	emit_jmp_to(&e, taddr_add(pc, site.length));
	site.tramp_end = emit_pc(&e);
	memcpy(site.original, address, site.length);
	memset(site.patched, 0xcc, site.length); /* behind the jump: an error to be seen */
	emit_init(&e, site.patched, sizeof(site.patched), pc);
	emit_jmp_to(&e, site.tramp_start);
	assert_false(emit_failed(&e));
	return site;
}

static struct patch_site make_site(const void *address, size_t number)
{
	return make_long_site(address, number, 5);
}

static struct patch_site sites[VICTIMS];
static struct patch_site *list[VICTIMS];

static void make_sites(size_t count)
{
	for (size_t i = 0; i < count; i++) {
		sites[i] = make_site(victim_table[i], i);
		list[(i * 29) % count] = &sites[i]; /* in no order */
	}
}

static void free_errors(size_t count)
{
	for (size_t i = 0; i < count; i++) {
		error_free(sites[i].error);
		sites[i].error = NULL;
	}
}

static void target_holds(const struct patch_site *site, const uint8_t *bytes)
{
	uint8_t now[DT_SITE_BYTES];

	assert_null(mem_read(target.proc, site->address, now, site->length));
	assert_memory_equal(now, bytes, site->length);
}

static void check_placed(size_t count, const struct patch_stats *stats)
{
	for (size_t i = 0; i < count; i++) {
		if (list[i]->error)
			fail_msg("%s", error_text(list[i]->error));
		assert_int_equal(list[i]->state, PATCH_PLACED);
		target_holds(list[i], list[i]->patched);
	}
	assert_int_equal(stats->placed, count);
	assert_int_equal(stats->failed, 0);
	assert_true(stats->stopped_us > 0);
}

static void place_ok(size_t count)
{
	struct patch_stats stats;

	assert_null(patch_place(target.proc, NULL, list, count, NULL, &stats));
	check_placed(count, &stats);
}

static void remove_ok(size_t count)
{
	struct patch_stats stats;
	bool idle = false;

	assert_null(patch_remove(target.proc, list, count, 10000, NULL, &idle, &stats));
	assert_true(idle);
	memset(code, 0xcc, CODE_SIZE); /* a deadly trap for who comes back */
	for (size_t i = 0; i < count; i++) {
		assert_null(list[i]->error);
		assert_int_equal(list[i]->state, PATCH_REMOVED);
		target_holds(list[i], list[i]->original);
	}
}

/* ---- under load (P1) ------------------------------------------------------------------------ */

static void test_crossing_is_tested(void **state)
{
	size_t crossing = 0;

	for (size_t i = 0; i < VICTIMS; i++)
		crossing += (uint64_t)victim_table[i] % 4096 == 4093;
	assert_int_equal(crossing, VICTIMS / 8);
	assert_int_equal(victim_table[5](7), 12);
}

/* (P1) Sites come and go while threads run through them: no thread runs half a patch. */
static void test_hundreds_of_times(void **state)
{
	start(child_calls, 0);
	wait_for(is_ready);
	for (int i = 0; i < THIN(600, 100); i++) {
		make_sites(VICTIMS);
		place_ok(VICTIMS);
		if (i % 20 == 0)
			check_progress();
		remove_ok(VICTIMS);
		check_alive();
	}
	check_progress();
}

/* The jump really is taken: int3 in the trampoline ends the target. */
static void test_trampoline_is_used(void **state)
{
	struct patch_stats stats;
	int status;

	start(child_calls, 0);
	wait_for(is_ready);
	make_sites(1);
	memset(code, 0xcc, 128);
	assert_null(patch_place(target.proc, NULL, list, 1, NULL, &stats));
	assert_int_equal(waitpid(target.pid, &status, 0), target.pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTRAP);
	target.pid = 0;
	proc_close(target.proc);
}

/* A caller's own stop: nothing is retried, nothing released. */
static void test_held(void **state)
{
	struct patch_stats stats;
	struct stop *stop;

	start(child_calls, 0);
	wait_for(is_ready);
	make_sites(VICTIMS);
	assert_null(stop_all(target.proc, TIMEOUT_MS, &stop));
	assert_int_equal(stop_thread_count(stop), THREADS);
	assert_null(patch_place(target.proc, stop, list, VICTIMS, NULL, &stats));

	unsigned long before = shared->calls[0];

	assert_int_equal(stats.placed, VICTIMS);
	assert_int_equal(before, shared->calls[0]);
	stop_release(stop, NULL);
	check_progress();
	remove_ok(VICTIMS);
	check_progress();
}

/* ---- threads inside (P3) -------------------------------------------------------------------- */

static bool is_asleep(void)
{
	char path[64], text[256] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/syscall", target.pid);
	file = fopen(path, "r");
	if (!file)
		return false;
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	fclose(file);
	return text[0] == '0'; /* read */
}

static uint64_t rip_of_target(void)
{
	struct stop *stop;
	uint64_t rip;

	assert_null(stop_all(target.proc, TIMEOUT_MS, &stop));
	rip = stop_thread_rip(stop, 0).v;
	stop_release(stop, NULL);
	return rip;
}

static void finish_read(void)
{
	assert_int_equal(write(target.go[1], "hello", 5), 5);
	wait_for(is_ready_2);
	assert_int_equal(shared->got_size, 5);
	assert_memory_equal(shared->got, "hello", 5);
}

/* Asleep in a system call inside the site: goes on in the copy; and back when it is removed. */
static void sleeper(void (*run)(void), const void *function, bool remove_first, size_t move)
{
	start(run, 0);
	wait_for(is_ready);
	wait_for(is_asleep);
	sites[0] = make_site(function, 0);
	list[0] = &sites[0];
	assert_int_equal(sites[0].length, 5);
	place_ok(1);
	wait_for(is_asleep);
	assert_int_equal(rip_of_target(), sites[0].moves[move].copy.v);
	if (remove_first) {
		wait_for(is_asleep);
		remove_ok(1);
		wait_for(is_asleep);
		assert_int_equal(rip_of_target(), sites[0].address.v + sites[0].moves[move].offset);
		finish_read();
	} else {
		finish_read();
		remove_ok(1);
	}
}

/* (P3) */
static void test_sleeper_in_middle(void **state)
{
	sleeper(child_reads_in_middle, read_in_middle, false, 2);
}

static void test_sleeper_in_middle_removed(void **state)
{
	sleeper(child_reads_in_middle, read_in_middle, true, 2);
}

/* Its RIP is behind the site, but the kernel restarts the call inside it. */
static void test_sleeper_at_end(void **state)
{
	sleeper(child_reads_at_end, read_at_end, false, 3);
}

static void test_sleeper_at_end_removed(void **state)
{
	sleeper(child_reads_at_end, read_at_end, true, 3);
}

/* No boundary of ours there: the site is put off, and fails in the end. */
static void test_sleeper_without_move(void **state)
{
	struct patch_stats stats;

	start(child_reads_in_middle, 0);
	wait_for(is_ready);
	wait_for(is_asleep);
	sites[0] = make_site(read_in_middle, 0);
	sites[0].moves[2].offset = 3;
	list[0] = &sites[0];
	assert_null(patch_place(target.proc, NULL, list, 1, NULL, &stats));
	assert_int_equal(stats.failed, 1);
	assert_int_equal(sites[0].state, PATCH_FAILED);
	assert_int_equal(error_kind(sites[0].error), ERROR_REFUSED);
	assert_non_null(strstr(error_text(sites[0].error), "is in use: a thread is inside it"));
	target_holds(&sites[0], sites[0].original);
	free_errors(1);
	finish_read();
}

/* ---- words on stacks (P4) ------------------------------------------------------------------- */

static void refuse_first(const char *why)
{
	struct patch_stats stats;

	assert_null(patch_place(target.proc, NULL, list, 2, NULL, &stats));
	assert_int_equal(stats.placed, 1);
	assert_int_equal(stats.failed, 1);
	assert_int_equal(sites[0].state, PATCH_FAILED);
	assert_non_null(strstr(error_text(sites[0].error), why));
	target_holds(&sites[0], sites[0].original);
	assert_int_equal(sites[1].state, PATCH_PLACED);
	target_holds(&sites[1], sites[1].patched);
	free_errors(2);
}

/* (P4) */
static void test_word_on_stack(void **state)
{
	make_sites(2);
	start(child_holds_word, sites[0].address.v + 1);
	wait_for(is_ready);
	refuse_first("is in use: a stack holds an address inside it");
	shared->leave = true;
	wait_for(is_ready_2); /* the word is gone: nothing is in the way */
	sites[0].state = PATCH_PLANNED;
	place_ok(2);
	remove_ok(2);
}

/* The word goes away while we are at it: put off, tried again, placed. */
static void test_word_goes_away(void **state)
{
	make_sites(2);
	start(child_holds_word, sites[0].address.v + 4);
	shared->leave = true;
	wait_for(is_ready);
	place_ok(2);
	assert_true(shared->word_goes);
	remove_ok(2);
}

/* The start of a site is no inside, nor is its end. */
static void test_word_beside(void **state)
{
	for (int end = 0; end < 2; end++) {
		make_sites(2);
		start(child_holds_word, sites[0].address.v + (end ? sites[0].length : 0));
		wait_for(is_ready);
		place_ok(2);
		remove_ok(2);
		stop_target(NULL);
	}
}

/* What the patch leaves as it was can be returned to. */
static void test_word_behind_jump(void **state)
{
	make_sites(2);
	memcpy(sites[0].patched + 5, sites[0].original + 5, sites[0].length - 5);
	start(child_holds_word, sites[0].address.v + 6);
	wait_for(is_ready);
	place_ok(2);
	remove_ok(2);
}

/* The saved RIP of an interrupted thread, on the alternate stack. */
static void test_signal_frame(void **state)
{
	make_sites(2);
	sites[0] = make_site(read_in_middle, 0);
	start(child_in_handler, 0);
	wait_for(is_ready);
	wait_for(is_asleep);
	kill(target.pid, SIGUSR1);
	wait_for(is_ready_2);
	refuse_first("is in use: a stack holds an address inside it");
}

/* On the alternate stack: the ordinary one is found through the signal frame. */
static void test_stack_behind_signal_frame(void **state)
{
	make_sites(2);
	start(child_in_handler_with_word, sites[0].address.v + 1);
	wait_for(is_ready);
	refuse_first("is in use: a stack holds an address inside it");
}

/* ---- threads in trampolines (P5) ------------------------------------------------------------ */

#define SPIN_AT 2 /* in the trampoline, where no boundary is: behind the first push and pop */

static void child_calls_one(void)
{
	use_alternate_stack();
	for (uint64_t x = 0;; x++) {
		if (victim_table[0](x) != x)
			shared->wrong = true;
		shared->calls[0]++;
	}
}

/* Places site 0 with an endless loop in its trampoline, and waits until the thread is in there. */
static void catch_thread(void)
{
	make_sites(2);
	memcpy(code + SPIN_AT, "\xeb\xfe", 2);
	start(child_calls_one, 0);
	place_ok(2);
	while (rip_of_target() != sites[0].tramp_start.v + SPIN_AT)
		check_alive();
}

static void let_thread_go(void)
{
	memcpy(code + SPIN_AT, "\x90\x90", 2); /* one store */
}

static void remove_busy(void)
{
	struct patch_stats stats;
	bool idle = true;

	assert_null(patch_remove(target.proc, list, 2, 20, NULL, &idle, &stats));
	assert_false(idle);
	target_holds(&sites[0], sites[0].original);
	target_holds(&sites[1], sites[1].original);
	assert_int_equal(sites[0].state, PATCH_REMOVED);
}

/* Does patch_find_threads see somebody in site 0's trampoline? */
static bool someone_in_trampoline(void)
{
	struct patch_range range = { .start = sites[0].tramp_start, .end = sites[0].tramp_end };
	struct stop *stop;
	bool found;

	assert_null(stop_all(target.proc, TIMEOUT_MS, &stop));
	assert_null(patch_find_threads(target.proc, stop, &range, 1, &found));
	stop_release(stop, NULL);
	return found;
}

static bool is_trampoline_empty(void)
{
	return !someone_in_trampoline();
}

/* Does patch_find_threads see the thread that spins, in code that was called, by its return
 * address? */
static bool finds_return_to(uint64_t address)
{
	taddr spin = taddr_add(sites[0].tramp_start, SPIN_AT);
	struct patch_range ranges[] = {
		{ .start = spin, .end = taddr_add(spin, 2), .is_called = true },
		{ .start = taddr_of(address), .end = taddr_of(address + 1) },
	};
	struct stop *stop;
	bool found;

	assert_null(stop_all(target.proc, TIMEOUT_MS, &stop));
	assert_null(patch_find_threads(target.proc, stop, ranges, 2, &found));
	stop_release(stop, NULL);
	return found;
}

static uint64_t return_address(void)
{
	struct stop *stop;
	uint64_t word;

	assert_null(stop_all(target.proc, TIMEOUT_MS, &stop));
	assert_null(mem_read(target.proc, stop_thread_rsp(stop, 0), &word, sizeof(word)));
	stop_release(stop, NULL);
	return word;
}

/* A thread in shared code counts if it returns to one of the ranges, also out of a handler. */
static void test_returns_to_range(void **state)
{
	uint64_t word;

	catch_thread();
	word = return_address();
	assert_true(finds_return_to(word));
	assert_false(finds_return_to(word + 1));
	kill(target.pid, SIGUSR1);
	wait_for(is_ready);
	assert_true(finds_return_to(word));
	assert_false(finds_return_to(word + 1));
}

static void test_not_idle(void **state)
{
	catch_thread();
	remove_busy();
	assert_true(someone_in_trampoline());
	let_thread_go();
	wait_for(is_trampoline_empty);
	check_alive();
}

/* The one in the trampoline was interrupted, and its handler is at work: it will come back. */
static void test_not_idle_in_handler(void **state)
{
	catch_thread();
	kill(target.pid, SIGUSR1);
	wait_for(is_ready);
	remove_busy();
	assert_true(someone_in_trampoline());
	let_thread_go();
	assert_true(someone_in_trampoline());
	assert_int_equal(write(target.go_signal[1], "x", 1), 1);
	wait_for(is_trampoline_empty);
	check_alive();
}

/* Lets the thread go as soon as the original bytes are back. */
static void *let_go_later(void *unused)
{
	uint8_t now[DT_SITE_BYTES];
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", target.pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (pread(fd, now, sites[0].length, (off_t)sites[0].address.v) == sites[0].length &&
	       memcmp(now, sites[0].original, sites[0].length) != 0)
		sched_yield();
	close(fd);
	let_thread_go();
	return NULL;
}

/* (P5) The trampoline stays until no thread is in it. */
static void test_waits_until_idle(void **state)
{
	pthread_t helper;

	catch_thread();
	assert_int_equal(pthread_create(&helper, NULL, let_go_later, NULL), 0);
	remove_ok(2);
	assert_int_equal(pthread_join(helper, NULL), 0);
	check_alive();
}

static bool is_starved; /* the thread inside runs only if nobody stops it for 200 ms */
static bool pauses_are_short; /* the target has hardly run when they are over */

/* In front of the libc's. */
int nanosleep(const struct timespec *time, struct timespec *ret_left)
{
	if (is_starved && (time->tv_sec || time->tv_nsec >= 200000000)) {
		is_starved = false;
		let_thread_go();
	}
	if (pauses_are_short)
		return sched_yield();
	return (int)syscall(SYS_nanosleep, time, ret_left);
}

/* (P5) On a busy machine a thread waits for a processor: stops in quick succession would catch it
 * each time before it has run at all. */
static void test_waits_for_a_starved_thread(void **state)
{
	catch_thread();
	is_starved = true;
	remove_ok(2);
	assert_false(is_starved);
	check_alive();
}

/* The word would go away, but the target does not get to run: the target is waited for, not the
 * clock. */
static void test_word_in_a_starved_target(void **state)
{
	make_sites(2);
	start(child_holds_word_a_while, sites[0].address.v + 4);
	wait_for(is_ready);
	shared->leave = true;
	pauses_are_short = true;
	place_ok(2);
	pauses_are_short = false;
	assert_true(shared->word_goes);
	remove_ok(2);
}

/* A stale word isn't enough: threads that have been in there leave many. */
static void test_find_threads(void **state)
{
	struct patch_range ranges[2] = { { .start = taddr_of(0x1000), .end = taddr_of(0x2000) } };
	struct stop *stop;
	bool found;

	make_sites(1);
	start(child_holds_word, (uint64_t)code + 100);
	wait_for(is_ready);
	assert_null(stop_all(target.proc, TIMEOUT_MS, &stop));
	ranges[1] = (struct patch_range){ .start = taddr_of((uint64_t)code + 100),
					  .end = taddr_of((uint64_t)code + 101) };
	assert_null(patch_find_threads(target.proc, stop, ranges, 2, &found));
	assert_false(found);
	/* by RIP */
	ranges[1].start = stop_thread_rip(stop, 0);
	ranges[1].end = taddr_add(ranges[1].start, 1);
	assert_null(patch_find_threads(target.proc, stop, ranges, 2, &found));
	assert_true(found);
	/* by rsp */
	ranges[1].start = stop_thread_rsp(stop, 0);
	ranges[1].end = taddr_add(ranges[1].start, 1);
	assert_null(patch_find_threads(target.proc, stop, ranges, 2, &found));
	assert_true(found);
	assert_null(patch_find_threads(target.proc, stop, ranges, 1, &found));
	assert_false(found);
	stop_release(stop, NULL);
}

/* ---- sites that depend on each other (P6, P7, P8) -------------------------------------------- */

#define SLOT 5 /* offset of a slot: behind the host's jump */

/* Makes sites[0] a host with a slot, and sites[1], whose jump leads through the slot. */
static void make_host_and_guest(void)
{
	struct patch_site *host = &sites[0], *guest = &sites[1];
	struct emitter e;

	*host = make_long_site(victim_table[1], 0, SLOT + 5);
	*guest = make_site(victim_table[2], 1);
	guest->after = host;
	guest->waypoint = taddr_add(host->address, SLOT);
	emit_init(&e, host->patched + SLOT, 5, guest->waypoint);
	emit_jmp_to(&e, guest->tramp_start);
	assert_false(emit_failed(&e));
	guest->patched[0] = 0xeb;
	guest->patched[1] = (uint8_t)taddr_diff(guest->waypoint, taddr_add(guest->address, 2));
	list[0] = guest;
	list[1] = host;
}

/* (P6) Another program has changed the guest, which is left alone: its jump, which may come back,
 * still leads through the host. */
static void test_host_is_kept(void **state)
{
	struct patch_stats stats;
	bool idle = true;

	make_host_and_guest();
	start(child_idles, 0);
	wait_for(is_ready);
	place_ok(2);
	assert_null(mem_write(target.proc, sites[1].address, "\xcc", 1)); /* a breakpoint */
	assert_null(patch_remove(target.proc, list, 2, 100, NULL, &idle, &stats));
	assert_false(idle);
	assert_non_null(strstr(error_text(sites[1].error), "changed by another program"));
	assert_non_null(strstr(error_text(sites[0].error), "jumps through"));
	target_holds(&sites[0], sites[0].patched);
	free_errors(2);
}

/* (H32) The guest's bytes can't be written once: both stay placed, and the next try restores
 * both. */
static void test_host_waits_for_guest(void **state)
{
	struct patch_stats stats;
	bool idle = true;

	make_host_and_guest();
	start(child_idles, 0);
	wait_for(is_ready);
	place_ok(2);
	refuse_writes(sites[1].address, 0, 1);
	struct error *error = patch_remove(target.proc, list, 2, 100, NULL, &idle, &stats);
	assert_non_null(error);
	error_free(error);
	assert_int_equal(sites[0].state, PATCH_PLACED);
	assert_int_equal(sites[1].state, PATCH_PLACED);
	remove_ok(2);
}

/* (P6) The host can't be placed: then the guest isn't. */
static void test_host_is_busy(void **state)
{
	struct patch_stats stats;

	make_host_and_guest();
	start(child_holds_word, sites[0].address.v + 1);
	wait_for(is_ready);
	assert_null(patch_place(target.proc, NULL, list, 2, NULL, &stats));
	assert_int_equal(stats.failed, 2);
	target_holds(&sites[0], sites[0].original);
	target_holds(&sites[1], sites[1].original);
	free_errors(2);
}

/* sites[2] is placed; 0 and 1 are to take its place. `busy`: a stack points into 0. */
static void start_group(bool busy)
{
	make_sites(3);
	for (size_t i = 0; i < 3; i++)
		list[i] = &sites[2 - i];
	start(child_holds_word, busy ? sites[0].address.v + 1 : 0);
	wait_for(is_ready);
	place_ok(1);
	for (size_t i = 0; i < 3; i++)
		sites[i].group = 1;
}

/* Neither of the new sites comes; the old one stays. `changed`: sites[0] has other bytes. */
static void group_stays(bool changed)
{
	struct patch_stats stats;

	assert_null(patch_place(target.proc, NULL, list, 3, NULL, &stats));
	assert_int_equal(stats.failed, 2);
	assert_int_equal(sites[2].state, PATCH_PLACED);
	target_holds(&sites[2], sites[2].patched);
	target_holds(&sites[1], sites[1].original);
	if (!changed)
		target_holds(&sites[0], sites[0].original);
	free_errors(3);
}

/* (P7) One of two new sites is in use: the other one waits, too, and the old site stays. */
static void test_group_waits_together(void **state)
{
	start_group(true);
	group_stays(false);
}

/* (P7) The bytes of one of two new sites have changed: the other one fails, too. */
static void test_group_fails_together(void **state)
{
	start_group(false);
	assert_null(mem_write(target.proc, taddr_add(sites[0].address, 3), "\x77", 1));
	group_stays(true);
}

/* (P7) Nothing is in the way: all of them change. */
static void test_group_changes_together(void **state)
{
	struct patch_stats stats;

	start_group(false);
	assert_null(patch_place(target.proc, NULL, list, 3, NULL, &stats));
	assert_int_equal(stats.placed, 2);
	assert_int_equal(sites[2].state, PATCH_REMOVED);
	target_holds(&sites[2], sites[2].original);
	target_holds(&sites[1], sites[1].patched);
	target_holds(&sites[0], sites[0].patched);
}

/* sites[2] is placed; 0, in the same page, and 1, in another page, are to take its place. The page
 * of 1 can't be written, as where a memory cgroup is full. `both`: the page of 0 only once. */
static void start_split_group(bool both)
{
	static const size_t victims[] = { 1, 9, 2 };

	for (size_t i = 0; i < 3; i++) {
		sites[i] = make_site(victim_table[victims[i]], i);
		list[2 - i] = &sites[i];
	}
	start(child_idles, 0);
	wait_for(is_ready);
	place_ok(1);
	for (size_t i = 0; i < 3; i++)
		sites[i].group = 1;
	refuse_writes(sites[1].address, 0, SIZE_MAX);
	if (both)
		refuse_writes(sites[0].address, 1, SIZE_MAX);
}

/* (P7, H32) A page that was never written needs no write to be as it was: the old site is back. */
static void test_group_comes_back(void **state)
{
	start_split_group(false);
	group_stays(false);
	allow_writes();
}

/* (H32) The first new site's bytes can't be taken back: it counts as placed until they are. */
static void test_group_is_not_lost(void **state)
{
	struct patch_stats stats;

	start_split_group(true);
	struct error *error = patch_place(target.proc, NULL, list, 3, NULL, &stats);
	assert_non_null(error);
	error_free(error);
	allow_writes();
	target_holds(&sites[0], sites[0].patched);
	assert_int_equal(sites[0].state, PATCH_PLACED);
	assert_int_equal(sites[1].state, PATCH_FAILED);
	target_holds(&sites[1], sites[1].original);
	free_errors(3);
	list[0] = &sites[0];
	remove_ok(1);
}

/* (P8) The trampoline of a removed site leads into a new site's bytes: to its copy from then on. */
static void test_redirect(void **state)
{
	struct patch_site *old = &sites[0], *new = &sites[1];
	const struct patch_move *end;
	int32_t distance;

	*old = make_site(victim_table[1], 0);
	end = &old->moves[old->move_count - 1];
	*new = make_site((const uint8_t *)victim_table[1] + old->moves[2].offset, 1);
	assert_true(new->address.v < old->address.v + old->length);
	old->state = PATCH_REMOVED;
	old->back.distance = (uint8_t *)end->copy.v + 1;
	old->back.end = taddr_add(end->copy, 5);
	list[0] = old;
	list[1] = new;
	start(child_idles, 0);
	wait_for(is_ready);

	struct patch_stats stats;

	assert_null(patch_place(target.proc, NULL, list, 2, NULL, &stats));
	assert_int_equal(new->state, PATCH_PLACED);
	assert_ptr_equal(old->redirect_to, new);
	memcpy(&distance, old->back.distance, sizeof(distance));
	assert_int_equal(old->back.end.v + (uint64_t)(int64_t)distance, new->moves[1].copy.v);
}

/* ---- bytes changed by others (P2) ----------------------------------------------------------- */

/* (P2) Bytes that changed since planning: the site fails, and the bytes stay. */
static void test_changed_before(void **state)
{
	struct patch_stats stats;
	uint8_t now[DT_SITE_BYTES];

	start(child_idles, 0);
	wait_for(is_ready);
	make_sites(2);
	assert_null(mem_write(target.proc, taddr_add(sites[0].address, 7), "\xcc", 1));
	assert_null(patch_place(target.proc, NULL, list, 2, NULL, &stats));
	assert_int_equal(stats.placed, 1);
	assert_int_equal(sites[0].state, PATCH_FAILED);
	assert_non_null(strstr(error_text(sites[0].error), "has changed since it was read"));
	assert_null(mem_read(target.proc, sites[0].address, now, sites[0].length));
	assert_int_equal(now[7], 0xcc);
	now[7] = sites[0].original[7];
	assert_memory_equal(now, sites[0].original, sites[0].length);
	free_errors(2);
}

static void test_changed_after(void **state)
{
	struct patch_stats stats;
	uint8_t now[DT_SITE_BYTES];
	bool idle = true;

	start(child_idles, 0);
	wait_for(is_ready);
	make_sites(2);
	place_ok(2);
	assert_null(mem_write(target.proc, sites[0].address, "\xcc", 1));
	assert_null(patch_remove(target.proc, list, 2, 100, NULL, &idle, &stats));
	assert_int_equal(sites[0].state, PATCH_REMOVED);
	assert_non_null(strstr(error_text(sites[0].error), "was changed by another program"));
	assert_null(mem_read(target.proc, sites[0].address, now, sites[0].length));
	assert_int_equal(now[0], 0xcc);
	assert_memory_equal(now + 1, sites[0].patched + 1, sites[0].length - 1u);
	assert_false(idle); /* under the breakpoint is our jump */
	assert_int_equal(sites[1].state, PATCH_REMOVED);
	target_holds(&sites[1], sites[1].original);
	free_errors(2);
}

/* Put back by somebody else: nothing to do, and no error. */
static void test_restored_by_other(void **state)
{
	start(child_idles, 0);
	wait_for(is_ready);
	make_sites(2);
	place_ok(2);
	assert_null(mem_write(target.proc, sites[0].address, sites[0].original, sites[0].length));
	remove_ok(2);
}

/* ---- what the patched bytes need (P9) -------------------------------------------------------- */

static bool is_also_due;
static unsigned also_runs;

static struct error *may_take_away(void *unused, struct stop *stop, bool *ret_now)
{
	target_holds(&sites[0], sites[0].patched);
	is_also_due = !is_also_due; /* not at the first look */
	*ret_now = !is_also_due;
	return NULL;
}

static struct error *take_away(void *fails, struct stop *stop)
{
	also_runs++;
	target_holds(&sites[0], sites[0].original);
	target_holds(&sites[1], sites[1].original);
	return fails ? error_new(ERROR_FAILED, "it fails") : NULL;
}

/* (P9) It goes behind the original bytes, which are back also if its end fails. */
static void test_also_comes_last(void **state)
{
	struct patch_also also = { .run = take_away, .may_run = may_take_away };
	struct patch_stats stats;
	bool idle = false;

	start(child_idles, 0);
	wait_for(is_ready);
	for (also_runs = 0; also_runs < 2;) {
		make_sites(2);
		place_ok(2);
		also.data = also_runs ? &also : NULL;
		struct error *error =
			patch_remove(target.proc, list, 2, 1000, &also, &idle, &stats);
		assert_int_equal(error != NULL, also.data != NULL);
		error_free(error);
		target_holds(&sites[0], sites[0].original);
		free_errors(2);
	}
}

/* (P9) A debugger's breakpoint covers our first byte, and our byte may come back: what it needs
 * stays. */
static void test_also_is_kept(void **state)
{
	struct patch_also also = { .run = take_away };
	struct patch_stats stats;
	bool idle = true;

	start(child_idles, 0);
	wait_for(is_ready);
	make_sites(2);
	place_ok(2);
	also_runs = 0;
	assert_null(mem_write(target.proc, sites[0].address, "\xcc", 1));
	assert_null(patch_remove(target.proc, list, 2, 100, &also, &idle, &stats));
	assert_false(idle);
	assert_int_equal(also_runs, 0);
	free_errors(2);
}

static unsigned unfit_stops; /* in which no thread can be borrowed */

static struct error *borrow(void *unused, struct stop *stop)
{
	also_runs++;
	target_holds(&sites[0], sites[0].original);
	target_holds(&sites[1], sites[1].original);
	if (!unfit_stops)
		return NULL;
	unfit_stops--;
	return error_new(ERROR_UNFIT, "no thread can be borrowed");
}

/* (P9) What has changed nothing for lack of a thread is tried again in later stops, and comes
 * before and goes behind the bytes all the same. */
static void test_also_lacks_a_thread(void **state)
{
	struct patch_also also = { .run = borrow };
	struct patch_stats stats;
	bool idle = false;

	start(child_idles, 0);
	wait_for(is_ready);
	make_sites(2);
	unfit_stops = 3;
	also_runs = 0;
	assert_null(patch_place(target.proc, NULL, list, 2, &also, &stats));
	check_placed(2, &stats);
	assert_int_equal(also_runs, 4);
	unfit_stops = 3;
	assert_null(patch_remove(target.proc, list, 2, 1000, &also, &idle, &stats));
	assert_true(idle);
	assert_int_equal(also_runs, 8);
	check_alive();
}

/* No thread can be borrowed at all: no byte changes. In a caller's own stop no thread gets any
 * further. */
static void test_also_never_gets_a_thread(void **state)
{
	struct patch_also also = { .run = borrow };
	struct patch_stats stats;
	struct stop *stop;

	start(child_idles, 0);
	wait_for(is_ready);
	make_sites(2);
	for (int held = 0; held < 2; held++) {
		unfit_stops = 1000000;
		also_runs = 0;
		pauses_are_short = true;
		if (held)
			assert_null(stop_all(target.proc, TIMEOUT_MS, &stop));
		struct error *error = patch_place(target.proc, held ? stop : NULL, list, 2, &also,
						  &stats);
		if (held)
			stop_release(stop, NULL);
		pauses_are_short = false;
		assert_int_equal(error_kind(error), ERROR_UNFIT);
		error_free(error);
		assert_true(held ? also_runs == 1 : also_runs > 1);
		target_holds(&sites[0], sites[0].original);
		target_holds(&sites[1], sites[1].original);
	}
	check_alive();
}

static void test_shared_and_unmapped(void **state)
{
	struct patch_stats stats;

	make_sites(3);
	memcpy(code + CODE_SIZE - 64, victim_table[0], 16); /* that memory is shared */
	sites[0].address = taddr_of((uint64_t)code + CODE_SIZE - 64);
	sites[1].address = taddr_of(0x10000);
	start(child_idles, 0);
	wait_for(is_ready);
	assert_null(patch_place(target.proc, NULL, list, 3, NULL, &stats));
	assert_int_equal(stats.placed, 1);
	assert_int_equal(stats.failed, 2);
	assert_non_null(strstr(error_text(sites[0].error), "is in a shared mapping"));
	assert_memory_equal(code + CODE_SIZE - 64, victim_table[0], 16);
	assert_non_null(strstr(error_text(sites[1].error), "0x10000 is no longer mapped"));
	free_errors(3);
}

static void test_gone(void **state)
{
	struct patch_stats stats;
	bool idle;

	start(child_idles, 0);
	wait_for(is_ready);
	make_sites(2);
	place_ok(2);
	kill(target.pid, SIGKILL);
	assert_int_equal(waitpid(target.pid, NULL, 0), target.pid);
	target.pid = 0;

	_cleanup_error_ struct error *err =
		patch_remove(target.proc, list, 2, 100, NULL, &idle, &stats);

	assert_non_null(err);
	assert_int_equal(error_kind(err), ERROR_GONE);
	make_sites(2);

	_cleanup_error_ struct error *again = patch_place(target.proc, NULL, list, 2, NULL, &stats);

	assert_non_null(again);
	assert_int_equal(error_kind(again), ERROR_GONE);
	proc_close(target.proc);
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Private_Dirty and Anonymous of the mapping that holds the victims, in KiB. */
static unsigned long private_memory(void)
{
	char path[64], line[512];
	unsigned long low, high, kib, sum = 0;
	bool inside = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/smaps", target.pid);
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &low, &high) == 2)
			inside = (uint64_t)victim_table[0] >= low &&
				 (uint64_t)victim_table[0] < high;
		else if (inside && (sscanf(line, "Private_Dirty: %lu", &kib) == 1 ||
				    sscanf(line, "Anonymous: %lu", &kib) == 1))
			sum += kib;
	}
	fclose(file);
	return sum;
}

static char *maps_of_target(void)
{
	static char text[65536];
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", target.pid);
	file = fopen(path, "r");
	assert_non_null(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	return text;
}

static void test_memory_as_before(void **state)
{
	_cleanup_free_ char *maps = NULL;
	unsigned long before;

	start(child_idles, 0);
	wait_for(is_ready);
	before = private_memory();
	maps = strdup(maps_of_target());
	make_sites(VICTIMS);
	place_ok(VICTIMS);
	assert_true(private_memory() >= before + 2 * 4 * VICTIMS / 8);
	remove_ok(VICTIMS);
	assert_int_equal(private_memory(), before);
	assert_string_equal(maps_of_target(), maps);
}

/* A page that somebody else changed as well stays. */
static void test_other_change_stays(void **state)
{
	uint8_t byte;
	taddr other;

	start(child_idles, 0);
	wait_for(is_ready);
	make_sites(VICTIMS);
	place_ok(VICTIMS);
	other = taddr_add(sites[1].address, 40); /* padding between two functions */
	assert_null(mem_write(target.proc, other, "\x77", 1));
	remove_ok(VICTIMS);
	assert_null(mem_read(target.proc, other, &byte, 1));
	assert_int_equal(byte, 0x77);
	assert_int_equal(private_memory(), 2 * 4);
}

/* ---- */

static int setup(void **state)
{
	struct proc *self;
	struct maps maps = { 0 };
	taddr at;

	assert_null(proc_open_plain(getpid(), &self));
	assert_null(maps_read(self, &maps));
	assert_null(near_find_gap(&maps, taddr_of((uint64_t)victim_table[0]),
				  taddr_of((uint64_t)victim_table[VICTIMS - 1] + 64), CODE_SIZE,
				  &at));
	maps_free(&maps);
	proc_close(self);
	code = mmap((void *)at.v, CODE_SIZE, PROT_READ | PROT_WRITE | PROT_EXEC,
		    MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	/* between two guards: a mapping of its own, which ends where the stack ends */
	stack = mmap(NULL, STACK_SIZE + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stack == MAP_FAILED || mprotect(stack + 4096, STACK_SIZE, PROT_READ | PROT_WRITE))
		return 1;
	stack += 4096;
	return code != (void *)at.v || shared == MAP_FAILED;
}

#define TEST(name) cmocka_unit_test_teardown(name, stop_target)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_crossing_is_tested),
		TEST(test_hundreds_of_times),
		TEST(test_trampoline_is_used),
		TEST(test_held),
		TEST(test_sleeper_in_middle),
		TEST(test_sleeper_in_middle_removed),
		TEST(test_sleeper_at_end),
		TEST(test_sleeper_at_end_removed),
		TEST(test_sleeper_without_move),
		TEST(test_word_on_stack),
		TEST(test_word_goes_away),
		TEST(test_word_in_a_starved_target),
		TEST(test_word_beside),
		TEST(test_word_behind_jump),
		TEST(test_signal_frame),
		TEST(test_stack_behind_signal_frame),
		TEST(test_not_idle),
		TEST(test_not_idle_in_handler),
		TEST(test_waits_until_idle),
		TEST(test_waits_for_a_starved_thread),
		TEST(test_find_threads),
		TEST(test_returns_to_range),
		TEST(test_host_is_kept),
		TEST(test_host_waits_for_guest),
		TEST(test_host_is_busy),
		TEST(test_group_waits_together),
		TEST(test_group_fails_together),
		TEST(test_group_comes_back),
		TEST(test_group_is_not_lost),
		TEST(test_group_changes_together),
		TEST(test_redirect),
		TEST(test_changed_before),
		TEST(test_changed_after),
		TEST(test_restored_by_other),
		TEST(test_also_comes_last),
		TEST(test_also_is_kept),
		TEST(test_also_lacks_a_thread),
		TEST(test_also_never_gets_a_thread),
		TEST(test_shared_and_unmapped),
		TEST(test_gone),
		TEST(test_memory_as_before),
		TEST(test_other_change_stays),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
