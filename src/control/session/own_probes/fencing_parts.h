/*
 * fencing_parts.h - what the files of fencing.h share.
 */
#ifndef DYNTRACE_FENCING_PARTS_H
#define DYNTRACE_FENCING_PARTS_H

#include "fencing.h"

/* fencing.c: (E3) in our own stop, are the filters still those that were judged? Gives what was
 * judged. */
struct error *fencing_add_judged(const struct proc *proc, const struct stop *stop,
				 struct fence *fence);
/* fencing.c: does a held thread get its own system calls as signals? */
bool fencing_is_dispatched(const struct stop *stop);

/* fencing_words.c: tells the user what dyntrace does without. */
void fencing_tell_parts(const struct session *session, const struct fence *fence, unsigned closed);
/* fencing_words.c: for those who ask for lines at the hit (tracers/sync): nobody else is told. */
void fencing_note_lines(struct session *session, const struct fence *fence);

#endif
