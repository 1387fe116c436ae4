#include "filters.h"

#include <assert.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PTRACE_SECCOMP_GET_FILTER
#define PTRACE_SECCOMP_GET_FILTER 0x420c
#endif
#define FILTERS_MAX 4096 /* the kernel allows 32,768 instructions in all, and 4 more per filter */

/* Instructions of the filter; -1: errno is ENOENT behind the last one, EINVAL without any. */
static long get(pid_t tid, size_t index, struct sock_filter *code)
{
	return ptrace((enum __ptrace_request)PTRACE_SECCOMP_GET_FILTER, tid, index, code);
}

bool filters_has_none(pid_t tid)
{
	return get(tid, 0, NULL) < 0 && errno == EINVAL;
}

enum filters_found filters_read(pid_t tid, struct filters *ret_filters)
{
	struct sock_filter code[BPF_MAXINSNS]; /* the kernel lets no filter have more */

	*ret_filters = (struct filters){ 0 };
	for (size_t i = 0; i < FILTERS_MAX; i++) {
		long count = get(tid, i, code);

		if (count < 0 && errno == ENOENT && i)
			return FILTERS_READ;
		if (count < 0 && errno == EINVAL && !i)
			return FILTERS_NONE;
		struct filter filter = { .count = count > 0 ? (size_t)count : 0 };
		filter.code = count > 0 ? calloc(filter.count, sizeof(*filter.code)) : NULL;
		if (!filter.code || !vec_push(ret_filters, filter)) {
			free(filter.code);
			return FILTERS_UNREADABLE;
		}
		memcpy(filter.code, code, filter.count * sizeof(*filter.code));
	}
	return FILTERS_UNREADABLE;
}

void filters_free(struct filters *filters)
{
	for (size_t i = 0; i < filters->count; i++)
		free(filters->items[i].code);
	vec_free(filters);
}

bool filters_equal(const struct filters *a, const struct filters *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++) {
		size_t count = a->items[i].count;

		if (count != b->items[i].count ||
		    memcmp(a->items[i].code, b->items[i].code, count * sizeof(struct sock_filter)))
			return false;
	}
	return true;
}

/* Of equally strict answers the kernel takes the newest filter's, with its data. */
static uint32_t stricter(uint32_t older, uint32_t newer)
{
	return bpf_is_stricter(older, newer) ? older : newer;
}

uint32_t filters_answer(const struct filters *filters, const struct bpf_call *call)
{
	uint32_t strictest = SECCOMP_RET_ALLOW, answer;

	for (size_t i = 0; i < filters->count; i++) {
		if (!bpf_eval(filters->items[i].code, filters->items[i].count, call, &answer))
			return SECCOMP_RET_KILL_PROCESS;
		strictest = stricter(strictest, answer);
	}
	return strictest;
}

bool filters_forbid(pid_t tid, const struct bpf_call *call)
{
	struct sock_filter code[BPF_MAXINSNS];
	uint32_t answer;

	for (size_t i = 0; i < FILTERS_MAX; i++) {
		long count = get(tid, i, code);

		if (count < 0) /* at the first one: there is none, or we may not read it */
			return i && errno != ENOENT;
		if (!bpf_eval(code, (size_t)count, call, &answer) || !filters_is_allowed(answer))
			return true;
	}
	return true;
}

bool filters_may_read(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct sets[2] = { { 0 } };

	return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 0 && !syscall(SYS_capget, &head, sets) &&
	       sets[CAP_SYS_ADMIN / 32].effective >> (CAP_SYS_ADMIN % 32) & 1;
}

bool filters_is_allowed(uint32_t answer)
{
	return (answer & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ALLOW;
}

const char *filters_text(uint32_t answer, char text[FILTERS_TEXT_SIZE])
{
	int number = answer & SECCOMP_RET_DATA;
	const char *name = strerrorname_np(number);

	assert(!filters_is_allowed(answer));
	switch (answer & SECCOMP_RET_ACTION_FULL) {
	case SECCOMP_RET_TRAP:
		return "sends SIGSYS";
	case SECCOMP_RET_USER_NOTIF:
		return "asks another process";
	case SECCOMP_RET_TRACE:
		return "asks a debugger";
	case SECCOMP_RET_LOG:
		return "writes to the system's log";
	case SECCOMP_RET_ERRNO:
		if (name)
			snprintf(text, FILTERS_TEXT_SIZE, "answers %s", number ? name : "0");
		else
			snprintf(text, FILTERS_TEXT_SIZE, "answers error %d", number);
		return text;
	default:
		return "kills"; /* the kernel does so for actions that it doesn't know, too */
	}
}
