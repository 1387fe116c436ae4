/*
 * drop.h - give back the private copies of text pages that equal the file again (H17). Private to
 * patch/.
 */
#ifndef DYNTRACE_DROP_H
#define DYNTRACE_DROP_H

#include "pages.h"

struct drop {
	const struct pages *pages; /* borrowed; they say which */
	uint8_t *file; /* what the file has in these pages */
	struct drop_page {
		bool known; /* file holds it */
		uint64_t device, inode, offset; /* from where */
	} *origins;
	size_t next; /* the first page that wasn't looked at yet */
};

/* Before the stop: reads the files. What can't be read is left as it is. */
struct error *drop_begin(struct drop *drop, struct proc *proc, const struct pages *pages);
void drop_end(struct drop *drop);

/* While all threads are held and right after pages_read: drops some; each takes a remote call, so
 * not all at once. *ret_more: there are more to look at. */
struct error *drop_some(struct drop *drop, struct proc *proc, struct stop *stop, bool *ret_more);

#endif
