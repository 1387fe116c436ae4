#include "metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/base/quote.h"
#include "control/base/vec.h"

/* All samples of a metric stand together, so each metric has a text of its own. */
enum metric {
	METRIC_TARGETS,
	METRIC_RECORDING,
	METRIC_TRACEPOINTS,
	METRIC_HITS,
	METRIC_LOST,
	METRIC_CALLS,
	METRIC_LONGEST,
	METRIC_KEY_HITS,
	METRIC_KEY_CALLS,
	METRIC_KEY_VALUES,
	METRIC_COUNT,
};

static const struct {
	const char *name, *type, *help;
} metrics[METRIC_COUNT] = {
	[METRIC_TARGETS] = { "dyntrace_targets", "gauge", "Processes that dyntraced traces." },
	[METRIC_RECORDING] = { "dyntrace_recording", "gauge", "1 while recording is on." },
	[METRIC_TRACEPOINTS] = { "dyntrace_tracepoints", "gauge", "Tracepoints of a process." },
	[METRIC_HITS] = { "dyntrace_hits_total", "counter", "Hits of a tracepoint." },
	[METRIC_LOST] = { "dyntrace_lost_total", "counter", "Events that were lost." },
	[METRIC_CALLS] = { "dyntrace_call_duration_seconds", "histogram",
			   "Durations of calls that returned." },
	[METRIC_LONGEST] = { "dyntrace_call_duration_longest_seconds", "gauge",
			     "Duration of the longest call that returned." },
	[METRIC_KEY_HITS] = { "dyntrace_key_hits_total", "counter", "Hits by key (count --by)." },
	[METRIC_KEY_CALLS] = { "dyntrace_key_duration_seconds", "histogram",
			       "Durations by key (count --by, --of)." },
	[METRIC_KEY_VALUES] = { "dyntrace_key_value", "histogram", "Values by key (count --of)." },
};

/* Upper bounds of buckets, in ns; and of other values. */
static const int64_t time_bounds[] = { 100,	 300,	    1000,      3000,	   10000,
				       30000,	 100000,    300000,    1000000,	   3000000,
				       10000000, 30000000,  100000000, 300000000,  1000000000,
				       3000000000, 10000000000 };
static const int64_t value_bounds[] = { 0,	 1,	 4,	  16,	    64,	       256,
					1024,	 4096,	 16384,	  65536,    262144,    1048576,
					4194304, 16777216, 67108864, 268435456, 1073741824 };
#define BOUNDS (sizeof(time_bounds) / sizeof(time_bounds[0]))
_Static_assert(BOUNDS == sizeof(value_bounds) / sizeof(value_bounds[0]), "one loop for both");

struct process {
	uint64_t pid;
	char *program;
};

struct collection {
	struct strbuf texts[METRIC_COUNT];
	VEC(struct process) processes;
	const struct process *process; /* whose tracepoints are being listed */
	char *labels; /* of the tracepoint that came last */
	char *by; /* its keys; NULL: none */
	bool failed;
};

static void collection_free(struct collection *collection)
{
	for (size_t i = 0; i < METRIC_COUNT; i++)
		strbuf_free(&collection->texts[i]);
	for (size_t i = 0; i < collection->processes.count; i++)
		free(collection->processes.items[i].program);
	vec_free(&collection->processes);
	free(collection->labels);
	free(collection->by);
}

/* Appends name="value". Names of programs and functions, and keys, are foreign text. */
static void add_label(struct strbuf *text, const char *name, const char *value)
{
	_cleanup_(strbuf_free) struct strbuf plain = { 0 };

	quote_plain(&plain, value, strlen(value));
	strbuf_printf(text, "%s%s=\"", text->length ? "," : "", name);
	for (size_t i = 0; i < plain.length; i++) {
		if (plain.text[i] == '\\' || plain.text[i] == '"')
			strbuf_add(text, "\\", 1);
		strbuf_add(text, plain.text + i, 1);
	}
	strbuf_add(text, "\"", 1);
	text->failed |= plain.failed;
}

static void add_sample(struct collection *collection, enum metric metric, const char *labels,
		       uint64_t value)
{
	strbuf_printf(&collection->texts[metric], "%s%s%s%s %" PRIu64 "\n", metrics[metric].name,
		      *labels ? "{" : "", labels, *labels ? "}" : "", value);
}

/* ---- histograms ------------------------------------------------------------------------------ */

/* Counts values up to each bound; buckets come as their middles. */
static uint64_t fill_buckets(const struct wire_message *item, const int64_t *bounds,
			     uint64_t ret_counts[BOUNDS])
{
	struct wire_value value;
	int64_t middle = 0;
	uint64_t all = 0;

	memset(ret_counts, 0, BOUNDS * sizeof(*ret_counts));
	for (size_t at = 0; wire_next(item, &at, &value);) {
		if (value.tag == WIRE_BUCKET)
			middle = (int64_t)value.number;
		if (value.tag != WIRE_BUCKET_COUNT)
			continue;
		all += value.number;
		for (size_t i = 0; i < BOUNDS; i++)
			ret_counts[i] += middle <= bounds[i] ? value.number : 0;
	}
	return all;
}

static void add_histogram(struct collection *collection, enum metric metric,
			  const struct wire_message *item, const char *labels)
{
	bool is_time = metric != METRIC_KEY_VALUES;
	const int64_t *bounds = is_time ? time_bounds : value_bounds;
	struct strbuf *text = &collection->texts[metric];
	const char *name = metrics[metric].name;
	double unit = is_time ? 1e9 : 1;
	uint64_t counts[BOUNDS], all = fill_buckets(item, bounds, counts);

	for (size_t i = 0; i < BOUNDS; i++)
		strbuf_printf(text, "%s_bucket{%s,le=\"%.10g\"} %" PRIu64 "\n", name, labels,
			      (double)bounds[i] / unit, counts[i]);
	strbuf_printf(text, "%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n", name, labels, all);
	strbuf_printf(text, "%s_sum{%s} %.9f\n", name, labels,
		      (double)(int64_t)wire_get_number(item, WIRE_DURATIONS, 0) / unit);
	strbuf_printf(text, "%s_count{%s} %" PRIu64 "\n", name, labels, all);
}

/* ---- tracepoints ---------------------------------------------------------------------------- */

/* Durations of all calls. */
static void add_calls(struct collection *collection, const struct wire_message *item)
{
	if (!wire_get_number(item, WIRE_CALLS, 0))
		return;
	add_histogram(collection, METRIC_CALLS, item, collection->labels);
	strbuf_printf(&collection->texts[METRIC_LONGEST], "%s{%s} %.9f\n",
		      metrics[METRIC_LONGEST].name, collection->labels,
		      (double)wire_get_number(item, WIRE_LONGEST, 0) / 1e9);
}

static void add_tracepoint(struct collection *collection, const struct wire_message *item)
{
	_cleanup_(strbuf_free) struct strbuf labels = { 0 };
	const char *name = wire_get_text(item, WIRE_NAME), *by = wire_get_text(item, WIRE_BY);
	const char *tracer = wire_get_text(item, WIRE_TRACER);
	char pid[24];

	free(take_ptr(&collection->labels));
	free(take_ptr(&collection->by));
	snprintf(pid, sizeof(pid), "%" PRIu64, collection->process->pid);
	add_label(&labels, "pid", pid);
	add_label(&labels, "program", collection->process->program);
	add_label(&labels, "tracepoint", name ? name : "");
	add_label(&labels, "tracer", tracer ? tracer : "");
	collection->by = by ? strdup(by) : NULL;
	collection->failed |= labels.failed || (by && !collection->by);
	if (labels.failed)
		return;
	collection->labels = take_ptr(&labels.text);
	labels = (struct strbuf){ 0 };
	add_sample(collection, METRIC_HITS, collection->labels,
		   wire_get_number(item, WIRE_HITS, 0));
	add_sample(collection, METRIC_LOST, collection->labels,
		   wire_get_number(item, WIRE_LOST, 0));
	add_calls(collection, item);
}

/* ---- counts by key -------------------------------------------------------------------------- */

/* A key of several parts is one label: the parts with commas between, as in --by. */
static void add_row(struct collection *collection, const struct wire_message *item)
{
	_cleanup_(strbuf_free) struct strbuf key = { 0 }, labels = { 0 };
	struct wire_value value;

	if (!collection->labels)
		return;
	for (size_t at = 0; wire_next(item, &at, &value);) {
		if (value.tag == WIRE_KEY)
			strbuf_printf(&key, "%s%s", key.length ? "," : "", value.text);
	}
	bool is_other = wire_get_number(item, WIRE_ROW, WIRE_ROW_NONE) == WIRE_ROW_OTHER;
	strbuf_printf(&labels, "%s", collection->labels);
	add_label(&labels, "by", collection->by ? collection->by : "");
	add_label(&labels, "key", is_other ? "(other keys)" : key.text ? key.text : "");
	collection->failed |= key.failed || labels.failed;
	if (labels.failed)
		return;
	add_sample(collection, METRIC_KEY_HITS, labels.text, wire_get_number(item, WIRE_HITS, 0));
	uint64_t values = wire_get_number(item, WIRE_VALUES, WIRE_VALUES_NONE);
	if (values != WIRE_VALUES_NONE)
		add_histogram(collection,
			      values == WIRE_VALUES_TIMES ? METRIC_KEY_CALLS : METRIC_KEY_VALUES,
			      item, labels.text);
}

static struct error *take_tracepoint(void *context, const struct wire_message *answer)
{
	struct collection *collection = context;

	if (answer->kind != WIRE_ITEM)
		return NULL;
	if (wire_get_number(answer, WIRE_ROW, WIRE_ROW_NONE) == WIRE_ROW_NONE)
		add_tracepoint(collection, answer);
	else
		add_row(collection, answer);
	return NULL;
}

/* ---- processes ------------------------------------------------------------------------------ */

static struct error *take_status(void *context, const struct wire_message *answer)
{
	struct collection *collection = context;

	if (answer->kind != WIRE_ITEM)
		return NULL;
	add_sample(collection, METRIC_TARGETS, "", wire_get_number(answer, WIRE_TARGET_COUNT, 0));
	add_sample(collection, METRIC_RECORDING, "", wire_get_number(answer, WIRE_RECORDING, 0));
	return NULL;
}

static struct error *take_process(void *context, const struct wire_message *answer)
{
	struct collection *collection = context;
	const char *program = wire_get_text(answer, WIRE_PROGRAM);
	struct process process = { .pid = wire_get_number(answer, WIRE_PID, 0) };

	if (answer->kind != WIRE_ITEM || !wire_get_number(answer, WIRE_TRACEPOINT_COUNT, 0))
		return NULL;
	process.program = strdup(program ? program : "");
	if (process.program && vec_push(&collection->processes, process))
		return NULL;
	free(process.program);
	return error_new(ERROR_FAILED, "out of memory");
}

static struct error *ask(struct client *client, enum wire_kind kind, const char *target,
			 client_answer_fn answer, struct collection *collection)
{
	struct wire_out *out = client_out(client);

	wire_begin(out, kind, 0);
	wire_text(out, WIRE_TARGET, target);
	if (kind == WIRE_TRACEPOINTS)
		wire_number(out, WIRE_ROWS, 1);
	wire_end(out);
	return client_call(client, answer, collection);
}

/* An error here is the process's: it has ended, or isn't this user's any more. */
static void ask_process(struct client *client, struct collection *collection,
			const struct process *process)
{
	_cleanup_(strbuf_free) struct strbuf labels = { 0 };
	uint64_t count = 0;
	char pid[24];

	snprintf(pid, sizeof(pid), "%" PRIu64, process->pid);
	collection->process = process;
	size_t before = collection->texts[METRIC_HITS].length;
	error_free(ask(client, WIRE_TRACEPOINTS, pid, take_tracepoint, collection));
	const char *text = collection->texts[METRIC_HITS].text;
	for (size_t i = before; i < collection->texts[METRIC_HITS].length; i++)
		count += text[i] == '\n';
	add_label(&labels, "pid", pid);
	add_label(&labels, "program", process->program);
	collection->failed |= labels.failed;
	if (count && !labels.failed)
		add_sample(collection, METRIC_TRACEPOINTS, labels.text, count);
}

static struct error *compose(const struct collection *collection, struct strbuf *text)
{
	bool failed = collection->failed;

	for (size_t i = 0; i < METRIC_COUNT; i++) {
		const struct strbuf *samples = &collection->texts[i];

		failed |= samples->failed;
		if (!samples->length)
			continue;
		strbuf_printf(text, "# HELP %s %s\n# TYPE %s %s\n", metrics[i].name,
			      metrics[i].help, metrics[i].name, metrics[i].type);
		strbuf_add(text, samples->text, samples->length);
	}
	strbuf_printf(text, "# EOF\n");
	return failed || text->failed ? error_new(ERROR_FAILED, "out of memory") : NULL;
}

struct error *metrics_collect(struct client *client, struct strbuf *text)
{
	_cleanup_(collection_free) struct collection collection = { 0 };
	struct error *error = ask(client, WIRE_STATUS, NULL, take_status, &collection);

	if (!error)
		error = ask(client, WIRE_PROCESSES, NULL, take_process, &collection);
	for (size_t i = 0; i < collection.processes.count && !error; i++)
		ask_process(client, &collection, &collection.processes.items[i]);
	return error ? error : compose(&collection, text);
}

/* ---- the file ------------------------------------------------------------------------------- */

/* O_EXCL: whoever else can write to the folder can't make us write elsewhere. */
struct error *metrics_write(const char *path, const struct strbuf *text)
{
	_cleanup_free_ char *temporary = NULL;
	size_t done = 0;

	if (asprintf(&temporary, "%s.new", path) < 0)
		return error_new(ERROR_FAILED, "out of memory");
	unlink(temporary);
	_cleanup_close_ int fd =
		open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return error_errno(errno, "cannot write '%s'", temporary);
	while (done < text->length) {
		ssize_t n = write(fd, text->text + done, text->length - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			struct error *error = error_errno(errno, "cannot write '%s'", temporary);

			unlink(temporary);
			return error;
		}
		done += (size_t)n;
	}
	return rename(temporary, path) ? error_errno(errno, "cannot write '%s'", path) : NULL;
}
