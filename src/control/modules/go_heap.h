/*
 * go_heap.h - where the runtime of a Go program keeps its heap, which never shrinks (X15).
 */
#ifndef DYNTRACE_GO_HEAP_H
#define DYNTRACE_GO_HEAP_H

#include "module.h"
#include "shared/layout.h"

/*
 * *ret_heap: addresses where nothing but the heap is mapped. What can be read there once can be
 * read as long as the process lives. False: it is no Go program, or nothing warrants that.
 */
bool go_heap_find(struct proc *proc, struct module *program, const struct maps *maps,
		  struct dt_heap *ret_heap);
/* Looks how far such a heap has grown: its end, and how far it is open. Nothing gets less. */
void go_heap_look(const struct maps *maps, struct dt_heap *heap);

#endif
