/*
 * pages.h - copies of the text pages that a batch touches. Private to patch/.
 *
 * Pages are sorted by address, and neighbours in the target are neighbours here: a site that
 * crosses a page boundary in the target is in one piece here.
 */
#ifndef DYNTRACE_PAGES_H
#define DYNTRACE_PAGES_H

#include "patch.h"

struct page {
	taddr at;
	bool readable; /* by the last pages_read */
	bool dirty; /* to be written */
};

struct pages {
	struct page *items;
	size_t count;
	uint8_t *bytes; /* count * DT_PAGE */
};

/* The pages of these sites, which are sorted by address. */
struct error *pages_create(struct patch_site *const *sites, size_t count, struct pages *ret_pages);
void pages_free(struct pages *pages);

/* Reads all pages, one system call per run of neighbours. An unmapped page becomes not readable;
 * fails if a mapped one can't be read, and then none is readable. */
struct error *pages_read(struct pages *pages, struct proc *proc);

/* Our copy of the site's bytes; NULL: not readable. */
uint8_t *pages_of_site(const struct pages *pages, const struct patch_site *site);

/* Does the site lie in two pages? Such sites are written one by one, not with their pages. */
bool pages_crosses(const struct patch_site *site);

/* Changes the site's bytes in our copy and marks its page. A site that crosses is left alone. */
void pages_put(struct pages *pages, const struct patch_site *site, const uint8_t *bytes);

/* Writes the marked pages to the target, one system call per run of neighbours. */
struct error *pages_write(struct pages *pages, struct proc *proc);

#endif
