/*
 * inject.h - failures on demand.
 *
 * The linker hands calls of the functions in meson.build to inject.c, which counts them and lets
 * one of them fail, or all from one on. The code under test knows nothing of it; a build without it
 * has not a byte of it.
 *
 * In dyntrace and dyntraced (-Dfault_injection=true) the environment chooses:
 *
 *	DYNTRACE_FAULT=CLASSES:N[+]	N: which call, counted from 1; +: all from then on
 *	DYNTRACE_FAULT_PROGRAM=NAME	only in that program: dyntrace or dyntraced
 *
 * A program PROGRAM for which there is a file PROGRAM.faults, a struct inject_control, obeys the
 * file instead, while it runs. So daemon_faults.py lets calls of one kind of process of the daemon
 * (BUILD/tests/dyntraced_faults) fail, from a command on.
 */
#ifndef DYNTRACE_INJECT_H
#define DYNTRACE_INJECT_H

#include <stdbool.h>
#include <stdint.h>

enum fault_class {
	FAULT_ALLOCATION,
	FAULT_CALL, /* a system call */
	FAULT_WRITE, /* to a file */
	FAULT_PTRACE,
	FAULT_REMOTE, /* a system call in the target, which the kernel refuses */
	FAULT_STOP,
	FAULT_TEXT, /* a write to memory of the target */
	FAULT_UNFIT, /* no thread of a stop can be borrowed */
	FAULT_CLASSES
};

#define FAULT_ALL ((1u << FAULT_CLASSES) - 1)
#define FAULT_DEPTH 24

extern const char *const fault_class_names[FAULT_CLASSES];

struct fault_report {
	uint64_t calls; /* of the wanted classes, while it was armed */
	uint64_t by_class[FAULT_CLASSES];
	bool fired;
	bool killed; /* the target */
	const char *name; /* the function that failed */
	void *stack[FAULT_DEPTH]; /* of its call */
	int depth;
};

/* The processes of dyntraced, by their first argument. */
enum inject_role { INJECT_SUPERVISOR, INJECT_WORKER, INJECT_KEEPER, INJECT_ASKER };

#define INJECT_NOTED (1 << 16)

/* A file that all processes of the daemon and their driver have mapped; daemon_faults.py has its
 * layout, too. */
struct inject_control {
	uint32_t classes; /* bits; 0: not armed */
	uint32_t role; /* whose calls count */
	uint64_t nth; /* which call fails; 0: none, calls are noted */
	uint64_t calls; /* since it was armed, of all processes of the role */
	uint32_t fired, killed;
	char name[24]; /* the function that failed */
	uint64_t base; /* where its program lies */
	uint64_t depth, stack[FAULT_DEPTH];
	uint32_t noted[INJECT_NOTED]; /* per call: a hash of its callers */
};

/* Where a call came from: a hash of its callers. */
typedef void (*inject_note_fn)(uint64_t call, uint32_t caller, uint32_t callers);

/* Counts calls of these classes (bits) from now on; the nth fails. 0: none. onward: the later ones,
 * too. note: NULL, or called with each. */
void inject_arm(unsigned classes, uint64_t nth, bool onward, inject_note_fn note);
/* Has the failure killed the target? */
bool inject_has_killed(void);
void inject_disarm(struct fault_report *ret_report);

#endif
