/*
 * answers.h - what one set of filters says to the calls of fence.h.
 *
 * A process's threads mostly have one set, which stays for the process's life, while dyntrace asks
 * about the same calls again and again, most of them while all threads are held. So each call is
 * asked about once per set.
 *
 * (E4) Answers are those of the filters beside them: other filters begin without any answer.
 */
#ifndef DYNTRACE_ANSWERS_H
#define DYNTRACE_ANSWERS_H

#include "fence.h"

/* All zero: no filters. */
struct answers {
	struct filters filters;
	uint64_t generation; /* of `filters`: grows with each other set; 0: none yet */
	bool asked[FENCE_CALLS_MAX];
	uint32_t rows[FENCE_CALLS_MAX]; /* those that were asked about */
};

void answers_free(struct answers *answers);

/* Reads the filters of a thread in a ptrace stop of ours. FILTERS_READ: `answers` has them, and
 * keeps what they were asked already; otherwise it is as before. */
enum filters_found answers_read(struct answers *answers, pid_t tid);

/* The answer to a row of the table. */
uint32_t answers_ask(struct answers *answers, size_t row);
/* Asks about all rows, so that nobody has to wait for an answer later. */
void answers_ask_all(struct answers *answers);

/* Is the call one of a row that is allowed? False: unknown; its true arguments decide. */
bool answers_allow(struct answers *answers, long number, const uint64_t args[6]);

#endif
