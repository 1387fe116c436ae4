#include "stranded.h"

#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "shared/sorted.h"
#include "shared/frame.h"

#define CALL_LENGTH 2 /* of `syscall` */

static const uint8_t call_code[CALL_LENGTH] = { 0x0f, 0x05 };

struct tramp_view {
	uint8_t *bytes; /* code and rows, up to the end; owned */
	uint64_t start; /* address */
	struct dt_frame_end end;
};

static uint32_t row_at(const struct tramp_view *view, uint32_t index)
{
	uint32_t row;

	memcpy(&row, view->bytes + view->end.start - 4ULL * (index + 1), sizeof(row));
	return row;
}

/* Finds the end of the trampoline that contains rip. False: none. */
static bool find_end(const uint8_t *bytes, uint64_t size, uint64_t rip, struct tramp_view *view)
{
	uint64_t at = DT_ROUND_UP(rip, DT_FRAME_ALIGN);

	for (; at - rip + sizeof(view->end) <= size; at += DT_FRAME_ALIGN) {
		memcpy(&view->end, bytes + (at - rip), sizeof(view->end));
		if ((view->end.check ^ (uint32_t)at) != DT_FRAME_CHECK)
			continue;
		view->start = at - view->end.start;
		return at - rip <= view->end.start && view->end.start <= DT_FRAME_SCAN &&
		       view->end.row_count <= view->end.start / sizeof(uint32_t);
	}
	return false;
}

static struct error *read_tramp(struct proc *proc, uint64_t rip, const struct patch_range *window,
				struct tramp_view *view)
{
	uint64_t size = window->end.v - rip;

	size = size < DT_FRAME_SCAN ? size : DT_FRAME_SCAN;
	_cleanup_free_ uint8_t *ahead = malloc(size);
	if (!ahead)
		return error_new(ERROR_FAILED, "out of memory");
	struct error *error = mem_read(proc, taddr_of(rip), ahead, size);
	if (error || !find_end(ahead, size, rip, view) || view->start < window->start.v)
		return error;
	view->bytes = malloc(view->end.start + 1ULL);
	if (!view->bytes)
		return error_new(ERROR_FAILED, "out of memory");
	return mem_read(proc, taddr_of(view->start), view->bytes, view->end.start);
}

/* Does the moved `syscall` before that boundary begin at the offset? A call that isn't to end with
 * EINTR was rewound to it (stop/held_rewind.c), behind the code of its guard. */
static bool is_call_before(const struct tramp_view *view, uint64_t offset, uint64_t boundary)
{
	return offset + CALL_LENGTH == boundary && boundary <= view->end.start &&
	       !memcmp(view->bytes + offset, call_code, CALL_LENGTH);
}

/* Is rip a boundary, or at a system call before one? *ret_origin: the offset from the site's start
 * of the instruction behind the boundary. */
static bool find_boundary(const struct tramp_view *view, uint64_t rip, uint32_t *ret_origin,
			  bool *ret_before)
{
	uint64_t offset = rip - view->start, at = 0;
	uint32_t last = DT_FRAME_RETURNS, words = 0;

	for (uint32_t i = 0; i < view->end.row_count; i++) {
		uint32_t row = row_at(view, i);
		uint32_t origin = row >> DT_FRAME_ORIGIN_SHIFT & DT_FRAME_ORIGIN_MASK;
		bool begins = origin != last && origin != DT_FRAME_RETURNS &&
			      row >> DT_FRAME_WORDS_SHIFT == 1;

		*ret_origin = origin;
		*ret_before = words == 1 && is_call_before(view, offset, at);
		if (begins && (at == offset || *ret_before))
			return true;
		last = origin;
		words = row >> DT_FRAME_WORDS_SHIFT;
		at = row & DT_FRAME_END_MAX;
	}
	return false;
}

/* The place in the program; 0: none that is known. */
static uint64_t place_of(const struct tramp_view *view, uint64_t rip,
			 const struct patch_site *sites, size_t count)
{
	uint64_t start = view->start + view->end.start + (uint64_t)(int64_t)view->end.site;
	size_t index = sorted_count(count, i, sites[i].address.v < start);
	uint32_t origin;
	bool before;

	if (index == count || sites[index].address.v != start ||
	    !find_boundary(view, rip, &origin, &before) || origin > sites[index].length)
		return 0;
	if (!before)
		return start + origin;
	if (origin < CALL_LENGTH ||
	    memcmp(sites[index].original + origin - CALL_LENGTH, call_code, CALL_LENGTH))
		return 0;
	return start + origin - CALL_LENGTH;
}

static struct error *send_back(struct proc *proc, struct stop *stop, size_t thread,
			       const struct patch_site *sites, size_t count,
			       const struct patch_range *window)
{
	uint64_t rip = stop_thread_rip(stop, thread).v, place = 0;
	struct tramp_view view = { 0 };
	struct error *error = read_tramp(proc, rip, window, &view);

	if (!error && view.bytes)
		place = place_of(&view, rip, sites, count);
	free(view.bytes);
	return place ? stop_thread_set_rip(stop, thread, taddr_of(place)) : error;
}

struct error *stranded_send_back(struct proc *proc, struct stop *stop,
				 const struct patch_site *sites, size_t count,
				 const struct patch_range *windows, size_t window_count)
{
	struct error *error = NULL;

	for (size_t i = 0; !error && i < stop_thread_count(stop); i++) {
		taddr rip = stop_thread_rip(stop, i);

		for (size_t j = 0; !error && j < window_count; j++) {
			if (taddr_within(rip, windows[j].start, windows[j].end))
				error = send_back(proc, stop, i, sites, count, &windows[j]);
		}
	}
	return error;
}
