/*
 * bpf_eval.h - evaluate a seccomp filter for a given system call, as the kernel would.
 *
 * Pure, without memory of its own: also for signal handlers. No library does this: libseccomp makes
 * filters, and doesn't read them.
 *
 * (E1) For a call whose words are all known, the answer is the kernel's.
 * (E2) For a call with unknown words, no answer that the kernel could give is stricter.
 */
#ifndef DYNTRACE_BPF_EVAL_H
#define DYNTRACE_BPF_EVAL_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BPF_EVAL_WORDS (sizeof(struct seccomp_data) / sizeof(uint32_t))

struct bpf_call {
	struct seccomp_data data;
	uint32_t unknown; /* bit n: the 32-bit word n of `data` may have any value */
};

/* All words of instruction_pointer. */
#define BPF_UNKNOWN_RIP (3u << (offsetof(struct seccomp_data, instruction_pointer) / 4))
#define BPF_UNKNOWN_ARG(n) (3u << (offsetof(struct seccomp_data, args) / 4 + 2 * (n)))

/* *ret_answer: SECCOMP_RET_*, with its data. False: an instruction that the kernel doesn't let a
 * filter have, or too many paths for unknown words. */
bool bpf_eval(const struct sock_filter *code, size_t count, const struct bpf_call *call,
	      uint32_t *ret_answer);

/* Of two answers the kernel takes the stricter one. */
bool bpf_is_stricter(uint32_t answer, uint32_t than);

#endif
