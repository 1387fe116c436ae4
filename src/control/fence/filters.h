/*
 * filters.h - the seccomp filters of a thread that is in a ptrace stop of ours.
 *
 * Reading them changes nothing. It needs CAP_SYS_ADMIN in the first user namespace, a caller
 * without a filter, and a kernel with CONFIG_CHECKPOINT_RESTORE (Debian's has it).
 */
#ifndef DYNTRACE_FILTERS_H
#define DYNTRACE_FILTERS_H

#include <sys/types.h>

#include "bpf_eval.h"
#include "control/base/vec.h"

struct filter {
	struct sock_filter *code;
	size_t count;
};

struct filters {
	struct filter *items; /* the oldest first */
	size_t count;
	size_t room;
};

enum filters_found {
	FILTERS_NONE, /* the thread has none, as far as can be told */
	FILTERS_READ,
	FILTERS_UNREADABLE, /* not permitted, or a filter of another kind */
};

/* Has the thread no filter? False also if it can't be told. */
bool filters_has_none(pid_t tid);
/* Caller frees, whatever the result. */
enum filters_found filters_read(pid_t tid, struct filters *ret_filters);
void filters_free(struct filters *filters);
bool filters_equal(const struct filters *a, const struct filters *b);

/* The strictest of the answers. A filter that can't be evaluated kills (E2). */
uint32_t filters_answer(const struct filters *filters, const struct bpf_call *call);

/* Does a filter of the thread forbid the call? Allocates nothing: also for signal handlers. False:
 * none does, or none can be read. */
bool filters_forbid(pid_t tid, const struct bpf_call *call);

/* True: this process may read filters, as far as it can tell without a target. */
bool filters_may_read(void);

/* Only SECCOMP_RET_ALLOW is: a call that somebody else decides about, or that is logged, is not. */
bool filters_is_allowed(uint32_t answer);

/* A verb for what the filter does: "kills", "answers EPERM"... */
#define FILTERS_TEXT_SIZE 48
const char *filters_text(uint32_t answer, char text[FILTERS_TEXT_SIZE]);

#endif
