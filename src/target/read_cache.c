/*
 * read_cache.c - windows of the target's memory that the current event has read.
 *
 * A system call that can't fault reads the target's memory, and takes about a microsecond whether
 * it reads 8 bytes or 500, in one place or in four. So the agent reads more than it needs at once:
 * the memory around it, and the program's other strings with the first (DT_OP_PREFETCH). An event
 * with a std::string, or with ten members of a struct, needs one call. Memory is read once per
 * event: all of an event is of one moment.
 *
 * (X14) No page is touched that the value doesn't reach: it may be one that a handler of the
 * program's has to bring (userfaultfd), or a file system that doesn't answer. So windows end with
 * their page, and a text is read on the next page only if it doesn't end before.
 */
#include "gather.h"

#include "target/signals/loads.h"

#define LINE 64u
#define ADDRESS_BITS 56 /* of a process's addresses, with five levels of pages */

struct word {
	uint64_t word;
} __attribute__((packed, may_alias));

uint64_t read_cache_direct(const struct gather *g, uint64_t from)
{
	if (from - g->own.start < g->own.end - g->own.start)
		return g->own.end - from;
	return safe_stable(g->control, from);
}

/* (X14) `most`, or the bytes up to the end of the page of the last of the `least` bytes there. */
static uint32_t within_pages(uint64_t from, uint32_t least, uint32_t most)
{
	uint64_t left = ((from + least - 1) | (DT_PAGE - 1)) + 1 - from;

	return left < most ? (uint32_t)left : most;
}

static struct window *find(struct gather *g, uint64_t from, uint64_t least)
{
	for (uint32_t i = 0; i < WINDOWS; i++) {
		struct window *window = &g->windows[i];

		if (from >= window->start && from - window->start < window->size &&
		    window->size - (from - window->start) >= least)
			return window;
	}
	return NULL;
}

static struct window *take(struct gather *g, uint64_t from)
{
	struct window *window = &g->windows[g->next_window++ % WINDOWS];

	window->start = from & ~(uint64_t)(LINE - 1);
	window->size = 0;
	return window;
}

/* Number of wanted bytes that a window has; at least `least` if they can be read. */
static uint32_t look(struct gather *g, uint64_t from, uint32_t least, const uint8_t **ret_bytes)
{
	struct window *window = find(g, from, least);

	if (!window) {
		window = take(g, from);
		window->size = safe_read(
			g->control, window->start, window->bytes,
			within_pages(window->start, (uint32_t)(from - window->start) + least,
				     WINDOW_SIZE));
		loads_note(g->control, window->start, window->size);
		if (window->size <= from - window->start)
			return 0;
	}
	*ret_bytes = window->bytes + (from - window->start);
	return (uint32_t)(window->size - (from - window->start));
}

static void copy(void *to, const uint8_t *from, uint64_t count)
{
	if (count == 8) { /* most are numbers, and rep takes its time to begin */
		*(struct word *)to = *(const struct word *)from;
		return;
	}
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
}

/* Memory that stays; a fault there is mended if the thread may make plain loads. */
static bool copy_direct(const struct gather *g, uint64_t from, void *to, uint32_t count)
{
	if (!count || read_cache_direct(g, from) < count ||
	    (count == 8 ? !loads_word(from, to) : loads_copy(to, from, count)))
		return false;
	loads_note(g->control, from, count);
	return true;
}

/* Bytes that plain loads have read; 0: the memory has to be asked for. */
static uint32_t read_plain(const struct gather *g, uint64_t from, void *to, uint32_t most)
{
	uint64_t known = g->loads ? loads_known(g->control, from) : 0;

	if (known > most)
		known = most;
	if (!known)
		return 0;
	known -= loads_copy(to, from, known);
	loads_note(g->control, from, known);
	return (uint32_t)known;
}

/* Null pointers, with the offset of a member, are many, and to ask for their memory takes a system
 * call; neither do programs have the addresses that the processor refuses. */
static bool is_never_mapped(uint64_t address)
{
	return address < DT_PAGE || address >> ADDRESS_BITS;
}

uint32_t read_cache_read(struct gather *g, uint64_t from, void *to, uint32_t least, uint32_t most)
{
	const uint8_t *bytes = NULL;
	uint32_t got;

	if (is_never_mapped(from))
		return 0;
	most = within_pages(from, least, most);
	if (copy_direct(g, from, to, most))
		return most;
	got = read_plain(g, from, to, most);
	if (got && got >= least)
		return got;
	got = look(g, from, least, &bytes);
	got = got < most ? got : most;
	if (got)
		copy(to, bytes, got);
	return got;
}

uint64_t read_cache_read_all(struct gather *g, uint64_t from, void *to, uint32_t length)
{
	return length <= WINDOW_SIZE - LINE ? read_cache_read(g, from, to, length, length)
					    : safe_read(g->control, from, to, length);
}

void read_cache_clear(struct gather *g)
{
	g->next_window = 0;
	for (uint32_t i = 0; i < WINDOWS; i++)
		g->windows[i].size = 0;
}

void read_cache_prefetch(struct gather *g, const uint64_t *addresses, uint32_t count)
{
	struct sys_iovec local[WINDOWS], remote[WINDOWS];
	struct window *taken[WINDOWS];
	uint32_t windows = 0;
	uint64_t got;

	for (uint32_t i = 0; i < count && windows < WINDOWS; i++) {
		if (is_never_mapped(addresses[i]) || read_cache_direct(g, addresses[i]) ||
		    (g->loads && loads_known(g->control, addresses[i])) ||
		    find(g, addresses[i], 1))
			continue;
		struct window *window = taken[windows] = take(g, addresses[i]);
		uint32_t size = within_pages(window->start, 1, WINDOW_SIZE);

		local[windows] = (struct sys_iovec){ (uint64_t)window->bytes, size };
		remote[windows++] = (struct sys_iovec){ window->start, size };
	}
	if (windows < 2)
		return;
	/* The kernel reads nothing after an unreadable piece; a later read asks for it again. */
	got = safe_read_list(g->control, local, windows, remote, windows);
	for (uint32_t i = 0; i < windows; i++) {
		taken[i]->size = got < local[i].length ? got : local[i].length;
		loads_note(g->control, taken[i]->start, taken[i]->size);
		got -= taken[i]->size;
	}
}
