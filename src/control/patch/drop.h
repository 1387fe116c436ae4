/*
 * drop.h - give back the private copies of text pages that equal the file again (H17). Private to
 * patch/.
 */
#ifndef DYNTRACE_DROP_H
#define DYNTRACE_DROP_H

#include "pages.h"

struct drop {
	const struct pages *pages; /* borrowed: the candidates */
	uint8_t *file; /* the file's bytes of these pages */
	struct drop_page {
		bool known; /* `file` holds this page */
		uint64_t device, inode, offset; /* its origin */
	} *origins;
	size_t next; /* the first page that drop_some hasn't checked yet */
};

/* Reads the files, before the stop. Pages whose file can't be read are never dropped. */
struct error *drop_begin(struct drop *drop, struct proc *proc, const struct pages *pages);
void drop_end(struct drop *drop);

/* While all threads are held, right after pages_read: drops some pages. Not all at once, because
 * each run of pages takes a remote call. *ret_more: pages are left to check. */
struct error *drop_some(struct drop *drop, struct proc *proc, struct stop *stop, bool *ret_more);

#endif
