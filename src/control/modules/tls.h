/*
 * tls.h - where a module's thread-local variables are, seen from a thread's pointer (the FS base on
 * x86-64).
 */
#ifndef DYNTRACE_TLS_H
#define DYNTRACE_TLS_H

#include "module.h"

enum tls_kind {
	TLS_UNKNOWN,
	TLS_FIXED, /* the block is at thread pointer + offset */
	TLS_DISTANCE, /* at thread pointer + offset + the value of the word */
	/* the word holds the index of the block in the thread's dtv; a thread may have none yet */
	TLS_NUMBERED,
};

struct tls {
	enum tls_kind kind;
	int64_t offset;
	taddr word; /* filled in by the loader before any code of the module runs */
};

struct tls module_tls(struct proc *proc, struct module *module);

#endif
