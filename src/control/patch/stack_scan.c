#include "stack_scan.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/sorted.h"
#include "control/base/cleanup.h"
#include "control/proc/proc_status.h"

#define RED_ZONE 128u
#define STACK_MAX (16ULL << 20) /* a larger "stack" is a heap with coroutines */
#define STACKS_MAX 65536u /* more must be forged signal frames, */
#define ROUNDS_MAX 64 /* and so must longer ways from stack to stack */
#define BUFFER_SIZE (256u << 10)

/* The last registers of a signal frame: rsp, rip, eflags, cs | gs << 16 | fs << 32 | ss << 48. */
#define FRAME_WORDS 4u
#define SELECTOR_CS 0x33u
#define SELECTOR_SS 0x2bu

static int by_start(const void *a, const void *b)
{
	const struct stack_scan_range *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

struct error *stack_scan_begin(struct stack_scan *scan, struct proc *proc,
			       struct stack_scan_range *ranges, size_t count)
{
	struct stack_scan s = { .proc = proc, .ranges = ranges, .count = count };
	struct error *err = maps_read(proc, &s.maps);

	if (err)
		return err;
	s.buffer = malloc(BUFFER_SIZE);
	s.maps_fd = s.buffer ? proc_status_open(proc->pid, "maps", O_RDONLY) : -1;
	if (!s.buffer || !vec_reserve(&s.covered, 256) || !vec_reserve(&s.current, 256) ||
	    !vec_reserve(&s.found, 256)) {
		stack_scan_end(&s);
		return error_new(ERROR_FAILED, "out of memory");
	}
	memset(s.buffer, 0, BUFFER_SIZE); /* touched here, not while the target waits */
	qsort(ranges, count, sizeof(*ranges), by_start);
	*scan = s;
	return NULL;
}

void stack_scan_end(struct stack_scan *scan)
{
	maps_free(&scan->maps);
	if (scan->buffer && scan->maps_fd >= 0)
		close(scan->maps_fd);
	free(scan->buffer);
	vec_free(&scan->covered);
	vec_free(&scan->current);
	vec_free(&scan->found);
	*scan = (struct stack_scan){ 0 };
}

struct stack_scan_range *stack_scan_find(const struct stack_scan *scan, uint64_t address)
{
	size_t n = sorted_count(scan->count, i, scan->ranges[i].end <= address);

	if (n < scan->count && scan->ranges[n].start <= address)
		return &scan->ranges[n];
	return NULL;
}

struct stack_scan_range *stack_scan_find_thread(const struct stack_scan *scan, uint64_t rip,
						uint64_t rsp)
{
	struct stack_scan_range *range = stack_scan_find(scan, rip);
	uint64_t word;

	if (!range || !range->is_called)
		return range;
	_cleanup_error_ struct error *err =
		mem_read(scan->proc, taddr_of(rsp), &word, sizeof(word));
	if (err)
		return range; /* not known: it counts */
	range = stack_scan_find(scan, word);
	return range && range->is_called ? NULL : range;
}

/* Where such memory ends by the list: it may consist of several mappings. */
static uint64_t end_in_list(const struct stack_scan *scan, const struct mapping *m)
{
	const struct mapping *end = scan->maps.items + scan->maps.count;
	const struct mapping *next = m + 1;

	for (; next < end && next->start.v == m->end.v && mapping_is_private_data(next); next++)
		m = next;
	return m->end.v;
}

/* Nobody maps anything while all threads are held. */
static struct error *read_again(struct stack_scan *scan)
{
	struct maps fresh = { 0 };
	struct error *err = maps_read(scan->proc, &fresh);

	if (err)
		return err;
	maps_free(&scan->maps);
	scan->maps = fresh;
	scan->fresh = true;
	return NULL;
}

/* The stack that an rsp points into; empty if rsp is not mapped. */
static struct error *find_stack(struct stack_scan *scan, uint64_t rsp,
				struct stack_scan_stack *ret_stack)
{
	const struct mapping *m = maps_find(&scan->maps, taddr_of(rsp));
	uint64_t start, end;
	bool known = m && maps_find_end(scan->maps_fd, m->end, rsp + STACK_MAX, &end);

	*ret_stack = (struct stack_scan_stack){ 0, 0 };
	if (!known && !scan->fresh) { /* mapped since our list was read, or an old kernel */
		struct error *err = read_again(scan);

		if (err)
			return err;
		m = maps_find(&scan->maps, taddr_of(rsp));
	}
	if (!m)
		return NULL;
	if (!known)
		end = end_in_list(scan, m);
	start = (rsp < m->start.v + RED_ZONE ? m->start.v : rsp - RED_ZONE) & ~7ULL;
	ret_stack->start = start;
	ret_stack->end = end - start > STACK_MAX ? start + STACK_MAX : end;
	return NULL;
}

/* The first of these stacks, which are sorted and don't overlap, that ends behind the address. */
static size_t first_behind(const struct stack_scan_stacks *stacks, uint64_t address)
{
	return sorted_count(stacks->count, i, stacks->items[i].end <= address);
}

static bool is_covered(const struct stack_scan_stacks *stacks,
		       const struct stack_scan_stack *stack)
{
	size_t n = first_behind(stacks, stack->start);

	return n < stacks->count && stacks->items[n].start <= stack->start &&
	       stack->end <= stacks->items[n].end;
}

/* Notes a stack that has to be read. */
static struct error *add_stack(struct stack_scan *scan, uint64_t rsp)
{
	struct stack_scan_stack stack;
	struct error *err = find_stack(scan, rsp, &stack);

	if (err || stack.start >= stack.end || is_covered(&scan->covered, &stack) ||
	    is_covered(&scan->current, &stack) || scan->found.count >= STACKS_MAX)
		return err;
	return vec_push(&scan->found, stack) ? NULL : error_new(ERROR_FAILED, "out of memory");
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static int by_stack(const void *a, const void *b)
{
	const struct stack_scan_stack *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

/* Sorts stacks and joins those that overlap. */
static void join_stacks(struct stack_scan_stacks *stacks)
{
	size_t kept = 0;

	qsort(stacks->items, stacks->count, sizeof(*stacks->items), by_stack);
	for (size_t i = 0; i < stacks->count; i++) {
		struct stack_scan_stack stack = stacks->items[i];

		if (kept && stack.start < stacks->items[kept - 1].end) {
			if (stack.end > stacks->items[kept - 1].end)
				stacks->items[kept - 1].end = stack.end;
		} else {
			stacks->items[kept++] = stack;
		}
	}
	stacks->count = kept;
}

/* Adds to `pieces` the parts of the stack that are not covered. */
static bool push_uncovered(const struct stack_scan_stacks *covered, struct stack_scan_stack stack,
			   struct stack_scan_stacks *pieces)
{
	for (size_t i = first_behind(covered, stack.start);
	     i < covered->count && covered->items[i].start < stack.end; i++) {
		struct stack_scan_stack before = { stack.start, covered->items[i].start };

		if (before.start < before.end && !vec_push(pieces, before))
			return false;
		stack.start = covered->items[i].end;
	}
	return stack.start >= stack.end || vec_push(pieces, stack);
}

/* Puts the stacks that were found, as far as none of the rounds before has read them, into
 * `current`. */
static struct error *begin_round(struct stack_scan *scan)
{
	bool good = vec_reserve(&scan->covered, scan->current.count);

	for (size_t i = 0; good && i < scan->current.count; i++)
		scan->covered.items[scan->covered.count++] = scan->current.items[i];
	join_stacks(&scan->covered);
	join_stacks(&scan->found);
	scan->current.count = 0;
	for (size_t i = 0; good && i < scan->found.count; i++)
		good = push_uncovered(&scan->covered, scan->found.items[i], &scan->current);
	scan->found.count = 0;
	return good ? NULL : error_new(ERROR_FAILED, "out of memory");
}

/* ---- words ----------------------------------------------------------------------------------- */

static bool is_frame_end(const uint64_t *word)
{
	return (*word & 0xffff) == SELECTOR_CS && *word >> 48 == SELECTOR_SS;
}

static void judge_word(struct stack_scan *scan, uint64_t word)
{
	struct stack_scan_range *range = stack_scan_find(scan, word);

	if (range && !range->is_called)
		range->hit = true;
}

static void judge_frame(struct stack_scan *scan, uint64_t rip, uint64_t rsp)
{
	struct stack_scan_range *range = stack_scan_find_thread(scan, rip, rsp);

	if (range)
		range->hit = true;
}

/* Judges words[FRAME_WORDS - 1 ...]. The words before have been judged; signal frames need them. */
static struct error *judge_words(struct stack_scan *scan, const uint64_t *words, size_t count)
{
	uint64_t low = scan->count ? scan->ranges[0].start : 0;
	uint64_t span = scan->count ? scan->ranges[scan->count - 1].end - low : 0;

	for (size_t i = FRAME_WORDS - 1; i < count; i++) {
		struct error *err;

		if (words[i] - low < span && !scan->frames_only)
			judge_word(scan, words[i]);
		if (!is_frame_end(&words[i]))
			continue;
		judge_frame(scan, words[i - 2], words[i - 3]);
		err = add_stack(scan, words[i - 3]);
		if (err)
			return err;
	}
	return NULL;
}

/* Reads one stack in pieces; it may end earlier than its mapping did. */
static struct error *stack_scan_one(struct stack_scan *scan, struct stack_scan_stack stack)
{
	size_t kept = (FRAME_WORDS - 1) * 8;

	assert(stack.start % 8 == 0 && stack.start < stack.end);
	memset(scan->buffer, 0, kept);
	for (uint64_t at = stack.start; at < stack.end;) {
		size_t want = BUFFER_SIZE - kept;
		ssize_t got;
		struct error *err;

		if (want > stack.end - at)
			want = stack.end - at;
		got = pread(scan->proc->mem_fd, scan->buffer + kept, want, (off_t)at);
		if (got < 0 && errno == EINTR)
			continue;
		got &= ~7L;
		if (got <= 0)
			return NULL;
		err = judge_words(scan, (const uint64_t *)scan->buffer, (kept + (size_t)got) / 8);
		if (err)
			return err;
		memmove(scan->buffer, scan->buffer + got, kept);
		at += (uint64_t)got;
	}
	return NULL;
}

/* Reads small stacks, from `from` on, by one system call. *ret_count: so many; 0: read the first by
 * itself. */
static struct error *stack_scan_some(struct stack_scan *scan, size_t from, size_t *ret_count)
{
	struct mem_piece pieces[MEM_PIECES_MAX];
	size_t kept = (FRAME_WORDS - 1) * 8, used = 0, count = 0;
	struct error *err = NULL;

	*ret_count = 0;
	for (size_t i = from; i < scan->current.count && count < MEM_PIECES_MAX; i++) {
		const struct stack_scan_stack *stack = &scan->current.items[i];
		size_t size = stack->end - stack->start;

		if (size % 8 || size > BUFFER_SIZE - kept - used)
			break;
		memset(scan->buffer + used, 0, kept);
		pieces[count++] = (struct mem_piece){ taddr_of(stack->start),
						      scan->buffer + used + kept, size };
		used += kept + size;
		if (BUFFER_SIZE - used < kept)
			break;
	}
	if (count < 2 || !mem_read_many(scan->proc, pieces, count))
		return NULL;
	for (size_t i = 0; !err && i < count; i++)
		err = judge_words(scan, (const uint64_t *)((uint8_t *)pieces[i].to - kept),
				  (kept + pieces[i].size) / 8);
	*ret_count = count;
	return err;
}

static struct error *scan_round(struct stack_scan *scan)
{
	struct error *err = NULL;
	size_t count;

	for (size_t i = 0; !err && i < scan->current.count; i += count ? count : 1) {
		err = stack_scan_some(scan, i, &count);
		if (!err && !count)
			err = stack_scan_one(scan, scan->current.items[i]);
	}
	return err;
}

struct error *stack_scan_stacks(struct stack_scan *scan, struct stop *stop)
{
	struct error *err = NULL;
	uint8_t byte;

	assert(stop); /* the stacks of running threads change while they are read */
	scan->covered.count = scan->current.count = scan->found.count = 0;
	scan->fresh = false;
	for (size_t i = 0; i < scan->count; i++)
		scan->ranges[i].hit = false;
	if (scan->maps.count) /* opens /proc/PID/mem if it isn't open yet */
		err = mem_read(scan->proc, scan->maps.items[0].start, &byte, 1);
	for (size_t i = 0; !err && i < stop_thread_count(stop); i++)
		err = add_stack(scan, stop_thread_rsp(stop, i).v);
	for (int round = 0; !err && scan->found.count && round < ROUNDS_MAX; round++) {
		err = begin_round(scan);
		if (!err)
			err = scan_round(scan);
	}
	return err;
}
