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

/* fencing_later.c: can we learn what filters say, by ourselves or from an asker? */
bool fencing_may_judge(const struct session *session);
/* fencing_later.c: false: a filter came between the asker's stop and this one. */
bool fencing_is_judged(const struct proc *proc, const struct stop *stop);
/* fencing_later.c: where a process of the session says that it has taken up a filter. */
taddr fencing_filtered_word(const struct session *session);
/* fencing_later.c: is a thread in a watched function, so that its filter may still come? The
 * process is the target, or a forked child. */
struct error *fencing_find_passing(const struct session *session, struct proc *proc,
				   struct stop *stop, bool *ret_found);
/* fencing_later.c: *ret_closed: what the filters of all held threads forbid now. */
struct error *fencing_judge_again(const struct session *session, struct proc *proc,
				  struct stop *stop, unsigned *ret_closed);
/* fencing_later.c: (Q8) tells the agent in the process: it makes no call, or all but these. */
struct error *fencing_write(const struct session *session, struct proc *proc, unsigned closed);
/* fencing_children.c: the same for children that have taken up a filter. */
void fencing_look_at_children(struct session *session);

/* fencing_words.c: tells the user what dyntrace does without. */
void fencing_tell_parts(const struct session *session, const struct fence *fence, unsigned closed);
/* fencing_words.c: for those who ask for lines at the hit (tracers/sync): nobody else is told. */
void fencing_note_lines(struct session *session, const struct fence *fence);

#endif
