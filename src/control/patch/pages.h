/*
 * pages.h - the pages of text that a batch touches, in our memory. Private to patch/.
 *
 * Pages are sorted by address, and neighbours in the target are neighbours here: what crosses a
 * page boundary there is in one piece here.
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

/* Reads all, a system call for each run of neighbours. A page that isn't there any more is not
 * readable. */
struct error *pages_read(struct pages *pages, struct proc *proc);

/* Our copy of the site's bytes; NULL: they weren't readable. */
uint8_t *pages_of_site(const struct pages *pages, const struct patch_site *site);

/* Does it lie in two pages? Such sites are written one by one, not with their pages. */
bool pages_crosses(const struct patch_site *site);

/* Exchanges the site's bytes in our copy and marks its page. One that crosses is left alone. */
void pages_put(struct pages *pages, const struct patch_site *site, const uint8_t *bytes);

/* Writes the marked pages to the target, a system call for each run of neighbours. */
struct error *pages_write(struct pages *pages, struct proc *proc);

#endif
