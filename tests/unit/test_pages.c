/*
 * Parts of patch/ alone: the pages of a batch, and stacks that lead to other stacks.
 *
 * The target is a forked child that sleeps. Its memory is as ours was at the fork.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/patch/pages.h"
#include "control/patch/stack_scan.h"

#define PAGES 80
#define STACK_SIZE 65536u
#define STACKS 4
#define NEW_PAGES 100 /* by which a stack grows */
#define PLACE(n) (0x123450000000 + (n) * 0x1000ULL) /* a word that no stack has by chance */
#define PAGEMAP_FILE (1ULL << 61)

/* One function per page, 32 bytes into it. */
__asm__(".text\n.balign 4096\n.globl wide_text\nwide_text:\n"
	".rept 80\n .skip 32, 0x90\n nop\n nop\n nop\n nop\n nop\n ret\n .balign 4096, 0xcc\n.endr\n");
extern const uint8_t wide_text[PAGES * DT_PAGE];

static atomic_bool *ready; /* shared: the child runs on its own stack */
static atomic_bool *grown; /* likewise: that stack has more memory behind it */
static pid_t child;
static struct proc *proc;
static uint8_t *stacks[STACKS];
/* The child makes it once more: to the kernel, what memory from before a fork grows by is another
 * mapping. */
static uint8_t *fresh;

/* At that address, if it isn't NULL. Behind it are pages without rights. */
static uint8_t *make_stack(uint8_t *at)
{
	uint8_t *stack = mmap(at, STACK_SIZE + (NEW_PAGES + 1) * DT_PAGE, PROT_NONE,
			      MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);

	assert_true(stack != MAP_FAILED);
	assert_int_equal(mprotect(stack, STACK_SIZE, PROT_READ | PROT_WRITE), 0);
	return stack;
}

static void child_sleeps(void)
{
	*ready = true;
	for (;;)
		pause();
}

/* With a place on the last of the new pages; the others aren't there yet. */
static void grow(int number)
{
	uint8_t *end = fresh + STACK_SIZE;
	uint64_t word = PLACE(9) + 1;

	(void)number;
	mprotect(end, NEW_PAGES * DT_PAGE, PROT_READ | PROT_WRITE);
	memcpy(end + (NEW_PAGES - 1) * DT_PAGE + DT_PAGE / 2, &word, sizeof(word));
	*grown = true;
}

static void start(uint8_t *stack)
{
	static ucontext_t context;

	*ready = *grown = false;
	signal(SIGUSR1, grow);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		make_stack(fresh);
		getcontext(&context);
		context.uc_stack = (stack_t){ .ss_sp = stack, .ss_size = STACK_SIZE / 2 };
		makecontext(&context, child_sleeps, 0);
		setcontext(&context);
	}
	assert_null(proc_open_plain(child, &proc));
	while (!*ready)
		assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
}

static int end(void **state)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	proc_close(proc);
	return 0;
}

/* ---- pages ----------------------------------------------------------------------------------- */

static struct patch_site sites[PAGES];
static struct patch_site *list[PAGES];

static void make_sites(void)
{
	for (size_t i = 0; i < PAGES; i++) {
		sites[i] = (struct patch_site){
			.address = taddr_of((uint64_t)wide_text + i * DT_PAGE + 32), .length = 5
		};
		list[i] = &sites[i];
	}
}

/* The number of pages that the child shares with the file, or hasn't touched. */
static size_t count_shared(void)
{
	uint64_t entries[PAGES];
	char path[64];
	size_t shared = 0;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", child);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, entries, sizeof(entries),
			       (off_t)((uint64_t)wide_text / DT_PAGE * 8)),
			 sizeof(entries));
	close(fd);
	for (size_t i = 0; i < PAGES; i++)
		shared += !entries[i] || (entries[i] & PAGEMAP_FILE);
	return shared;
}

/* Before the stop all pages are the target's own, with the bytes that they had (H38). */
static void test_unshare(void **state)
{
	static uint8_t now[PAGES * DT_PAGE];
	struct pages pages = { 0 };
	struct maps maps = { 0 };

	make_sites();
	start(stacks[0]);
	assert_int_equal(count_shared(), PAGES);
	assert_null(maps_read(proc, &maps));
	assert_null(pages_create(list, PAGES, &pages));
	assert_int_equal(pages.count, PAGES);
	assert_int_equal(pages.items[0].spare, 31); /* before the function */
	pages_unshare(&pages, proc, &maps);
	assert_int_equal(count_shared(), 0);
	assert_null(mem_read(proc, taddr_of((uint64_t)wide_text), now, sizeof(now)));
	assert_memory_equal(now, wide_text, sizeof(now));
	pages_free(&pages);
	maps_free(&maps);
}

/* After a write, the written pages alone are read again. */
static void test_read_changed(void **state)
{
	static const uint8_t jump[5] = { 0xe9, 1, 2, 3, 4 };
	struct pages pages = { 0 };

	make_sites();
	start(stacks[0]);
	assert_null(pages_create(list, PAGES, &pages));
	assert_null(pages_read(&pages, proc));
	pages_put(&pages, list[3], jump);
	assert_null(pages_write(&pages, proc));
	memset(pages.bytes, 0, pages.count * DT_PAGE);
	assert_null(pages_read_changed(&pages, proc));
	assert_memory_equal(pages_of_site(&pages, list[3]), jump, 5);
	assert_int_equal(*pages_of_site(&pages, list[2]), 0);
	assert_null(pages_read(&pages, proc));
	assert_memory_equal(pages_of_site(&pages, list[2]), wide_text + 32, 5);
	pages_free(&pages);
}

/* ---- stacks ---------------------------------------------------------------------------------- */

/* A signal frame's last words: a handler that runs there returns to `rsp` and `rip`. */
static void put_frame(size_t stack, size_t at, uint64_t rsp, uint64_t rip)
{
	uint64_t words[4] = { rsp, rip, 0x202, 0x002b000000000033 };

	memcpy(stacks[stack] + at, words, sizeof(words));
}

static void put_word(size_t stack, size_t at, uint64_t word)
{
	memcpy(stacks[stack] + at, &word, sizeof(word));
}

static uint64_t place_on(size_t stack, size_t at)
{
	return (uint64_t)stacks[stack] + at;
}

static void scan(struct stack_scan_range *ranges, size_t count)
{
	struct stack_scan scan = { 0 };
	struct stop *stop = NULL;

	start(stacks[0]);
	assert_null(stack_scan_begin(&scan, proc, ranges, count));
	assert_null(stop_all(proc, STOP_TIMEOUT_MS, &stop));
	assert_null(stack_scan_stacks(&scan, stop));
	stop_release(stop, NULL);
	stack_scan_end(&scan);
}

/* (P4) From stack to stack by signal frames, around in a circle; frames that lead nowhere. */
static void test_stacks_in_a_row(void **state)
{
	struct stack_scan_range ranges[] = {
		{ .start = PLACE(0), .end = PLACE(0) + 8 },
		{ .start = PLACE(1), .end = PLACE(1) + 8 },
		{ .start = PLACE(2), .end = PLACE(2) + 8 },
		{ .start = PLACE(3), .end = PLACE(3) + 8 },
	};

	for (size_t i = 0; i < 500; i++) /* not mapped */
		put_frame(0, STACK_SIZE / 2 + i * 32, 0x10000 + i * 8, 0);
	put_frame(0, STACK_SIZE - 64, place_on(1, 0x8000), PLACE(0) + 1);
	put_frame(1, 0xa000, place_on(2, 0x6000), 0);
	put_frame(1, 0xb000, place_on(2, 0x4000), 0);
	put_frame(1, 0xc000, place_on(2, 0x8000), 0);
	put_frame(2, 0xf000, place_on(3, 0x8000), 0);
	put_frame(2, 0xf100, place_on(1, 0x8000), 0);
	/* on the part that only the lowest of three frames gives; below all of them */
	put_word(2, 0x4000, PLACE(1) + 1);
	put_word(2, 0x3f00, PLACE(2) + 1);
	put_word(3, STACK_SIZE - 8, PLACE(3) + 7);
	scan(ranges, 4);
	assert_true(ranges[0].hit);
	assert_true(ranges[1].hit);
	assert_false(ranges[2].hit);
	assert_true(ranges[3].hit);
}

/* (H9) A stack in a heap that has grown after dyntrace got ready. */
static void find_in_grown_stack(bool can_ask)
{
	struct stack_scan_range ranges[] = { { .start = PLACE(9), .end = PLACE(9) + 8 } };
	struct stack_scan scan = { 0 };
	struct stop *stop = NULL;

	start(fresh);
	assert_null(stack_scan_begin(&scan, proc, ranges, 1));
	if (!can_ask) {
		close(scan.memory.maps_fd);
		scan.memory.maps_fd = -1;
	}
	assert_int_equal(kill(child, SIGUSR1), 0);
	while (!*grown)
		assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
	assert_null(stop_all(proc, STOP_TIMEOUT_MS, &stop));
	assert_null(stack_scan_stacks(&scan, stop));
	stop_release(stop, NULL);
	stack_scan_end(&scan);
	assert_true(ranges[0].hit);
}

static void test_stack_that_has_grown(void **state)
{
	find_in_grown_stack(true);
}

static void test_stack_that_has_grown_without_questions(void **state)
{
	find_in_grown_stack(false);
}

static int setup(void **state)
{
	ready = mmap(NULL, DT_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (ready == MAP_FAILED)
		return -1;
	grown = ready + 1;
	for (size_t i = 0; i < STACKS; i++)
		stacks[i] = make_stack(NULL);
	fresh = make_stack(NULL);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_unshare, end),
		cmocka_unit_test_teardown(test_read_changed, end),
		cmocka_unit_test_teardown(test_stacks_in_a_row, end),
		cmocka_unit_test_teardown(test_stack_that_has_grown, end),
		cmocka_unit_test_teardown(test_stack_that_has_grown_without_questions, end),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
