#include "rseq.h"

#include <sys/ptrace.h>

#ifndef PTRACE_GET_RSEQ_CONFIGURATION
#define PTRACE_GET_RSEQ_CONFIGURATION 0x420f
#endif

struct rseq_config {
	uint64_t area;
	uint32_t size;
	uint32_t signature;
	uint32_t flags;
	uint32_t pad;
};

/* The kernel's struct rseq_cs, which the thread's area points to. */
struct rseq_sequence {
	uint32_t version;
	uint32_t flags;
	uint64_t start;
	uint64_t length;
	uint64_t abort;
};

static bool read_word(struct stop *stop, uint64_t at, void *to, size_t n)
{
	struct error *err = mem_read(stop->proc, taddr_of(at), to, n);

	error_free(err);
	return !err;
}

bool rseq_inside(struct stop *stop, size_t index, taddr *ret_abort)
{
	const struct held *held = &stop->threads.items[index];
	struct rseq_config config = { 0 };
	struct rseq_sequence sequence;
	uint64_t pointer = 0;

	if (ptrace((enum __ptrace_request)PTRACE_GET_RSEQ_CONFIGURATION, held->tid, sizeof(config),
		   &config) < 0 || !config.area)
		return false;
	if (!read_word(stop, config.area + 8, &pointer, sizeof(pointer)) || !pointer ||
	    !read_word(stop, pointer, &sequence, sizeof(sequence)))
		return false;
	if (held->regs.rip - sequence.start >= sequence.length)
		return false;
	if (ret_abort)
		*ret_abort = taddr_of(sequence.abort);
	return true;
}
