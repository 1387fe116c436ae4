#include "pages.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "shared/sorted.h"
#include "control/base/cleanup.h"

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
	pages->items[pages->count++] = (struct page){ .at = taddr_of(at) };
}

struct error *pages_create(struct patch_site *const *sites, size_t count, struct pages *ret_pages)
{
	struct pages pages = { .items = calloc(2 * count + 1, sizeof(*pages.items)) };

	if (!pages.items)
		return error_new(ERROR_FAILED, "out of memory");
	for (size_t i = 0; i < count; i++) {
		assert(i == 0 || sites[i - 1]->address.v <= sites[i]->address.v);
		add_page(&pages, page_of(sites[i]->address));
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

/* The number of pages from `first` on that are neighbours (with `dirty`: and marked). */
static size_t run_length(const struct pages *pages, size_t first, bool dirty)
{
	size_t n = 0;

	while (first + n < pages->count && (!dirty || pages->items[first + n].dirty) &&
	       pages->items[first + n].at.v == pages->items[first].at.v + n * DT_PAGE)
		n++;
	return n;
}

/* Is the page not mapped? Only then nobody runs what is in it. */
static struct error *check_unmapped(struct proc *proc, taddr at)
{
	_cleanup_(maps_free) struct maps maps = { 0 };
	struct error *err = maps_read(proc, &maps);

	if (!err && maps_find(&maps, at))
		err = error_new(ERROR_FAILED, "the code at 0x%lx can't be read", at.v);
	return err;
}

static struct error *read_run(struct pages *pages, struct proc *proc, size_t first, size_t n)
{
	struct error *err = mem_read(proc, pages->items[first].at, pages->bytes + first * DT_PAGE,
				     n * DT_PAGE);

	for (size_t i = 0; i < n; i++)
		pages->items[first + i].readable = !err;
	if (!err || error_kind(err) == ERROR_GONE)
		return err;
	error_free(err);
	if (n == 1)
		return check_unmapped(proc, pages->items[first].at);
	for (size_t i = 0; i < n; i++) { /* find the one that isn't readable */
		err = read_run(pages, proc, first + i, 1);
		if (err)
			return err;
	}
	return NULL;
}

struct error *pages_read(struct pages *pages, struct proc *proc)
{
	struct error *err = NULL;

	for (size_t i = 0; i < pages->count && !err;) {
		size_t n = run_length(pages, i, false);

		err = read_run(pages, proc, i, n);
		i += n;
	}
	for (size_t i = 0; i < pages->count && err; i++)
		pages->items[i].readable = false;
	return err;
}

static size_t index_of(const struct pages *pages, uint64_t at)
{
	size_t n = sorted_count(pages->count, i, pages->items[i].at.v < at);

	assert(n < pages->count && pages->items[n].at.v == at);
	return n;
}

uint8_t *pages_of_site(const struct pages *pages, const struct patch_site *site)
{
	size_t first = index_of(pages, page_of(site->address));
	size_t last = index_of(pages, page_of(last_byte(site)));

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

	assert(copy); /* P2: only bytes that were read and compared are changed */
	if (pages_crosses(site))
		return;
	memcpy(copy, bytes, site->length);
	pages->items[index_of(pages, page_of(site->address))].dirty = true;
}

struct error *pages_write(struct pages *pages, struct proc *proc)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < pages->count;) {
		size_t n = run_length(pages, i, true);

		if (n)
			err = mem_write(proc, pages->items[i].at, pages->bytes + i * DT_PAGE,
					n * DT_PAGE);
		i += n ? n : 1;
	}
	for (size_t i = 0; i < pages->count; i++)
		pages->items[i].dirty = false;
	return err;
}
