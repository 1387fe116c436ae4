/*
 * tls.h - where a module's thread-local variables are, seen from a thread's FS base (tls.c).
 */
#ifndef DYNTRACE_TLS_H
#define DYNTRACE_TLS_H

#include "module.h"

enum tls_kind {
	TLS_UNKNOWN,
	TLS_FIXED, /* its block is at FS base + offset */
	TLS_DISTANCE, /* at FS base + offset + what the word holds */
	/* the word holds which entry of the thread's dtv leads to it, once the thread has one */
	TLS_NUMBERED,
};

struct tls {
	enum tls_kind kind;
	int64_t offset;
	taddr word; /* filled by the loader, before any code of the module runs */
};

struct tls module_tls(struct proc *proc, struct module *module);

#endif
