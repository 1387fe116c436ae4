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
	uint16_t spare; /* offset of a byte that pages_unshare may write */
	bool readable; /* by the last pages_read */
	bool dirty; /* to be written */
	bool changed; /* the target's bytes may differ from our copy: to be read again */
};

struct pages {
	struct page *items;
	size_t count;
	uint8_t *bytes; /* count * DT_PAGE */
	size_t hint; /* the page that was found last: sites come by address */
};

/* The pages of these sites, which are sorted by address. */
struct error *pages_create(struct patch_site *const *sites, size_t count, struct pages *ret_pages);
void pages_free(struct pages *pages);

/*
 * Before the stop: gives the target its own copies of these pages, which it shares with the file so
 * far. The kernel copies a page at the first write to it. In the stop, that would take most of the
 * time. The write puts one byte to the value that it has, so that running threads see no change. A
 * page that can't be copied now is copied in the stop. Few pages aren't worth it.
 */
void pages_unshare(struct pages *pages, struct proc *proc, const struct maps *maps);

/* Reads all pages, one system call per run of neighbours. An unmapped page becomes not readable;
 * fails if a mapped one can't be read, and then none is readable. */
struct error *pages_read(struct pages *pages, struct proc *proc);
/* Reads the pages again that have been written since they were read. */
struct error *pages_read_changed(struct pages *pages, struct proc *proc);

/* Our copy of the site's bytes; NULL: not readable. */
uint8_t *pages_of_site(struct pages *pages, const struct patch_site *site);

/* Does the site lie in two pages? Such sites are written one by one, not with their pages. */
bool pages_crosses(const struct patch_site *site);

/* Changes the site's bytes in our copy and marks its page. Of a site that crosses, which the caller
 * writes, the pages are only noted as changed. */
void pages_put(struct pages *pages, const struct patch_site *site, const uint8_t *bytes);

/* Writes the marked pages to the target, one system call per run of neighbours. */
struct error *pages_write(struct pages *pages, struct proc *proc);

#endif
