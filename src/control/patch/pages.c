#include "pages.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "shared/sorted.h"
#include "control/base/cleanup.h"

#define UNSHARE_MIN 64 /* fewer pages are copied in a fraction of a millisecond */

static uint64_t page_of(taddr at)
{
	return at.v & ~(DT_PAGE - 1);
}

static taddr last_byte(const struct patch_site *site)
{
	return taddr_add(site->address, site->length - 1);
}

/* Sites come by address. The first of two that overlap may reach a page further. */
static void add_page(struct pages *pages, uint64_t at)
{
	for (size_t i = pages->count; i && pages->items[i - 1].at.v >= at; i--) {
		if (pages->items[i - 1].at.v == at)
			return;
	}
	pages->items[pages->count++] =
		(struct page){ .at = taddr_of(at), .spare = DT_PAGE - 1 };
}

/* Notes the byte before the page's first site. Mostly it pads the end of the function before. */
static void note_spare(struct pages *pages, const struct patch_site *site)
{
	struct page *page = &pages->items[pages->count - 1];
	uint64_t offset = site->address.v - page->at.v;

	if (offset && offset < DT_PAGE && page->spare == DT_PAGE - 1)
		page->spare = (uint16_t)(offset - 1);
}

struct error *pages_create(struct patch_site *const *sites, size_t count, struct pages *ret_pages)
{
	struct pages pages = { .items = calloc(2 * count + 1, sizeof(*pages.items)) };

	if (!pages.items)
		return error_new(ERROR_FAILED, "out of memory");
	for (size_t i = 0; i < count; i++) {
		assert(i == 0 || sites[i - 1]->address.v <= sites[i]->address.v);
		add_page(&pages, page_of(sites[i]->address));
		note_spare(&pages, sites[i]);
		add_page(&pages, page_of(last_byte(sites[i])));
	}
	assert(pages.count <= 2 * count);
	pages.bytes = malloc(pages.count * DT_PAGE + 1);
	if (!pages.bytes) {
		pages_free(&pages);
		return error_new(ERROR_FAILED, "out of memory");
	}
	memset(pages.bytes, 0,
	       pages.count * DT_PAGE + 1); /* touched here, not while the target waits */
	*ret_pages = pages;
	return NULL;
}

void pages_free(struct pages *pages)
{
	free(pages->items);
	free(pages->bytes);
	*pages = (struct pages){ 0 };
}

static bool is_any(const struct page *page)
{
	return page != NULL;
}

static bool is_dirty(const struct page *page)
{
	return page->dirty;
}

static bool is_changed(const struct page *page)
{
	return page->changed;
}

/* The number of pages from `first` on that are neighbours and of that kind. */
static size_t run_length(const struct pages *pages, size_t first,
			 bool (*is_kind)(const struct page *page))
{
	size_t n = 0;

	while (first + n < pages->count && is_kind(&pages->items[first + n]) &&
	       pages->items[first + n].at.v == pages->items[first].at.v + n * DT_PAGE)
		n++;
	return n;
}

/* Is the page not mapped? Only then nobody runs what is in it. `maps`: read at the first page. */
static struct error *check_unmapped(struct proc *proc, struct maps *maps, taddr at)
{
	struct error *err = maps->count ? NULL : maps_read(proc, maps);

	if (!err && maps_find(maps, at))
		err = error_new(ERROR_FAILED, "the code at 0x%lx can't be read", at.v);
	return err;
}

/* Text that the program can't write itself: no other code changes the byte meanwhile. */
static bool is_plain_text(const struct maps *maps, taddr at)
{
	const struct mapping *m = maps_find(maps, at);

	return m && !m->shared && m->inode && !(m->prot & PROT_WRITE);
}

void pages_unshare(struct pages *pages, struct proc *proc, const struct maps *maps)
{
	if (pages->count < UNSHARE_MIN)
		return;
	for (size_t i = 0; i < pages->count; i++) {
		taddr at = taddr_add(pages->items[i].at, pages->items[i].spare);
		uint8_t byte;
		_cleanup_error_ struct error *err = NULL;

		if (!is_plain_text(maps, at))
			continue;
		err = mem_read(proc, at, &byte, 1);
		if (!err)
			err = mem_write(proc, at, &byte, 1);
	}
	/* into the processor's caches: the same in the stop takes half the time then */
	error_free(pages_read(pages, proc));
}

static struct error *read_run(struct pages *pages, struct proc *proc, struct maps *maps,
			      size_t first, size_t n)
{
	struct error *err = mem_read(proc, pages->items[first].at, pages->bytes + first * DT_PAGE,
				     n * DT_PAGE);

	for (size_t i = 0; i < n; i++) {
		pages->items[first + i].readable = !err;
		pages->items[first + i].changed = false;
	}
	if (!err || error_kind(err) == ERROR_GONE)
		return err;
	error_free(err);
	if (n == 1)
		return check_unmapped(proc, maps, pages->items[first].at);
	for (size_t i = 0; i < n; i++) { /* find the one that isn't readable */
		err = read_run(pages, proc, maps, first + i, 1);
		if (err)
			return err;
	}
	return NULL;
}

static struct error *read_kind(struct pages *pages, struct proc *proc,
			       bool (*is_kind)(const struct page *page))
{
	_cleanup_(maps_free) struct maps maps = { 0 };
	struct error *err = NULL;

	for (size_t i = 0; !err && i < pages->count;) {
		size_t n = run_length(pages, i, is_kind);

		if (n)
			err = read_run(pages, proc, &maps, i, n);
		i += n ? n : 1;
	}
	for (size_t i = 0; i < pages->count && err; i++) {
		pages->items[i].readable = false;
		pages->items[i].changed = true;
	}
	return err;
}

struct error *pages_read(struct pages *pages, struct proc *proc)
{
	return read_kind(pages, proc, is_any);
}

struct error *pages_read_changed(struct pages *pages, struct proc *proc)
{
	return read_kind(pages, proc, is_changed);
}

static size_t index_of(struct pages *pages, uint64_t at)
{
	for (size_t i = pages->hint; i < pages->count && i < pages->hint + 2; i++) {
		if (pages->items[i].at.v == at)
			return pages->hint = i;
	}
	size_t n = sorted_count(pages->count, i, pages->items[i].at.v < at);

	assert(n < pages->count && pages->items[n].at.v == at);
	return pages->hint = n;
}

uint8_t *pages_of_site(struct pages *pages, const struct patch_site *site)
{
	size_t first = index_of(pages, page_of(site->address));
	size_t last = pages_crosses(site) ? index_of(pages, page_of(last_byte(site))) : first;

	for (size_t i = first; i <= last; i++) {
		if (!pages->items[i].readable)
			return NULL;
	}
	return pages->bytes + first * DT_PAGE + site->address.v % DT_PAGE;
}

bool pages_crosses(const struct patch_site *site)
{
	return page_of(site->address) != page_of(last_byte(site));
}

void pages_put(struct pages *pages, const struct patch_site *site, const uint8_t *bytes)
{
	uint8_t *copy = pages_of_site(pages, site);
	struct page *page = &pages->items[index_of(pages, page_of(site->address))];

	assert(copy); /* P2: only bytes that were read and compared are changed */
	page->changed = true;
	if (pages_crosses(site)) {
		page[1].changed = true;
		return;
	}
	memcpy(copy, bytes, site->length);
	page->dirty = true;
}

struct error *pages_write(struct pages *pages, struct proc *proc)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < pages->count;) {
		size_t n = run_length(pages, i, is_dirty);

		if (n)
			err = mem_write(proc, pages->items[i].at, pages->bytes + i * DT_PAGE,
					n * DT_PAGE);
		i += n ? n : 1;
	}
	for (size_t i = 0; i < pages->count; i++)
		pages->items[i].dirty = false;
	return err;
}
