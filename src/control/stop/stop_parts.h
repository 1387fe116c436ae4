/*
 * stop_parts.h - what stop.c, stop_all.c and stop_one.c share.
 */
#ifndef DYNTRACE_STOP_PARTS_H
#define DYNTRACE_STOP_PARTS_H

#include "held.h"

#define STOP_PAUSE_US 5000 /* between two tries */

/* A stop that holds no thread yet. all: it is for all threads of the process. */
struct error *stop_new(struct proc *proc, bool all, struct stop **ret_stop);
/* Raises the priority with which the caller runs until the stop is released: before threads are
 * held, and not for what can be done at leisure. */
void stop_raise(struct stop *stop);
/* Adds a thread that is in a ptrace stop of ours already, and stays in it on release. */
struct error *stop_take_held(struct stop *stop, pid_t tid);
/* Fails if the process has begun another program before its threads were held, or if there is no
 * descriptor or memory to look (H33). */
struct error *stop_check_program(struct stop *stop);
/* The user doesn't want to wait for the threads any more. */
bool stop_is_quit(const struct stop *stop);
/* Lets threads go: all, or only those that are HELD_STOPPED. */
void stop_let_go(struct stop *stop, bool only_stopped);

#endif
