/*
 * api_client.c - uses libdyntrace.so as C and as C++. Built by the test against the installed
 * header.
 *
 *	api_client symbols TARGET GLOB		one line per symbol
 *	api_client markers TARGET GLOB		one line per marker
 *	api_client status			two lines: before and after a tracepoint waits
 *	api_client threads PID ROUNDS		two threads with a handle each, and a third that
 *						lists symbols; prints how much each did
 */
#include <dyntrace/dyntrace.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static volatile sig_atomic_t children;

static void on_child(int number)
{
	(void)number;
	children++;
}

static void check(struct dyntrace_error *error)
{
	if (!error)
		return;
	fprintf(stderr, "%d: %s\n", (int)dyntrace_error_kind(error), dyntrace_error_text(error));
	exit(1);
}

static int list_symbols(const char *target, const char *glob)
{
	struct dyntrace_list *list = NULL;

	check(dyntrace_list_symbols(NULL, target, *glob ? glob : NULL, DYNTRACE_PROTOTYPES, &list));
	for (size_t i = 0; i < dyntrace_list_count(list); i++) {
		const struct dyntrace_symbol *one = dyntrace_list_symbol(list, i);

		printf("%llu\t%llu\t%s\t%s\t%s\t%s\t%s\n", (unsigned long long)one->address,
		       (unsigned long long)one->size, one->module, one->name, one->kind,
		       one->source, one->prototype);
	}
	if (dyntrace_list_marker(list, 0) || dyntrace_list_symbol(list, dyntrace_list_count(list)))
		return 2;
	dyntrace_list_free(list);
	return 0;
}

static int list_markers(const char *target, const char *glob)
{
	struct dyntrace_list *list = NULL;

	check(dyntrace_list_markers(NULL, target, *glob ? glob : NULL, &list));
	for (size_t i = 0; i < dyntrace_list_count(list); i++) {
		const struct dyntrace_marker *one = dyntrace_list_marker(list, i);

		printf("%s\t%s\t%s\t%s\t%llu\t%llu\n", one->provider, one->name, one->arguments,
		       one->module, (unsigned long long)one->address,
		       (unsigned long long)one->semaphore);
	}
	dyntrace_list_free(list);
	return 0;
}

static void print_status(struct dyntrace *dyntrace)
{
	const struct dyntrace_status *status = NULL;

	check(dyntrace_status(dyntrace, &status));
	printf("%s\t%s\t%s\t%d\t%u\t%d\t%llu\t%llu\t%llu\t%llu\n", status->version, status->socket,
	       status->output, status->pid, status->uid, status->recording,
	       (unsigned long long)status->processes, (unsigned long long)status->tracepoints,
	       (unsigned long long)status->waiting, (unsigned long long)status->clients);
}

static int show_status(void)
{
	struct dyntrace *dyntrace = NULL;
	struct dyntrace_probe probe;

	memset(&probe, 0, sizeof(probe));
	probe.size = sizeof(probe);
	probe.location = "main";
	check(dyntrace_connect(NULL, &dyntrace));
	print_status(dyntrace);
	check(dyntrace_add(dyntrace, "api-nobody", &probe, DYNTRACE_WAIT, NULL));
	print_status(dyntrace);
	check(dyntrace_remove(dyntrace, "api-nobody", "main", 0));
	dyntrace_close(dyntrace);
	return 0;
}

/* ---- threads --------------------------------------------------------------------------------- */

struct task {
	const char *target;
	int number, rounds;
	unsigned long long done;
};

static void *change(void *context)
{
	struct task *task = (struct task *)context;
	struct dyntrace *dyntrace = NULL;
	char name[32];
	struct dyntrace_probe probe;

	snprintf(name, sizeof(name), "thread%d", task->number);
	memset(&probe, 0, sizeof(probe));
	probe.size = sizeof(probe);
	probe.location = "foo";
	probe.name = name;
	probe.shape = DYNTRACE_ENTRY;
	check(dyntrace_connect(NULL, &dyntrace));
	for (int i = 0; i < task->rounds; i++) {
		struct dyntrace_list *list = NULL;

		check(dyntrace_add(dyntrace, task->target, &probe, 0, NULL));
		check(dyntrace_list_tracepoints(dyntrace, task->target, 0, &list));
		for (size_t k = 0; k < dyntrace_list_count(list); k++) {
			const struct dyntrace_tracepoint *one = dyntrace_list_tracepoint(list, k);

			task->done += !strcmp(one->name, name) && one->shape == DYNTRACE_ENTRY &&
				      one->bytes > 0 && one->fields[0] && !one->contexts[0];
		}
		dyntrace_list_free(list);
		check(dyntrace_remove(dyntrace, task->target, name, 0));
	}
	dyntrace_close(dyntrace);
	return NULL;
}

static void *look(void *context)
{
	struct task *task = (struct task *)context;

	for (int i = 0; i < task->rounds; i++) {
		struct dyntrace_list *list = NULL;

		check(dyntrace_list_symbols(NULL, task->target, "foo", 0, &list));
		task->done += dyntrace_list_count(list);
		dyntrace_list_free(list);
	}
	return NULL;
}

static int run_threads(const char *target, int rounds)
{
	struct task tasks[3] = { { target, 1, rounds, 0 },
				 { target, 2, rounds, 0 },
				 { target, 3, rounds, 0 } };
	pthread_t threads[3];

	signal(SIGCHLD, on_child);
	for (int i = 0; i < 3; i++)
		if (pthread_create(&threads[i], NULL, i < 2 ? change : look, &tasks[i]))
			return 3;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	int waited = waitpid(-1, NULL, 0);
	printf("%llu %llu %llu, %d signals, %s\n", tasks[0].done, tasks[1].done, tasks[2].done,
	       (int)children, waited < 0 && errno == ECHILD ? "no child" : "a child");
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (argc == 4 && !strcmp(what, "symbols"))
		return list_symbols(argv[2], argv[3]);
	if (argc == 4 && !strcmp(what, "markers"))
		return list_markers(argv[2], argv[3]);
	if (argc == 2 && !strcmp(what, "status"))
		return show_status();
	if (argc == 4 && !strcmp(what, "threads"))
		return run_threads(argv[2], atoi(argv[3]));
	return 4;
}
