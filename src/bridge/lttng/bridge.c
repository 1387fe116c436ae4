/*
 * bridge.c - the library's thread, and the function that trampolines call (src/shared/bridge.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ust.h"

#define SINGLE_MAX 512u
#define EXPORT __attribute__((visibility("default")))

EXPORT extern struct dt_bridge_answer dyntrace_lttng_answer;
EXPORT void dyntrace_lttng_start(const struct dt_bridge_request *request);
EXPORT void dyntrace_lttng_hit(const struct event *event, const uint8_t *image);

struct dt_bridge_answer dyntrace_lttng_answer;

/*
 * Set during a hit. liblttng-ust calls functions that may be probed, too (memcpy, malloc for a
 * thread's first event), and a signal handler may interrupt. Static TLS, because the other kinds
 * call malloc at a thread's first use.
 */
static __thread uint32_t inside __attribute__((tls_model("initial-exec")));

void dyntrace_lttng_hit(const struct event *event, const uint8_t *image)
{
	int number;

	if (inside) {
		__atomic_fetch_add(&dyntrace_lttng_answer.nested, 1, __ATOMIC_RELAXED);
		return;
	}
	number = errno;
	inside = 1;
	event_fire(event, image);
	inside = 0;
	errno = number;
}

/* ---- requests -------------------------------------------------------------------------------- */

static struct batch *batches;

static void fail(const char *why)
{
	dyntrace_lttng_answer.failed = 1;
	snprintf(dyntrace_lttng_answer.why, sizeof(dyntrace_lttng_answer.why), "%s", why);
}

static struct batch *create_batch(uint32_t count)
{
	struct batch *batch = calloc(1, sizeof(*batch));

	if (!batch)
		return NULL;
	batch->events = calloc(count, sizeof(*batch->events));
	batch->descs = calloc(count, sizeof(*batch->descs));
	batch->sites = calloc(count, sizeof(*batch->sites));
	return batch->events && batch->descs && batch->sites ? batch : NULL;
}

/* Reads events of one provider from `at` on, at most `most`; *ret_next: behind them. */
static struct batch *read_batch(const uint8_t *at, uint32_t most, const uint8_t **ret_next)
{
	const char *provider = ((const struct dt_bridge_event *)at)->provider;
	struct batch *batch = create_batch(most);
	size_t size;

	for (; batch && batch->count < most; at += size) {
		const struct dt_bridge_event *from = (const struct dt_bridge_event *)at;
		struct event *event;

		if (strncmp(from->provider, provider, sizeof(from->provider)))
			break;
		event = event_create(from, &size);
		if (!event)
			return NULL;
		event->desc.probe_desc = event->class.probe_desc = &batch->probe;
		for (uint32_t i = 0; i < event->enum_count; i++)
			event->enums[i]->probe_desc = &batch->probe;
		batch->descs[batch->count] = &event->desc;
		batch->sites[batch->count] = event->site;
		batch->events[batch->count++] = event;
	}
	*ret_next = at;
	return batch;
}

static bool register_batch(struct batch *batch)
{
	batch->probe = (struct lttng_ust_probe_desc){ .struct_size = sizeof(batch->probe),
						      .provider_name = batch->events[0]->provider,
						      .event_desc = batch->descs,
						      .nr_events = batch->count,
						      .major = LTTNG_UST_PROVIDER_MAJOR,
						      .minor = LTTNG_UST_PROVIDER_MINOR };
	if (ust.module_register(batch->sites, (int)batch->count))
		return false;
	batch->cookie = ust.probe_register(&batch->probe);
	if (!batch->cookie) {
		ust.module_unregister(batch->sites);
		return false;
	}
	batch->live = batch->count;
	for (uint32_t i = 0; i < batch->count; i++)
		batch->events[i]->is_registered = true;
	batch->next = batches;
	batches = batch;
	return true;
}

/* The events' memory stays (G2). */
static void unregister_batch(struct batch **at)
{
	struct batch *batch = *at;

	*at = batch->next;
	ust.probe_unregister(batch->cookie);
	ust.module_unregister(batch->sites);
	ust.synchronize();
}

static void define(const struct dt_bridge_request *request)
{
	const uint8_t *at = (const uint8_t *)request->argument;
	struct dt_bridge_result *results = calloc(request->count + 1, sizeof(*results));
	const char *why = ust_load();

	prctl(PR_SET_NAME, "dyntrace-lttng");
	if (why || !results || request->count > DT_BRIDGE_EVENTS_MAX) {
		fail(why ? why : "out of memory");
		return;
	}
	for (uint32_t done = 0; done < request->count;) {
		/* Few events are registered one by one, so that each can be forgotten. For many
		 * that takes quadratic time. */
		uint32_t most = request->count > SINGLE_MAX ? request->count - done : 1;
		struct batch *batch = read_batch(at, most, &at);

		if (!batch || !register_batch(batch)) {
			fail("liblttng-ust refused the events");
			return;
		}
		for (uint32_t i = 0; i < batch->count; i++, done++)
			results[done] = (struct dt_bridge_result){
				(uint64_t)batch->events[i],
				(uint64_t)&batch->events[i]->tracepoint.state
			};
	}
	dyntrace_lttng_answer.results = (uint64_t)results;
}

/* A batch is unregistered with its last event: they were registered together. */
static void forget(const struct event *event)
{
	for (struct batch **at = &batches; *at; at = &(*at)->next) {
		for (uint32_t i = 0; i < (*at)->count; i++) {
			struct event *known = (*at)->events[i];

			if (known != event || !known->is_registered)
				continue;
			known->is_registered = false;
			if (!--(*at)->live)
				unregister_batch(at);
			return;
		}
	}
}

static void leave(void)
{
	while (batches)
		unregister_batch(&batches);
}

static void serve(const struct dt_bridge_request *request)
{
	dyntrace_lttng_answer.failed = 0;
	dyntrace_lttng_answer.results = 0;
	if (request->version != DT_BRIDGE_VERSION)
		fail("libdyntrace-lttng.so has another version (restart the program)");
	else if (request->kind == DT_BRIDGE_DEFINE)
		define(request);
	else if (request->kind == DT_BRIDGE_FORGET)
		forget((const struct event *)request->argument);
	else if (request->kind == DT_BRIDGE_LEAVE)
		leave();
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* liblttng-ust gives the session daemon the name of the thread that loads it. That must be the
 * program's, not that of the thread which was borrowed to start this one. */
static void take_name(void)
{
	char name[17] = "";
	int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && read(fd, name, sizeof(name) - 1) > 0) {
		name[strcspn(name, "\n")] = '\0';
		prctl(PR_SET_NAME, name);
	}
	if (fd >= 0)
		close(fd);
}

/* The thread: answers one request at a time (G1). */
static void *run(void *argument)
{
	const struct dt_bridge_request *shared = argument;
	uint32_t *word = (uint32_t *)shared->wake;
	bool over = false;

	take_name();
	leave(); /* forgets the events of a controller that was killed */
	while (!over) {
		uint32_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
		uint32_t number = __atomic_load_n(&shared->number, __ATOMIC_ACQUIRE);

		if (number == dyntrace_lttng_answer.number) {
			if (syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0) < 0 &&
			    errno == EFAULT)
				return NULL; /* the agent is gone */
			continue;
		}
		struct dt_bridge_request request = *shared;
		serve(&request);
		over = request.kind == DT_BRIDGE_LEAVE;
		__atomic_store_n(&dyntrace_lttng_answer.number, number, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* Called at a safe point. All signals are blocked in the new thread: the program's own take
 * them. */
void dyntrace_lttng_start(const struct dt_bridge_request *request)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;

	dyntrace_lttng_answer.number = 0;
	dyntrace_lttng_answer.failed = 0;
	sigfillset(&all);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	int number = pthread_create(&thread, &attributes, run, (void *)request);
	if (number)
		fail(strerror(number));
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
}
