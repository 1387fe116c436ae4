/*
 * profile_options.c - the options that a file may have, and the requests that it means.
 */
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/event/tracer.h"
#include "control/names/loc_parse.h"
#include "options/limit_options.h"
#include "options/lttng_options.h"
#include "options/min_duration.h"
#include "options/overhead_option.h"
#include "options/profile/profile.h"
#include "options/prototype_options.h"
#include "options/question_options.h"
#include "profiles.h"
#include "shared/layout.h"

struct profile_args {
	VEC(const char *) processes;
	VEC(const char *) locations;
	VEC(enum wire_shape) shapes; /* of these */
	bool exit, sync;
	const char *name, *filter, *min_duration;
	struct option_values contexts;
	uint64_t every, first, rate, string_max, deref, buffer_size;
	struct question_args question;
	struct lttng_args lttng;
	const char *prototypes_file, *output, *snapshot_when;
	char *tracer_name;
	const struct tracer *tracer;
	const char *tracer_argument;
	int floats, mode;
	double overhead, snapshot_every;
	struct limit_args limit_args;
	struct writer_limits limits;
};

static struct profile_args args;

/* ---- values that are checked where they stand, for the number of the line -------------------- */

static struct error *no_memory(void)
{
	return error_new(ERROR_FAILED, "out of memory");
}

static struct error *take_process(const char *text)
{
	if (!*text || strlen(text) > NAME_MAX)
		return error_new(ERROR_USAGE, "'%s' is not the name of a program", text);
	if (!text[strspn(text, "0123456789")])
		return error_new(ERROR_USAGE,
				 "'%s' is a number (name the program: it gets another number "
				 "whenever it starts)",
				 text);
	if (strchr(text, '/'))
		return error_new(ERROR_USAGE, "'%s' is a path (give the file's name: '%s')", text,
				 strrchr(text, '/') + 1);
	return vec_push(&args.processes, text) ? NULL : no_memory();
}

static struct error *take_location(const char *text, enum wire_shape shape)
{
	struct location location = { 0 };
	struct error *error = location_parse(text, &location);

	if (error)
		return error;
	location_clear(&location);
	return vec_push(&args.locations, text) && vec_push(&args.shapes, shape) ? NULL :
										  no_memory();
}

static struct error *take_function(const char *text)
{
	return take_location(text, WIRE_ENTRY);
}

static struct error *take_probe(const char *text)
{
	return take_location(text, WIRE_BARE);
}

static struct error *take_marker(const char *text)
{
	if (!strchr(text, ':'))
		return error_new(ERROR_USAGE, "'%s' is not PROVIDER:NAME", text);
	return take_location(text, WIRE_BARE);
}

static struct error *take_rate(const char *text)
{
	return options_rate(text, &args.rate);
}

static struct error *take_overhead(const char *text)
{
	return overhead_option_parse(text, &args.overhead);
}

static struct error *take_min_duration(const char *text)
{
	_cleanup_free_ char *filter = NULL;

	args.min_duration = text;
	return min_duration_filter(text, true, NULL, &filter);
}

/* The daemon has no working directory that anybody knows. */
static struct error *check_absolute(const char *path)
{
	return path[0] == '/' ? NULL :
				error_new(ERROR_USAGE, "'%s' is not an absolute path", path);
}

static struct error *take_output(const char *text)
{
	args.output = text;
	return check_absolute(text);
}

static struct error *take_tracer(const char *text)
{
	free(take_ptr(&args.tracer_name));
	struct error *error = tracer_split(text, &args.tracer_name, &args.tracer_argument);

	if (!error)
		error = tracer_find(args.tracer_name, &args.tracer);
	if (!error)
		error = tracer_check(args.tracer, args.tracer_argument);
	if (!error && args.tracer->kind == TRACER_CTF && args.tracer_argument)
		error = error_new(ERROR_USAGE,
				  "ctf takes no directory here: each process has its own ('output = "
				  "FOLDER' says where)");
	if (!error && args.tracer_argument &&
	    (args.tracer->kind == TRACER_LOG || args.tracer->kind == TRACER_CALL))
		error = check_absolute(args.tracer_argument);
	return error;
}

static const struct option_spec options[] = {
	{ 0, "pid", "NAME", "", .handle = take_process },
	{ 0, "function", "LOC", "", .handle = take_function },
	{ 0, "probe", "LOC", "", .handle = take_probe },
	{ 0, "marker", "PROVIDER:NAME", "", .handle = take_marker },
	{ 0, "exit", NULL, "", .flag = &args.exit },
	{ 0, "name", "NAME", "", .string = &args.name },
	{ 0, "context", "TYPE", "", .list = &args.contexts },
	{ 0, "string-max", "SIZE", "", .size = &args.string_max },
	DEREF_OPTION(args.deref),
	PROTOTYPES_OPTION(args.prototypes_file),
	FLOATS_OPTION(args.floats),
	{ 0, "filter", "EXPR", "", .string = &args.filter },
	{ 0, "min-duration", "TIME", "", .handle = take_min_duration },
	{ 0, "every", "N", "", .size = &args.every },
	{ 0, "first", "N", "", .size = &args.first },
	{ 0, "rate", "N/s", "", .handle = take_rate },
	QUESTION_ASKS(args.question),
	QUESTION_KEEPS(args.question),
	{ 0, "tracer", "TRACER", "", .handle = take_tracer },
	SYNC_OPTION(args.sync),
	LTTNG_OPTIONS(args.lttng),
	{ 0, "output", "FOLDER", "", .handle = take_output },
	{ 0, "buffer-size", "SIZE", "", .size = &args.buffer_size },
	{ 0, "mode", "MODE", "", .choice = &args.mode, .choices = limit_modes },
	{ 0, "overhead", "N%", "", .handle = take_overhead },
	LIMIT_OPTIONS(args.limit_args),
	{ 0, "snapshot-when", "EXPR", "", .string = &args.snapshot_when },
	{ 0, "snapshot-every", "TIME", "", .seconds = &args.snapshot_every },
	OPTION_MEANT("process", "pid"),
	OPTION_MEANT("program", "pid"),
	OPTION_MEANT("target", "pid"),
	OPTION_MEANT("entry", "function"),
	OPTION_OF_TRACE("wait", "the daemon always waits"),
	OPTIONS_OF_TRACE,
	{ 0 },
};

/* ---- what fits together ---------------------------------------------------------------------- */

static struct error *check_recording(void)
{
	bool is_recorder = args.mode == SESSION_OVERWRITE || args.snapshot_when;
	enum session_mode mode = is_recorder ? SESSION_OVERWRITE :
			      args.mode < 0  ? SESSION_DISCARD :
					       (enum session_mode)args.mode;

	if (args.snapshot_when && args.mode >= 0 && args.mode != SESSION_OVERWRITE)
		return error_new(ERROR_USAGE, "snapshot-when: not with mode %s",
				 limit_modes[args.mode]);
	if (args.snapshot_when && args.tracer->kind != TRACER_CTF)
		return error_new(ERROR_USAGE, "snapshot-when: only with the tracer ctf");
	if (args.snapshot_every > 0 && !args.snapshot_when)
		return error_new(ERROR_USAGE, "snapshot-every: needs snapshot-when");
	if (args.overhead > 0 && is_recorder)
		return error_new(ERROR_USAGE, "overhead: not with mode overwrite or snapshot-when");
	if (args.buffer_size && (args.buffer_size < DT_POOL_MIN || args.buffer_size > DT_POOL_MAX))
		return error_new(ERROR_USAGE, "buffer-size: from 1M to 4095M");
	return limit_options_check(&args.limit_args, mode, &args.limits);
}

static struct error *check_question(void)
{
	struct question question = { 0 };
	struct error *error = question_options_read(&args.question, &question);
	bool asks = args.question.by || args.question.of;

	question_free(&question);
	if (!error && asks && args.tracer->kind != TRACER_COUNT)
		error = error_new(ERROR_USAGE, "by, of: need tracer = count");
	if (!error && args.question.keys > WIRE_KEYS_MAX)
		error = error_new(ERROR_USAGE, "keys: at most %d", WIRE_KEYS_MAX);
	return error;
}

static struct error *check_what(void)
{
	bool has_function = false;

	for (size_t i = 0; i < args.shapes.count; i++)
		has_function |= args.shapes.items[i] == WIRE_ENTRY;
	if (!args.processes.count)
		return error_new(ERROR_USAGE, "no process (give a line 'pid = NAME')");
	if (!args.locations.count)
		return error_new(ERROR_USAGE, "nothing to record (give a line 'function = LOC', "
					      "'probe = LOC' or 'marker = PROVIDER:NAME')");
	if (args.exit && !has_function)
		return error_new(ERROR_USAGE, "exit: needs a line 'function = LOC'");
	if (args.min_duration && !args.exit)
		return error_new(ERROR_USAGE, "min-duration: needs a line 'exit'");
	if (args.name && args.locations.count > 1)
		return error_new(ERROR_USAGE, "name: there are %zu places (one file per name)",
				 args.locations.count);
	if (args.contexts.count > WIRE_CONTEXTS_MAX)
		return error_new(ERROR_USAGE, "context: at most %d", WIRE_CONTEXTS_MAX);
	if (args.string_max && (args.string_max < 8 || args.string_max > DT_STRING_MAX))
		return error_new(ERROR_USAGE, "string-max: from 8 to %u", DT_STRING_MAX);
	if (args.deref > DT_LISTS_MAX)
		return error_new(ERROR_USAGE, "deref: from 0 to %u", DT_LISTS_MAX);
	if (args.output && !args.tracer->has_trace)
		return error_new(ERROR_USAGE, "output: the tracer %s writes no trace",
				 args.tracer->name);
	return NULL;
}

static struct error *check_args(void)
{
	struct error *error = args.tracer ? NULL : tracer_find(NULL, &args.tracer);

	if (!error && args.sync)
		error = tracer_sync(args.tracer, &args.tracer);
	if (!error)
		error = check_what();
	if (!error)
		error = check_question();
	return error ? error : check_recording();
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Texts that don't depend on the process and the place. */
struct texts {
	char *filter, *prototypes, *argument;
	const char *file; /* its name, without the folder */
};

static struct error *make_texts(const char *path, struct texts *texts)
{
	const char *slash = strrchr(path, '/');
	struct error *error =
		min_duration_filter(args.min_duration, args.exit, args.filter, &texts->filter);

	texts->file = slash ? slash + 1 : path;
	if (!error)
		error = prototype_options_read(args.prototypes_file, &texts->prototypes);
	if (!error)
		error = lttng_options_argument(&args.lttng, args.tracer_name, args.tracer_argument,
					       &texts->argument);
	return error;
}

static void write_number(struct wire_out *out, enum wire_tag tag, uint64_t value)
{
	if (value)
		wire_number(out, tag, value);
}

static void write_recording(struct wire_out *out)
{
	wire_text(out, WIRE_OUTPUT, args.output);
	wire_text(out, WIRE_SNAPSHOT_WHEN, args.snapshot_when);
	write_number(out, WIRE_SNAPSHOT_EVERY, (uint64_t)(args.snapshot_every * 1e9 + 0.5));
	if (args.mode >= 0)
		wire_number(out, WIRE_MODE, (uint64_t)args.mode);
	write_number(out, WIRE_BUFFER_SIZE, args.buffer_size);
	write_number(out, WIRE_OVERHEAD, (uint64_t)(args.overhead * 1e6 + 0.5));
	write_number(out, WIRE_MAX_SIZE, args.limits.max_size);
	write_number(out, WIRE_MAX_FILES, args.limits.max_files);
	write_number(out, WIRE_ROTATE, args.limits.rotate_ns);
	if (args.mode == SESSION_OVERWRITE || args.snapshot_when)
		write_number(out, WIRE_SNAPSHOTS_KEPT, args.limit_args.max_files);
}

static void write_request(struct wire_out *out, const struct texts *texts, const char *process,
			  size_t place)
{
	enum wire_shape shape = args.shapes.items[place];
	_cleanup_free_ char *key = NULL;

	wire_begin(out, WIRE_ADD, 1);
	wire_text(out, WIRE_TARGET, process);
	wire_text(out, WIRE_LOCATION, args.locations.items[place]);
	wire_number(out, WIRE_SHAPE,
		    args.exit && shape == WIRE_ENTRY ? (uint64_t)WIRE_FUNCTION : (uint64_t)shape);
	wire_text(out, WIRE_NAME, args.name);
	wire_text(out, WIRE_FILTER, texts->filter);
	wire_text(out, WIRE_PROTOTYPES, texts->prototypes);
	write_number(out, WIRE_FLOATS, floats_size(args.floats));
	write_number(out, WIRE_SYNC, args.sync);
	for (size_t i = 0; i < args.contexts.count; i++)
		wire_text(out, WIRE_CONTEXT_TYPE, args.contexts.items[i].text);
	wire_text(out, WIRE_TRACER, args.tracer->name);
	wire_text(out, WIRE_ARGUMENT, texts->argument);
	write_number(out, WIRE_EVERY, args.every);
	write_number(out, WIRE_FIRST, args.first);
	write_number(out, WIRE_RATE, args.rate);
	write_number(out, WIRE_STRING_MAX, args.string_max);
	write_number(out, WIRE_DEREF, args.deref);
	wire_text(out, WIRE_BY, args.question.by);
	wire_text(out, WIRE_OF, args.question.of);
	if (args.question.by || args.question.of)
		write_number(out, WIRE_KEYS, args.question.keys);
	wire_number(out, WIRE_WAIT, 1); /* its libraries aren't there when a program begins */
	write_recording(out);
	if (asprintf(&key, "%s %s", texts->file, args.locations.items[place]) < 0) {
		key = NULL;
		out->bytes.failed = true;
	}
	wire_text(out, WIRE_PROFILE, key);
	wire_end(out);
}

/* As the supervisor checks the texts of clients (H40). */
static struct error *check_texts(const struct wire_message *message)
{
	struct wire_value value;

	for (size_t at = 0; wire_next(message, &at, &value);) {
		for (const char *c = value.text; c && *c; c++) {
			if (iscntrl((unsigned char)*c))
				return error_new(ERROR_USAGE, "'%s' has a control character in it",
						 value.text);
		}
		if (value.text && strlen(value.text) > PATH_MAX)
			return error_new(ERROR_USAGE, "'%.20s...' is too long", value.text);
	}
	return NULL;
}

static struct error *add_request(struct profile_requests *requests, const struct texts *texts,
				 const char *process, size_t place)
{
	struct wire_out out = { 0 };
	struct wire_message message;
	size_t used = 0;

	write_request(&out, texts, process, place);
	struct error *error = out.bytes.failed ?
				      no_memory() :
				      wire_take(out.bytes.text, out.bytes.length, WIRE_REQUEST_MAX,
						&message, &used);
	if (!error)
		error = check_texts(&message);
	struct profile_request request = { out.bytes.text, out.bytes.length };
	if (!error && !vec_push(requests, request))
		error = no_memory();
	if (error)
		wire_free(&out);
	return error;
}

static struct error *make_requests(const char *path, struct profile_requests *requests)
{
	struct texts texts = { 0 };
	size_t before = requests->count;
	struct error *error = make_texts(path, &texts);

	for (size_t i = 0; i < args.processes.count && !error; i++) {
		for (size_t place = 0; place < args.locations.count && !error; place++)
			error = add_request(requests, &texts, args.processes.items[i], place);
	}
	free(texts.filter);
	free(texts.prototypes);
	free(texts.argument);
	while (error && requests->count > before) /* D17 */
		free(requests->items[--requests->count].bytes);
	assert(requests->count >= before);
	return error;
}

static void clear(void)
{
	vec_free(&args.processes);
	vec_free(&args.locations);
	vec_free(&args.shapes);
	vec_free(&args.contexts);
	vec_free(&args.lttng.nowrite);
	free(args.tracer_name);
	args = (struct profile_args){ .mode = -1 };
}

struct error *profile_options_read(FILE *file, const char *path, struct profile_requests *requests)
{
	clear();
	struct error *error = profile_parse(file, path, options);

	if (!error)
		error = error_wrap(check_args(), "%s", path);
	if (!error)
		error = error_wrap(make_requests(path, requests), "%s", path);
	clear();
	return error;
}
