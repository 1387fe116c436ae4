/*
 * resume.h - what the trace of a killed controller has already, by thread record.
 *
 * Pure: looks at each packet of the trace once, and at the records of the pool.
 */
#ifndef DYNTRACE_RESUME_H
#define DYNTRACE_RESUME_H

#include "control/ctf/writer.h"
#include "reader.h"

struct resume {
	const struct dt_pool *pool;
	struct reader_resume *threads; /* DT_THREADS_MAX entries, zeroed by the caller */
};

/* A writer_seen_fn; `context` is a struct resume. */
void resume_see(void *context, const struct packet_seen *packet);

#endif
