/*
 * open_calls.h - calls that are inside, and that their exit would record (R10).
 *
 * Whoever looks at the return stubs notes such calls here, from time to time, and at the end. A
 * call whose pair is read afterwards has returned, and is forgotten. A call that is left when the
 * reader finishes never returned: its entry is written, with its own time, and no exit. A call that
 * there was no memory to note is lost, whether or not it returns later.
 */
#ifndef DYNTRACE_OPEN_CALLS_H
#define DYNTRACE_OPEN_CALLS_H

#include "reader.h"

/* Forgets the calls that `owner` noted, which will note them anew; NULL: all. */
void open_calls_forget(struct reader *reader, const void *owner);
/* `id`: of the entry's event. `thread`: its record. `fields`: as in the event, after the header.
 * If these contradict the type, the call isn't noted. */
void open_calls_note(struct reader *reader, const void *owner, uint32_t thread, uint32_t id,
		     uint64_t begin, const void *fields, size_t size);

#endif
