/*
 * worker.h - memory that worker.c shares with the tests that trace it.
 */
#ifndef DYNTRACE_TESTS_WORKER_H
#define DYNTRACE_TESTS_WORKER_H

#include <stdint.h>

#define THREADS 4
#define FUNCTIONS 24
#define CHILD_CALLS 40
#define PROGRAM_CALLS 10
#define LIBRARY "libm.so.6"
#define LIBRARY_CALLS 25

/* Memory that both have. */
struct shared {
	uint32_t paused; /* wanted */
	uint32_t standing; /* threads that do */
	struct {
		uint64_t begun, done;
	} calls[THREADS][FUNCTIONS];
	uint32_t programs_wanted, programs_ended; /* mode execs */
	int32_t program_status; /* of the last one */
	uint32_t programs_stay; /* wanted: programs don't end */
	int32_t program_pid; /* of one that stays */
};

#endif
