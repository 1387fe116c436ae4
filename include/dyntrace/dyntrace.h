/*
 * dyntrace.h - trace other programs from your own: what the command line does through the
 * daemon, for C and C++.
 *
 *	struct dyntrace *dyntrace;
 *	struct dyntrace_error *error = dyntrace_connect(NULL, &dyntrace);
 *	if (!error)
 *		error = dyntrace_attach(dyntrace, "redis-server", 0);
 *	if (error) {
 *		fprintf(stderr, "%s\n", dyntrace_error_text(error));
 *		dyntrace_error_free(error);
 *	}
 *
 * Compile with `pkg-config --cflags --libs dyntrace`. dyntraced must be running, but for
 * lists of symbols and markers; who may do what is its business.
 *
 * Errors: a call gives NULL, or an error that the caller frees. Its text is a sentence for
 * people, in one line. What a call returns through a ret_ argument isn't touched when it fails.
 * A text that is missing (NULL or empty) is such an error, too.
 *
 * Ownership: texts that are given are copied. Texts that come out belong to the list, event or
 * handle that they came from.
 *
 * Threads: a handle (struct dyntrace, struct dyntrace_watch) and a list are used by one thread
 * at a time; different ones by different threads at once. A watch has a connection of its own:
 * one thread may wait in it while another makes calls. dyntrace_connect reads the environment.
 * Calls wait for the daemon's answer; signals don't end them, except where said. After fork only
 * the parent goes on using its handles. The library starts no threads, handles no signals,
 * prints nothing. dyntrace_list_symbols and dyntrace_list_markers run a program for a moment, which
 * neither SIGCHLD nor wait tell of.
 *
 * Versions: what is in this header stays as it is in libdyntrace.so.0; DYNTRACE_API_VERSION goes
 * up when something is added. Structures that you fill have their size in them, and those that
 * you get may grow at their ends, so programs needn't be built again.
 */
#ifndef DYNTRACE_DYNTRACE_H
#define DYNTRACE_DYNTRACE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DYNTRACE_API_VERSION 2

/* DYNTRACE_API_VERSION of the library that the program runs with. */
unsigned int dyntrace_api_version(void);

/* ---- errors ---------------------------------------------------------------------------------- */

struct dyntrace_error;

enum dyntrace_error_kind {
	DYNTRACE_FAILED, /* anything else */
	DYNTRACE_USAGE, /* an argument is missing or makes no sense */
	DYNTRACE_NOT_FOUND,
	DYNTRACE_NOT_PERMITTED,
	DYNTRACE_GONE, /* the process ended meanwhile */
	DYNTRACE_REFUSED, /* a tracepoint can't be placed there, and why */
};

const char *dyntrace_error_text(const struct dyntrace_error *error);
enum dyntrace_error_kind dyntrace_error_kind(const struct dyntrace_error *error);
void dyntrace_error_free(struct dyntrace_error *error); /* NULL is fine */

/* ---- the daemon ------------------------------------------------------------------------------ */

struct dyntrace;

/*
 * socket: the daemon's; NULL: $DYNTRACE_SOCKET, else root's /run/dyntrace/dyntraced.sock or the
 * user's $XDG_RUNTIME_DIR/dyntrace.sock. If the daemon ends later, calls fail, and go on
 * failing: connect again.
 */
struct dyntrace_error *dyntrace_connect(const char *socket, struct dyntrace **ret_dyntrace);
/* What was attached and added stays. NULL is fine. */
void dyntrace_close(struct dyntrace *dyntrace);

/* How the daemon is. It may grow at its end. */
struct dyntrace_status {
	const char *version;
	const char *socket;
	const char *output; /* the folder where traces go by default */
	int pid;
	unsigned int uid;
	int recording; /* 0: stopped as a whole, for processes to come too */
	uint64_t processes; /* that have the agent */
	uint64_t tracepoints;
	uint64_t waiting; /* tracepoints that wait for a program */
	uint64_t clients;
};

/* Since version 2. Valid until the next dyntrace_status of this handle. */
struct dyntrace_error *dyntrace_status(struct dyntrace *dyntrace,
				       const struct dyntrace_status **ret_status);

/* What the daemon said about the last call that isn't an error, a line each; "" if nothing. */
const char *dyntrace_notes(const struct dyntrace *dyntrace);

/* ---- lists ----------------------------------------------------------------------------------- */

struct dyntrace_list;

struct dyntrace_process {
	int pid;
	unsigned int uid;
	const char *name;
	const char *loaded; /* injected, linked or preloaded */
	uint64_t tracepoints;
	const char *trace; /* the directory of its trace; NULL: none yet */
};

enum dyntrace_shape {
	DYNTRACE_BARE, /* that the instruction was reached */
	DYNTRACE_ENTRY, /* a function's entry, with its arguments */
	DYNTRACE_ENTRY_EXIT, /* and its exit: return value and duration */
};

/* Times are in nanoseconds, of calls that returned. */
struct dyntrace_tracepoint {
	int pid; /* 0: it waits for a program */
	const char *name;
	const char *location;
	const char *tracer;
	const char *state; /* enabled, disabled, waiting or refused */
	const char *why; /* it waits or was refused; else NULL */
	const char *placed; /* jump, pun, trap, ...; NULL: it isn't */
	const char *module;
	const char *filter; /* NULL: none */
	uint64_t address;
	uint64_t hits;
	uint64_t lost;
	uint64_t calls;
	uint64_t total_ns, p50_ns, p90_ns, p99_ns, max_ns;
	/* Since version 2: */
	enum dyntrace_shape shape;
	const char *argument; /* of the tracer; NULL: none */
	const char *const *fields; /* of its events; ends with NULL */
	const char *const *contexts; /* likewise */
	uint64_t hits_per_second;
	uint64_t bytes; /* of code that was made for it */
	uint64_t nested; /* hits in probe functions, which the tracer call doesn't call for */
	const char *fault; /* what its probe function failed with; NULL: nothing */
};

struct dyntrace_symbol {
	uint64_t address; /* in the process, or in the file */
	uint64_t size;
	const char *module; /* name of the file it is in */
	const char *name;
	const char *kind; /* function or ifunc */
	const char *source; /* where its name was found: .symtab, .dynsym, ... */
	const char *prototype; /* with DYNTRACE_PROTOTYPES; else NULL */
};

struct dyntrace_marker {
	const char *provider;
	const char *name;
	const char *arguments; /* in the assembler's words, "-4@%edi 8@-8(%rbp)"; may be "" */
	const char *module;
	uint64_t address;
	uint64_t semaphore; /* its address; 0: none */
};

size_t dyntrace_list_count(const struct dyntrace_list *list);
/* NULL: not that many, or a list of something else. */
const struct dyntrace_process *dyntrace_list_process(const struct dyntrace_list *list,
						     size_t index);
const struct dyntrace_tracepoint *dyntrace_list_tracepoint(const struct dyntrace_list *list,
							   size_t index);
const struct dyntrace_symbol *dyntrace_list_symbol(const struct dyntrace_list *list, size_t index);
const struct dyntrace_marker *dyntrace_list_marker(const struct dyntrace_list *list, size_t index);
const char *dyntrace_list_text(const struct dyntrace_list *list, size_t index);
void dyntrace_list_free(struct dyntrace_list *list); /* NULL is fine */

/* ---- processes ------------------------------------------------------------------------------- */

/* target: a pid in digits, or a name. Several processes of that name are an error without this: */
#define DYNTRACE_ALL 1u /* every process of that name */

struct dyntrace_error *dyntrace_attach(struct dyntrace *dyntrace, const char *target,
				       unsigned int flags);
/* Removes its tracepoints and the agent; the process is as it was. */
struct dyntrace_error *dyntrace_detach(struct dyntrace *dyntrace, const char *target,
				       unsigned int flags);
/* Every process with the agent: dyntrace_list_process. */
struct dyntrace_error *dyntrace_list_processes(struct dyntrace *dyntrace,
					       struct dyntrace_list **ret_list);
/* Loads a library of probe functions into it; a relative path is seen from here. */
struct dyntrace_error *dyntrace_load(struct dyntrace *dyntrace, const char *target,
				     const char *library, unsigned int flags);
/* Unloads it again; an error while tracepoints use it. */
struct dyntrace_error *dyntrace_unload(struct dyntrace *dyntrace, const char *target,
				       const char *library, unsigned int flags);

/* ---- names ----------------------------------------------------------------------------------- */

#define DYNTRACE_PROTOTYPES 8u /* types from debug information, too: takes longer */

/*
 * Since version 2. The functions, or the static markers (SDT), of a process and its libraries, or
 * of a file: target is a pid, a process's name, or a file, as for `dyntrace list-symbols`. glob
 * picks names, or PROVIDER:NAME; NULL: all. That no function fits is an error, no marker an empty
 * list.
 *
 * No daemon is asked, and dyntrace may be NULL; if it isn't, dyntrace_notes tells of libraries that
 * were left out. The command `dyntrace` does the reading, with the rights of the caller: it is
 * looked for where the library is ($DYNTRACE_COMMAND names another).
 */
struct dyntrace_error *dyntrace_list_symbols(struct dyntrace *dyntrace, const char *target,
					     const char *glob, unsigned int flags,
					     struct dyntrace_list **ret_list);
struct dyntrace_error *dyntrace_list_markers(struct dyntrace *dyntrace, const char *target,
					     const char *glob, struct dyntrace_list **ret_list);

/* ---- tracepoints ----------------------------------------------------------------------------- */

#define DYNTRACE_WAIT 2u /* if there is no such program, or its library isn't loaded: wait for it */
#define DYNTRACE_DISABLED 4u /* place it, but switch it off */

/*
 * All zero but size and location is fine:
 *	struct dyntrace_probe probe = { .size = sizeof(probe), .location = "processCommand" };
 */
struct dyntrace_probe {
	size_t size; /* of this structure, as you know it */
	const char *location; /* SYMBOL[+OFFSET], ADDRESS or FILE:LINE, with @MODULE; or a glob */
	enum dyntrace_shape shape;
	const char *name; /* NULL: made from the location */
	const char *filter; /* "size > 4096"; NULL: every hit */
	const char *tracer; /* ctf, log, lttng, count or call; NULL: ctf */
	/* Of the tracer: directory or file, seen from here, or LIBRARY:FUNCTION; NULL: none */
	const char *argument;
	/* Recorded, too, up to 32: "tid", "backtrace", "var:req->path". Ends with NULL; NULL: none
	 *  */
	const char *const *contexts;
	uint64_t every, first, rate; /* record every Nth hit; the first N; N a second; 0: all */
	uint64_t string_max; /* bytes of a string that are recorded, 8 to 1024; 0: 256 */
};

/*
 * Attaches if need be. ret_added (NULL: not wanted): pid and name of each that was made, by
 * dyntrace_list_tracepoint.
 */
struct dyntrace_error *dyntrace_add(struct dyntrace *dyntrace, const char *target,
				    const struct dyntrace_probe *probe, unsigned int flags,
				    struct dyntrace_list **ret_added);

/* name: of a tracepoint of that target, or a glob. */
struct dyntrace_error *dyntrace_remove(struct dyntrace *dyntrace, const char *target,
				       const char *name, unsigned int flags);
struct dyntrace_error *dyntrace_enable(struct dyntrace *dyntrace, const char *target,
				       const char *name, unsigned int flags);
struct dyntrace_error *dyntrace_disable(struct dyntrace *dyntrace, const char *target,
					const char *name, unsigned int flags);
/* Record this too from now on; type as in dyntrace_probe's contexts. */
struct dyntrace_error *dyntrace_add_context(struct dyntrace *dyntrace, const char *target,
					    const char *name, const char *type, unsigned int flags);
/* With the hits of this moment: dyntrace_list_tracepoint. */
struct dyntrace_error *dyntrace_list_tracepoints(struct dyntrace *dyntrace, const char *target,
						 unsigned int flags,
						 struct dyntrace_list **ret_list);

/* ---- recording ------------------------------------------------------------------------------- */

/* target NULL: every process that the user may trace. Nothing is recorded from stop to start. */
struct dyntrace_error *dyntrace_start(struct dyntrace *dyntrace, const char *target,
				      unsigned int flags);
struct dyntrace_error *dyntrace_stop(struct dyntrace *dyntrace, const char *target,
				     unsigned int flags);
/* When it returns, all that was recorded before the call is in the traces' files. */
struct dyntrace_error *dyntrace_flush(struct dyntrace *dyntrace, const char *target,
				      unsigned int flags);
/* For a daemon with --mode overwrite. The directories that were made: dyntrace_list_text. */
struct dyntrace_error *dyntrace_snapshot(struct dyntrace *dyntrace, const char *target,
					 unsigned int flags, struct dyntrace_list **ret_list);

/* ---- notifications --------------------------------------------------------------------------- */

struct dyntrace_watch;

struct dyntrace_event {
	uint64_t time_ns; /* since 1970 */
	int pid;
	const char *program;
	/*
	 * attached, detached, exited, failed, buffer-full, lost, module-loaded, module-unloaded,
	 * tracepoint-placed, tracepoint-gone, tracepoint-failed; more may come
	 */
	const char *name;
	const char *detail; /* NULL: none */
};

/*
 * What happens to target (NULL: to all) from now on. A second connection to the same daemon, which
 * doesn't need the first any more.
 */
struct dyntrace_error *dyntrace_watch_open(struct dyntrace *dyntrace, const char *target,
					   struct dyntrace_watch **ret_watch);
void dyntrace_watch_close(struct dyntrace_watch *watch); /* NULL is fine */
/*
 * Readable when there may be something new; yours to poll, not to read or close. Several events
 * may come at once: before you poll, the first time too, call dyntrace_watch_next with timeout 0
 * until it gives none.
 */
int dyntrace_watch_fd(const struct dyntrace_watch *watch);
/*
 * The next one, valid until the next call; *ret_event is NULL if there was none within
 * timeout_ms (0: don't wait, -1: forever) or a signal came. Fails when the daemon has ended, or
 * has dropped us because we didn't read: an event is never just missing.
 */
struct dyntrace_error *dyntrace_watch_next(struct dyntrace_watch *watch, int timeout_ms,
					   const struct dyntrace_event **ret_event);

#ifdef __cplusplus
}
#endif

#endif
