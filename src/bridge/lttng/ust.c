/*
 * ust.c - load liblttng-ust.
 *
 * The library's constructor waits for the session daemon, for three seconds if that hangs, and
 * holds the loader's lock meanwhile. Only the environment can change that time. setenv isn't safe
 * in a program whose threads may read the environment. So during dlopen `environ` leads to a copy
 * with one more entry. The copy stays in memory for ever: a thread that reads it meanwhile finds
 * all that was there before.
 */
#include "ust.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "liblttng-ust.so.1"
#define FORK_LIBRARY "liblttng-ust-fork.so.1"
#define TIMEOUT_NAME "LTTNG_UST_REGISTER_TIMEOUT="

/* Long enough for a daemon that answers (20 to 40 ms), short for one that doesn't. */
static char timeout_entry[] = TIMEOUT_NAME "300";

struct ust ust;

static const struct {
	const char *name;
	size_t at;
} symbols[] = {
	{ "lttng_ust_probe_register", offsetof(struct ust, probe_register) },
	{ "lttng_ust_probe_unregister", offsetof(struct ust, probe_unregister) },
	{ "lttng_ust_tracepoint_module_register", offsetof(struct ust, module_register) },
	{ "lttng_ust_tracepoint_module_unregister", offsetof(struct ust, module_unregister) },
	{ "lttng_ust_tp_rcu_read_lock", offsetof(struct ust, read_lock) },
	{ "lttng_ust_tp_rcu_read_unlock", offsetof(struct ust, read_unlock) },
	{ "lttng_ust_urcu_synchronize_rcu", offsetof(struct ust, synchronize) },
	{ "lttng_ust_before_fork", offsetof(struct ust, before_fork) },
	{ "lttng_ust_after_fork_parent", offsetof(struct ust, after_fork_parent) },
	{ "lttng_ust_after_fork_child", offsetof(struct ust, after_fork_child) },
};

/* The environment with our timeout, unless it has one; NULL: as it is. */
static char **patient_environment(void)
{
	size_t count = 0;

	while (environ && environ[count]) {
		if (!strncmp(environ[count++], TIMEOUT_NAME, strlen(TIMEOUT_NAME)))
			return NULL;
	}
	char **copy = calloc(count + 2, sizeof(*copy));
	if (!copy)
		return NULL;
	copy[0] = timeout_entry;
	if (count)
		memcpy(copy + 1, environ, count * sizeof(*copy));
	return copy;
}

static void *open_library(void)
{
	void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD);
	char **before = environ, **copy = handle ? NULL : patient_environment();

	if (handle)
		return handle;
	if (copy)
		__atomic_store_n(&environ, copy, __ATOMIC_RELEASE);
	handle = dlopen(LIBRARY, RTLD_NOW);
	/* If the program has called setenv meanwhile, its environment stays. */
	if (copy)
		__atomic_compare_exchange_n(&environ, &copy, before, false, __ATOMIC_ACQ_REL,
					    __ATOMIC_RELAXED);
	return handle;
}

/* ---- forks ----------------------------------------------------------------------------------- */

static sigset_t fork_mask;

static void before_fork(void)
{
	ust.before_fork(&fork_mask);
}

static void in_parent(void)
{
	ust.after_fork_parent(&fork_mask);
}

static void in_child(void)
{
	ust.after_fork_child(&fork_mask);
}

/* The target may have loaded liblttng-ust-fork, which does the same. */
static void watch_forks(void)
{
	int pthread_atfork(void (*)(void), void (*)(void), void (*)(void));

	if (!dlopen(FORK_LIBRARY, RTLD_NOW | RTLD_NOLOAD))
		pthread_atfork(before_fork, in_parent, in_child);
}

const char *ust_load(void)
{
	static bool loaded;
	void *handle;

	if (loaded)
		return NULL;
	handle = open_library();
	if (!handle)
		return LIBRARY
			": cannot load it (install liblttng-ust1, version 2.13 or later)";
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *found = dlsym(handle, symbols[i].name);

		if (!found)
			return LIBRARY ": a needed function is missing: unknown version";
		memcpy((char *)&ust + symbols[i].at, &found, sizeof(found));
	}
	watch_forks();
	loaded = true;
	return NULL;
}
