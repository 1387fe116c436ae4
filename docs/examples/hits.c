/*
 * hits.c - count the calls of some functions, in the program itself.
 *
 *	cc hits.c $(pkg-config --cflags --libs dyntrace) -o hits
 *	./hits redis-server processCommand 'lookupKey*'
 *
 * Counts until Enter (or the end of the input), prints one line per function, and detaches: all
 * tracepoints of the program are removed, also those of other clients.
 */
#include <dyntrace/dyntrace.h>
#include <inttypes.h>
#include <stdio.h>

/* Prints the error, if any; gives 1 for an error. */
static int failed(struct dyntrace_error *error)
{
	if (!error)
		return 0;
	fprintf(stderr, "hits: %s\n", dyntrace_error_text(error));
	dyntrace_error_free(error);
	return 1;
}

static int count_functions(struct dyntrace *dyntrace, const char *target, char **functions)
{
	struct dyntrace_probe probe = {
		.size = sizeof(probe), .shape = DYNTRACE_ENTRY_EXIT, .tracer = "count" };

	for (; *functions; functions++) {
		probe.location = *functions;
		if (failed(dyntrace_add(dyntrace, target, &probe, 0, NULL)))
			return 1;
		fputs(dyntrace_notes(dyntrace), stderr);
	}
	return 0;
}

static int print_hits(struct dyntrace *dyntrace, const char *target)
{
	struct dyntrace_list *list;

	if (failed(dyntrace_list_tracepoints(dyntrace, target, 0, &list)))
		return 1;
	for (size_t i = 0; i < dyntrace_list_count(list); i++) {
		const struct dyntrace_tracepoint *one = dyntrace_list_tracepoint(list, i);

		printf("%s: %" PRIu64 " hits, %" PRIu64 " returned, median %" PRIu64 " ns\n",
		       one->name, one->hits, one->calls, one->p50_ns);
	}
	dyntrace_list_free(list);
	return 0;
}

int main(int argc, char **argv)
{
	struct dyntrace *dyntrace;
	int status;

	if (argc < 3) {
		fprintf(stderr, "usage: hits TARGET FUNCTION...\n");
		return 2;
	}
	if (failed(dyntrace_connect(NULL, &dyntrace)))
		return 1;
	status = failed(dyntrace_attach(dyntrace, argv[1], 0));
	if (!status) {
		status = count_functions(dyntrace, argv[1], argv + 2);
		if (!status) {
			puts("counting; Enter ends it");
			fflush(stdout);
			while (getchar() != '\n' && !feof(stdin))
				;
			status = print_hits(dyntrace, argv[1]);
		}
		status |= failed(dyntrace_detach(dyntrace, argv[1], 0));
	}
	dyntrace_close(dyntrace);
	return status;
}
