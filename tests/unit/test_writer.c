/*
 * Traces as babeltrace2 reads them: names, values, clocks, losses, full disks, kills.
 */
#include <glob.h>
#include <sys/resource.h>

#include "rig.h"

#include <sched.h>
#include <sys/ptrace.h>

#include "../../src/control/ctf/metadata.h"
#include "../../src/control/ctf/writer_state.h"

static const struct clock_estimate simple_clock = { .frequency = 1000000000,
						    .offset_s = 1700000000,
						    .offset = 5 };

static void make(struct rig_trace *trace, const struct trace_info *info, struct event_types *types,
		 const struct clock_estimate *clock)
{
	memset(trace, 0, sizeof(*trace));
	snprintf(trace->top, sizeof(trace->top), "%s/dyntrace-rig-XXXXXX", place_disk());
	assert_non_null(mkdtemp(trace->top));
	snprintf(trace->directory, sizeof(trace->directory), "%s/trace", trace->top);
	trace->types = *types;
	RIG_OK(writer_create(trace->directory, info, &trace->types, clock, &trace->writer));
}

static void make_simple(struct rig_trace *trace)
{
	struct event_types types;

	rig_make_types(&types);
	make(trace, &(struct trace_info){ .hostname = "h", .process = "p", .pid = 9 }, &types,
	     &simple_clock);
}

static uint64_t header(uint64_t clock, uint64_t id)
{
	return clock << 24 | id;
}

/* `count` bare events, `apart` cycles each, from `begin` on. */
static struct packet bare_packet(uint64_t begin, uint64_t apart, size_t count, uint64_t lost)
{
	static uint64_t events[8192];

	assert_true(count <= 8192);
	for (size_t i = 0; i < count; i++)
		events[i] = header(begin + i * apart, RIG_BARE);
	return (struct packet){ .begin = begin,
				.end = count ? begin + (count - 1) * apart : begin,
				.lost = lost,
				.tid = 11,
				.pid = 10,
				.inner_tid = 2,
				.inner_pid = 1,
				.events = events,
				.size = count * 8 };
}

static void put(struct rig_trace *trace, uint64_t stream, uint64_t begin, uint64_t apart,
		size_t count, uint64_t lost)
{
	struct packet packet = bare_packet(begin, apart, count, lost);

	RIG_OK(writer_packet(trace->writer, stream, &packet));
}

static size_t count_files(const struct rig_trace *trace)
{
	DIR *entries = opendir(trace->directory);
	size_t count = 0;

	for (struct dirent *entry; (entry = readdir(entries));)
		count += !strncmp(entry->d_name, "stream_", 7);
	closedir(entries);
	return count;
}

/* ---- what is in it ------------------------------------------------------------------------ */

static void test_values_and_clock(void **unused)
{
	struct rig_trace trace;
	uint64_t clock = (7ULL << 40) + 123; /* more than the header's 40 bits */
	uint64_t events[] = { header(clock, RIG_TWO),
			      1,
			      UINT64_MAX,
			      header(clock + 40, RIG_WORD),
			      0xffffffff00000007,
			      header(clock + 41, RIG_BARE) };
	struct packet packet = { .begin = clock,
				 .end = clock + 41,
				 .tid = 11,
				 .pid = 10,
				 .inner_tid = 2,
				 .inner_pid = 1,
				 .events = events,
				 .size = sizeof(events) };

	make_simple(&trace);
	RIG_OK(writer_packet(trace.writer, 5, &packet));
	RIG_OK(writer_close(trace.writer));
	_cleanup_free_ char *text = rig_babeltrace(&trace, "--clock-seconds --no-delta");
	/* 1700000000 s + (5 + 7 * 2^40 + 123) ns */
	assert_string_equal(
		text,
		"[1700007696.581394560] h:p:(9) two: { tid = 11, pid = 10, vtid = 2, vpid = 1, procname = \"\" }, "
		"{ arg0 = 1, arg1 = 18446744073709551615 }\n"
		"[1700007696.581394600] h:p:(9) word: { tid = 11, pid = 10, vtid = 2, vpid = 1, procname = \"\" }, "
		"{ arg0 = 7 }\n"
		"[1700007696.581394601] h:p:(9) bare: { tid = 11, pid = 10, vtid = 2, vpid = 1, procname = \"\" }, "
		"{ }\n");
	rig_remove(&trace);
}

static struct event_type *add_type(struct event_types *types, const char *name, uint32_t size,
				   size_t fields)
{
	types->items = realloc(types->items, (types->count + 1) * sizeof(*types->items));
	struct event_type *type = &types->items[types->count];
	*type = (struct event_type){ .id = (uint32_t)types->count++,
				     .name = strdup(name),
				     .size = size,
				     .fields = calloc(fields + 1, sizeof(*type->fields)),
				     .field_count = fields };
	return type;
}

/* Names that would end a string, a line or the metadata; fields that are reserved words, twice
 * there, or no words. */
static void test_hostile_names(void **unused)
{
	static const struct trace_info info = {
		.hostname = "ho\"st",
		.process = "a\\b\nc\t\x01z",
		.pid = 9,
		.inner_pid = 3,
		.command_line = "x \"; env { hostname = \"evil\"; }; /* \xc3\xa9 \xff",
		.executable = "/a b/\"c\"",
		.version = "12.34.56",
	};
	struct rig_trace trace;
	struct event_types types = { 0 };
	static const struct {
		const char *name;
		enum field_type type;
		uint8_t size;
		uint16_t offset;
	} fields[] = {
		{ "struct", FIELD_INT, 1, 8 },	 { "event", FIELD_INT, 2, 10 },
		{ "x", FIELD_HEX, 4, 12 },	 { "x", FIELD_INT, 8, 16 },
		{ "a-b c", FIELD_UINT, 1, 32 },	 { "_lead", FIELD_UINT, 8, 40 },
		{ "a_b_c", FIELD_INT, 4, 48 },	 { "9lives", FIELD_UINT, 1, 52 },
		{ "align", FIELD_UINT, 1, 53 },
	};
	struct event_type *type = add_type(&types, "we\"ird\\ n\name: \xc3\xa9 {};", 56, 9);
	for (size_t i = 0; i < 9; i++) {
		strcpy(type->fields[i].name, fields[i].name);
		type->fields[i].type = fields[i].type;
		type->fields[i].size = fields[i].size;
		type->fields[i].offset = fields[i].offset;
	}
	add_type(&types, "", 8, 0);
	uint64_t events[] = { header(1, 0), 0x89abcdeffffe00ff, (uint64_t)-5, 0x1111111111111111,
			      0x22222222222222c8, 77, 0x00000403fffffff0, header(2, 1) };
	struct packet packet = { .begin = 1, .end = 2, .events = events, .size = sizeof(events) };

	make(&trace, &info, &types, &simple_clock);
	RIG_OK(writer_packet(trace.writer, 1, &packet));
	packet.size -= 8; /* the same, ending with an event that has two unused bytes at its end */
	packet.padding = 2;
	packet.end = packet.begin = 1ULL << 40;
	events[0] = header(0, 0);
	RIG_OK(writer_packet(trace.writer, 1, &packet));
	RIG_OK(writer_close(trace.writer));
	_cleanup_free_ char *text = rig_babeltrace(&trace, "--clock-cycles --no-delta");
	static const char payload[] =
		"{ tid = 0, pid = 0, vtid = 0, vpid = 0, procname = \"\" }, { struct = -1, event = -2, "
		"x = 0x89ABCDEF, x__3 = -5, _unused_0 = [ [0] = 17, [1] = 17, "
		"[2] = 17, [3] = 17, [4] = 17, [5] = 17, [6] = 17, [7] = 17 ], a_b_c = 200, "
		"_lead = 77, a_b_c__6 = -16, 9lives = 3, align = 4 }";
	char expected[2048];
	snprintf(
		expected, sizeof(expected),
		"[00000000000000000001] ho\"st:a\\b\nc\t\x01z:(3) we\"ird\\ n\n"
		"ame: \xc3\xa9 {};: %s\n"
		"[00000000000000000002] ho\"st:a\\b\nc\t"
		"\x01z:(3) <unknown>: { tid = 0, pid = 0, vtid = 0, vpid = 0, procname = \"\" }, { }\n"
		"[00000001099511627776] ho\"st:a\\b\nc\t\x01z:(3) we\"ird\\ n\n"
		"ame: \xc3\xa9 {};: %s\n",
		payload, payload);
	assert_string_equal(text, expected);
	_cleanup_free_ char *details = rig_babeltrace(&trace, "--component sink.text.details");
	assert_non_null(strstr(
		details, "command_line: x \"; env { hostname = \"evil\"; }; /* \xc3\xa9 \xff\n"));
	assert_non_null(strstr(details, "procname: a\\b\nc\t\x01z\n"));
	assert_non_null(strstr(details, "executable: /a b/\"c\"\n"));
	assert_non_null(strstr(details, "tracer_name: dyntrace\n"));
	assert_non_null(strstr(details, "tracer_major: 12\n"));
	assert_non_null(strstr(details, "tracer_minor: 34\n"));
	assert_non_null(strstr(details, "pid: 9\n"));
	assert_non_null(strstr(details, "vpid: 3\n"));
	rig_remove(&trace);
}

static void test_update_adds_types(void **unused)
{
	struct rig_trace trace;
	struct clock_estimate later = simple_clock;

	make_simple(&trace);
	put(&trace, 1, 1000, 1, 1, 0);
	add_type(&trace.types, "later", 8, 0);
	later.offset_s = -3; /* a machine that thinks it is 1970 */
	RIG_OK(writer_update(trace.writer, &later));
	uint64_t event = header(2000, RIG_TYPES);
	struct packet packet = { .begin = 2000, .end = 2000, .events = &event, .size = 8 };
	RIG_OK(writer_packet(trace.writer, 2, &packet));
	RIG_OK(writer_close(trace.writer));
	_cleanup_free_ char *text = rig_babeltrace(&trace, "--clock-seconds --no-delta");
	assert_string_equal(
		text,
		"[-2.999998995] h:p:(9) bare: { tid = 11, pid = 10, vtid = 2, vpid = 1, procname = \"\" }, { }\n"
		"[-2.999997995] h:p:(9) later: { tid = 0, pid = 0, vtid = 0, vpid = 0, procname = \"\" }, { }\n");
	rig_remove(&trace);
}

/* ---- streams, lanes, losses --------------------------------------------------------------- */

static void test_no_event_at_all(void **unused)
{
	struct rig_trace trace;

	make_simple(&trace);
	RIG_OK(writer_close(trace.writer));
	_cleanup_free_ char *text = rig_babeltrace(&trace, "");
	assert_string_equal(text, "");
	rig_remove(&trace);
}

static void test_lanes_are_reused(void **unused)
{
	struct rig_trace trace;

	make_simple(&trace);
	for (uint64_t stream = 0; stream < 3000; stream++) { /* threads that come and go */
		put(&trace, stream, stream * 100, 1, 50, 0);
		writer_end_stream(trace.writer, stream);
	}
	assert_int_equal(count_files(&trace), 6); /* 1.4 MiB, in files of 256 KiB to begin with */
	put(&trace, 5000, 10, 1, 10, 0); /* one that was there all the time, read late */
	assert_int_equal(count_files(&trace), 7);
	put(&trace, 5001, 300000, 1, 10, 0);
	put(&trace, 5000, 300000, 1, 10, 0);
	assert_int_equal(count_files(&trace), 7);
	RIG_OK(writer_close(trace.writer));
	assert_int_equal(rig_judge(&trace, NULL).events, 150030);
	rig_remove(&trace);
}

/* More threads at once than a process may have files: their packets share the lanes when they
 * can. */
static void test_many_streams_at_once(void **unused)
{
	struct rig_trace trace;

	make_simple(&trace);
	for (int turn = 0; turn < 2; turn++) {
		for (uint64_t stream = 0; stream < 2000; stream++)
			put(&trace, stream, (stream + (uint64_t)turn * 2000) * 100, 1, 3,
			    (uint64_t)turn);
	}
	assert_in_range(count_files(&trace), 2, 256);
	RIG_OK(writer_close(trace.writer));
	struct rig_verdict verdict = rig_judge(&trace, NULL);
	assert_int_equal(verdict.events, 12000);
	assert_int_equal(verdict.discarded, 2000);
	rig_remove(&trace);
}

/* More lanes than descriptors: they are closed and opened again, and nothing is overwritten. */
static void test_more_lanes_than_descriptors(void **unused)
{
	struct rig_trace trace;

	make_simple(&trace);
	for (uint64_t turn = 0; turn < 3; turn++) {
		for (uint64_t stream = 0; stream < 300; stream++)
			put(&trace, stream, 1000 * turn, 900, 2, 0); /* all overlap */
	}
	assert_int_equal(count_files(&trace), 300);
	RIG_OK(writer_close(trace.writer));
	assert_int_equal(rig_judge(&trace, NULL).events, 1800);
	rig_remove(&trace);
}

/* What is lost is told once: in a stream's first packet, between packets, in a packet of its own,
 * in a shared lane. */
static void test_losses(void **unused)
{
	struct rig_trace trace;

	make_simple(&trace);
	put(&trace, 1, 1000, 1, 10, 3); /* 3 before its first event */
	put(&trace, 1, 2000, 1, 10, 3);
	put(&trace, 1, 3000, 1, 10, 10); /* 7 more */
	put(&trace, 2, 1000, 1, 10, 0); /* at the same time as stream 1: another lane */
	put(&trace, 2, 3000, 1, 0, 100); /* 100, and no event behind them */
	writer_end_stream(trace.writer, 1);
	writer_end_stream(trace.writer, 2);
	put(&trace, 3, 5000, 1, 10, 1000); /* another thread in one of these lanes */
	put(&trace, 4, 5000, 1, 0, 10000); /* and in the other one */
	put(&trace, 3, 5500, 1, 1, 1000);
	assert_int_equal(count_files(&trace), 2);
	RIG_OK(writer_close(trace.writer));
	struct rig_verdict verdict = rig_judge(&trace, NULL);
	assert_int_equal(verdict.events, 51);
	assert_int_equal(verdict.discarded, 3 + 7 + 100 + 1000 + 10000);
	rig_remove(&trace);
}

/* H19: packets that overlap, gaps of more than 2^40 cycles, time that goes back: babeltrace2 opens
 * the trace. */
static void test_time_goes_back(void **unused)
{
	struct rig_trace trace;

	make_simple(&trace);
	put(&trace, 1, 1000, 10, 100, 0);
	put(&trace, 1, 1500, 10, 100, 0); /* before the end of the last one */
	put(&trace, 1, 1ULL << 45, 10, 10, 0);
	put(&trace, 1, 20, 1, 10, 0);
	put(&trace, 1, 20 + 9, 1, 10, 0); /* begins where the last one ends */
	RIG_OK(writer_close(trace.writer));
	assert_int_equal(rig_judge(&trace, NULL).events, 230);
	rig_remove(&trace);
}

/* ---- when it goes wrong ------------------------------------------------------------------- */

static void expect_error(struct error *error, const char *text)
{
	assert_non_null(error);
	assert_string_equal(error_text(error), text);
	error_free(error);
}

static struct error *create_at(const char *path)
{
	struct event_types types;
	struct trace_writer *writer;

	rig_make_types(&types);
	struct error *error = writer_create(path, &(struct trace_info){ .hostname = "h" }, &types,
					    &simple_clock, &writer);
	event_types_free(&types);
	return error;
}

static void test_directory_errors(void **unused)
{
	struct rig_trace trace;
	char path[128], expected[512];

	make_simple(&trace);
	snprintf(expected, sizeof(expected),
		 "output directory '%s' exists already: remove it or choose another with -o",
		 trace.directory);
	expect_error(create_at(trace.directory), expected);
	snprintf(path, sizeof(path), "%s/no/trace", trace.top);
	snprintf(
		expected, sizeof(expected),
		"cannot create output directory '%s': the directory above it does not exist: "
		"create that "
		"first or choose another with -o",
		path);
	expect_error(create_at(path), expected);
	expect_error(
		create_at("/proc/trace"),
		"cannot create output directory '/proc/trace': the directory above it does not "
		"exist: "
		"create that first or choose another with -o");
	snprintf(path, sizeof(path), "%s/metadata/trace", trace.directory);
	snprintf(expected, sizeof(expected), "cannot create output directory '%s': Not a directory",
		 path);
	expect_error(create_at(path), expected);
	RIG_OK(writer_close(trace.writer));
	rig_remove(&trace);
}

/* As a disk that is full: a write beyond the limit is cut short or refused. The trace ends with a
 * whole packet. */
static void test_disk_full(void **unused)
{
	struct rig_trace trace;
	struct rlimit before, limit;
	struct sigaction ignore = { .sa_handler = SIG_IGN }, old;
	char expected[256];

	make_simple(&trace);
	put(&trace, 1, 1000, 1, 900, 0);
	put(&trace, 2, 1000, 1, 1, 0);
	sigaction(SIGXFSZ, &ignore, &old);
	getrlimit(RLIMIT_FSIZE, &before);
	limit = before;
	limit.rlim_cur = 10000;
	setrlimit(RLIMIT_FSIZE, &limit);
	struct packet packet = bare_packet(5000, 1, 500, 0);
	snprintf(expected, sizeof(expected),
		 "cannot write the trace in '%s': File too large (raise the limit of dyntrace with 'ulimit -f')",
		 trace.directory);
	expect_error(writer_packet(trace.writer, 1, &packet), expected);
	struct stat stat_of;
	char path[128];
	snprintf(path, sizeof(path), "%s/stream_0", trace.directory);
	assert_int_equal(stat(path, &stat_of), 0);
	assert_int_equal(stat_of.st_size, 256 << 10); /* with the filler, which takes no space */
	assert_int_equal(rig_judge(&trace, NULL).events, 900 + 1);
	put(&trace, 2, 5000, 1, 20, 0); /* what fits, fits */
	expect_error(writer_packet(trace.writer, 1, &packet), expected);
	setrlimit(RLIMIT_FSIZE, &before);
	sigaction(SIGXFSZ, &old, NULL);
	RIG_OK(writer_packet(trace.writer, 1, &packet)); /* there is room again */
	RIG_OK(writer_close(trace.writer));
	assert_int_equal(rig_judge(&trace, NULL).events, 900 + 1 + 20 + 500);
	rig_remove(&trace);
}

/* The very first packet doesn't fit: there is no file for it, and that doesn't spoil the trace. */
static void test_disk_full_at_once(void **unused)
{
	struct rig_trace trace;
	struct rlimit before, limit;
	struct sigaction ignore = { .sa_handler = SIG_IGN }, old;

	make_simple(&trace);
	put(&trace, 1, 1000, 1, 9, 0);
	sigaction(SIGXFSZ, &ignore, &old);
	getrlimit(RLIMIT_FSIZE, &before);
	limit = before;
	limit.rlim_cur = 100;
	setrlimit(RLIMIT_FSIZE, &limit);
	struct packet packet = bare_packet(1000, 1, 500, 0);
	error_free(writer_packet(trace.writer, 2, &packet));
	setrlimit(RLIMIT_FSIZE, &before);
	sigaction(SIGXFSZ, &old, NULL);
	RIG_OK(writer_close(trace.writer));
	assert_int_equal(count_files(&trace), 1);
	assert_int_equal(rig_judge(&trace, NULL).events, 9);
	rig_remove(&trace);
}

/* Does the file consist of whole packets? Gives the number of events in it, all bare. */
static uint64_t count_in_file(const char *path)
{
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	struct metadata_packet head;
	uint64_t events = 0, at = 0;
	struct stat st;

	if (!file)
		return 0;
	assert_int_equal(fstat(fileno(file), &st), 0);
	while (at < (uint64_t)st.st_size) {
		assert_int_equal(pread(fileno(file), &head, sizeof(head), (off_t)at), sizeof(head));
		assert_int_equal(head.magic, METADATA_MAGIC);
		assert_true(head.packet_size >= head.content_size &&
			    head.content_size >= sizeof(head) * 8);
		assert_true(head.timestamp_begin <= head.timestamp_end);
		events += head.content_size / 64 - sizeof(head) / 8;
		at += head.packet_size / 8;
	}
	assert_int_equal(at, st.st_size);
	return events;
}

static uint64_t count_in_files(const struct rig_trace *trace)
{
	uint64_t events = 0;
	char path[128];

	for (unsigned i = 0; i < 64; i++) {
		snprintf(path, sizeof(path), "%s/stream_%u", trace->directory, i);
		events += count_in_file(path);
	}
	return events;
}

/* Writes until it is killed; *counter is raised after each packet. */
static void write_on(struct rig_trace *trace, unsigned seed, volatile uint64_t *counter)
{
	for (uint64_t turn = 0;; turn++) {
		put(trace, 1, 1000 + turn * 10000, 1, 1 + (turn * 37 + seed) % 8000, 0);
		*counter += 1 + (turn * 37 + seed) % 8000;
	}
}

static void count_seen(void *context, const struct packet_seen *packet)
{
	*(uint64_t *)context = packet->end;
}

/* (W1) kill -9 at any moment: what is there is whole packets, all that were written and at most one
 * more, and the trace can be gone on with. */
static void test_killed_at_any_moment(void **unused)
{
	volatile uint64_t *counter =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	for (unsigned i = 0; i < 150; i++) {
		struct rig_trace trace;
		struct writer_part part;
		char directory[4096];
		uint64_t last = 0;

		make_simple(&trace);
		writer_identify(trace.writer, &part, directory, sizeof(directory));
		*counter = 0;
		pid_t child = fork();
		if (!child)
			write_on(&trace, i, counter);
		while (!*counter && !waitpid(child, NULL, WNOHANG))
			sched_yield();
		for (volatile unsigned spin = 0; spin < i * 1000; spin++)
			;
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		uint64_t events = count_in_files(&trace);
		assert_true(events >= *counter && events <= *counter + 8000);

		struct event_types types = { 0 };
		struct trace_writer *writer = NULL;
		RIG_OK(writer_reopen(directory, &part, &types, count_seen, &last, &writer));
		assert_int_equal(types.count, trace.types.count);
		struct packet packet = bare_packet(last + 1, 1, 3, 0);
		RIG_OK(writer_packet(writer, 1, &packet));
		RIG_OK(writer_close(writer));
		event_types_free(&types);
		assert_int_equal(count_in_files(&trace), events + 3);
		if (i == 149)
			assert_int_equal(rig_judge(&trace, NULL).events, events + 3);
		writer_close(trace.writer);
		rig_remove(&trace);
	}
	munmap((void *)counter, 4096);
}

/* A part behind another one: what the metadata said of earlier events stays, each has files of its
 * own, and readers see one trace. */
static void test_parts(void **unused)
{
	struct event_types seen = { 0 };
	struct trace_writer *before = NULL, *after = NULL;
	struct trace_info info = { .process = "next" };
	struct clock_estimate clock = { .frequency = 1000000000 };
	struct rig_trace trace;
	struct writer_part part, next;
	char directory[4096];
	uint64_t last = 0;

	make_simple(&trace);
	writer_identify(trace.writer, &part, directory, sizeof(directory));
	struct packet packet = bare_packet(1000, 1, 5, 0);
	RIG_OK(writer_packet(trace.writer, 1, &packet));
	RIG_OK(writer_suspend(trace.writer));
	RIG_OK(writer_reopen(directory, &part, &seen, count_seen, &last, &before));
	assert_int_equal(seen.count, trace.types.count);
	assert_int_equal(last, packet.end);
	RIG_OK(writer_create_after(before, &info, &seen, &clock, &after));
	writer_identify(after, &next, directory, sizeof(directory));
	assert_int_equal(next.number, part.number + 1);
	assert_memory_equal(next.uuid, part.uuid, sizeof(part.uuid));
	packet = bare_packet(1500, 1, 7, 0); /* both go on */
	RIG_OK(writer_packet(after, 1, &packet));
	packet = bare_packet(2000, 1, 11, 0);
	RIG_OK(writer_packet(before, 1, &packet));
	RIG_OK(writer_complete(before));
	RIG_OK(writer_suspend(before));
	RIG_OK(writer_close(after));
	assert_int_equal(count_in_files(&trace), 5 + 11); /* the first part's */
	assert_int_equal(rig_judge(&trace, NULL).events, 5 + 7 + 11);
	event_types_free(&seen);
	rig_remove(&trace);
}

static uint64_t size_of_files(const struct rig_trace *trace)
{
	char path[512];
	struct stat stat_of;
	uint64_t size = 0;
	glob_t files;

	snprintf(path, sizeof(path), "%s/stream*", trace->directory);
	assert_int_equal(glob(path, 0, NULL, &files), 0);
	for (size_t i = 0; i < files.gl_pathc; i++) {
		assert_int_equal(stat(files.gl_pathv[i], &stat_of), 0);
		size += (uint64_t)stat_of.st_size;
	}
	globfree(&files);
	return size;
}

/* (W7) kill -9 of the next controller, too, when the first one's memory has gone from the target:
 * the third one knows of the last part alone, and cuts the fillers of all. A part of which it
 * learns later goes on all the same. */
static void test_killed_twice(void **unused)
{
	struct event_types seen[3] = { 0 };
	struct trace_writer *before, *after;
	struct trace_info info = { .process = "next" };
	struct clock_estimate clock = { .frequency = 1000000000 };
	struct rig_trace trace;
	struct writer_part part, next;
	char directory[4096];
	uint64_t last = 0;

	make_simple(&trace);
	writer_identify(trace.writer, &part, directory, sizeof(directory));
	for (uint64_t stream = 1; stream <= 2; stream++) {
		struct packet packet = bare_packet(1000, 1, 5, 0);
		RIG_OK(writer_packet(trace.writer, stream, &packet));
	}
	RIG_OK(writer_suspend(trace.writer));
	RIG_OK(writer_reopen(directory, &part, &seen[0], count_seen, &last, &before));
	RIG_OK(writer_create_after(before, &info, &seen[0], &clock, &after));
	writer_identify(after, &next, directory, sizeof(directory));
	struct packet packet = bare_packet(1500, 1, 7, 0);
	RIG_OK(writer_packet(after, 1, &packet));
	RIG_OK(writer_suspend(before));
	RIG_OK(writer_suspend(after));
	last = 0;
	RIG_OK(writer_reopen(directory, &next, &seen[1], count_seen, &last, &after));
	assert_int_equal(last, packet.end); /* nothing of the first part's */
	RIG_OK(writer_complete(after));
	RIG_OK(writer_suspend(after));
	assert_int_equal(size_of_files(&trace),
			 3 * sizeof(struct metadata_packet) + (5 + 5 + 7) * 8);
	RIG_OK(writer_reopen(directory, &part, &seen[2], count_seen, &last, &before));
	packet = bare_packet(2000, 1, 11, 0);
	RIG_OK(writer_packet(before, 1, &packet));
	RIG_OK(writer_close(before));
	assert_int_equal(rig_judge(&trace, NULL).events, 5 + 5 + 7 + 11);
	for (size_t i = 0; i < 3; i++)
		event_types_free(&seen[i]);
	rig_remove(&trace);
}

/* Whoever names a directory isn't believed: another trace's, one that isn't there, somebody
 * else's. */
static void test_reopen_refuses(void **unused)
{
	struct event_types types = { 0 };
	struct trace_writer *writer = NULL;
	struct rig_trace trace;
	struct writer_part part;
	char directory[4096], expected[4200];

	make_simple(&trace);
	writer_identify(trace.writer, &part, directory, sizeof(directory));
	part.uuid[3] ^= 1;
	snprintf(expected, sizeof(expected), "'%s' is another trace", directory);
	expect_error(writer_reopen(directory, &part, &types, count_seen, NULL, &writer), expected);
	part.uuid[3] ^= 1;
	assert_int_equal(chmod(directory, 0777), 0);
	snprintf(expected, sizeof(expected), "'%s' isn't yours alone", directory);
	expect_error(writer_reopen(directory, &part, &types, count_seen, NULL, &writer), expected);
	RIG_OK(writer_close(trace.writer));
	rig_remove(&trace);
	snprintf(expected, sizeof(expected), "cannot open '%s': No such file or directory",
		 directory);
	expect_error(writer_reopen(directory, &part, &types, count_seen, NULL, &writer), expected);
}

/* ---- bounded traces ----------------------------------------------------------------------- */

#define BOUND (256u << 10)
#define BOUND_EVENTS 3000u /* of a packet */
#define BOUND_TURNS 20u

/* What the files of a bounded trace hold of each of two threads. */
struct held {
	uint64_t packets[2], first[2], last[2]; /* turns */
	uint64_t blocks; /* bytes on disk, of all files */
	bool has_part0;
};

/* The packet of a turn: thread `who` of two, which record at the same time. */
static struct packet turn_packet(unsigned who, uint64_t turn)
{
	struct packet packet = bare_packet(1000 + turn * 10000, 1, BOUND_EVENTS, 0);

	packet.tid = who + 1;
	packet.count = BOUND_EVENTS;
	return packet;
}

static void hold_packet(struct held *held, const struct metadata_packet *head)
{
	uint64_t turn = (head->timestamp_begin - 1000) / 10000;
	unsigned who = head->tid - 1;

	if (head->content_size == sizeof(*head) * 8)
		return;
	assert_true(who < 2);
	assert_int_equal(head->content_size / 64, sizeof(*head) / 8 + BOUND_EVENTS);
	if (!held->packets[who] || turn < held->first[who])
		held->first[who] = turn;
	if (!held->packets[who] || turn > held->last[who])
		held->last[who] = turn;
	held->packets[who]++;
}

/* Reads all files, each of which is whole packets. */
static void hold_files(const struct rig_trace *trace, struct held *held)
{
	DIR *entries = opendir(trace->directory);

	memset(held, 0, sizeof(*held));
	for (struct dirent *entry; (entry = readdir(entries));) {
		struct metadata_packet head;
		char path[512];
		struct stat st;

		if (entry->d_name[0] == '.' && strchr("./", entry->d_name[1]))
			continue;
		snprintf(path, sizeof(path), "%s/%s", trace->directory, entry->d_name);
		assert_int_equal(stat(path, &st), 0);
		held->blocks += (uint64_t)st.st_blocks * 512;
		if (strncmp(entry->d_name, "stream_", 7) != 0)
			continue;
		held->has_part0 |= !strchr(entry->d_name + 7, '_');
		count_in_file(path);
		_cleanup_fclose_ FILE *file = fopen(path, "re");
		for (uint64_t at = 0; at < (uint64_t)st.st_size; at += head.packet_size / 8) {
			assert_int_equal(pread(fileno(file), &head, sizeof(head), (off_t)at),
					 sizeof(head));
			hold_packet(held, &head);
		}
	}
	closedir(entries);
}

/* (W5) The oldest go first: what is there has no gap, and ends with the last turn. */
static void check_held(const struct held *held, uint64_t turns, uint64_t slack)
{
	assert_true(held->blocks <= BOUND);
	for (unsigned who = 0; who < 2; who++) {
		if (!held->packets[who])
			continue;
		assert_int_equal(held->packets[who], held->last[who] - held->first[who] + 1);
		assert_true(held->last[who] + 1 >= turns &&
			    held->last[who] + 1 <= turns + slack);
	}
}

static void put_turns(struct trace_writer *writer, uint64_t from, uint64_t to,
		      volatile uint64_t *counter)
{
	for (uint64_t turn = from; turn < to; turn++) {
		for (unsigned who = 0; who < 2; who++) {
			struct packet packet = turn_packet(who, turn);

			RIG_OK(writer_packet(writer, who + 1, &packet));
		}
		*counter = turn + 1;
	}
}

/* (W5) A trace stays within its size at every moment, and says how many events it gave up. */
static void test_bounded_by_size(void **unused)
{
	const struct writer_limits limits = { .max_size = BOUND };
	struct writer_removed removed;
	struct rig_trace trace;
	struct held held;
	uint64_t done = 0;

	make_simple(&trace);
	writer_set_limits(trace.writer, &limits);
	for (uint64_t turn = 0; turn < BOUND_TURNS; turn++) {
		put_turns(trace.writer, turn, turn + 1, &done);
		hold_files(&trace, &held);
		check_held(&held, done, 0);
	}
	writer_get_removed(trace.writer, &removed);
	RIG_OK(writer_close(trace.writer));
	hold_files(&trace, &held);
	assert_true(held.packets[0] >= 3 && held.packets[1] >= 3); /* more than half is used */
	assert_int_equal(removed.events, (2 * BOUND_TURNS - held.packets[0] - held.packets[1]) *
						 BOUND_EVENTS);
	assert_int_equal(removed.bytes, removed.events * 8);
	assert_int_equal(rig_judge(&trace, NULL).events,
			 (held.packets[0] + held.packets[1]) * BOUND_EVENTS);
	rig_remove(&trace);
}

/* By number of pieces: each turn ends one, as its room is that small. */
static void test_bounded_by_pieces(void **unused)
{
	const struct writer_limits limits = { .max_size = 1 << 20, .max_files = 16 };
	struct rig_trace trace;
	struct held held;
	uint64_t done = 0;

	make_simple(&trace);
	writer_set_limits(trace.writer, &limits);
	put_turns(trace.writer, 0, 40, &done);
	hold_files(&trace, &held);
	assert_int_equal(trace.writer->pieces.count, 15);
	assert_int_equal(held.last[0], 39);
	assert_int_equal(trace.writer->lanes.count, 2);
	assert_int_equal(count_files(&trace), 16 * 2);
	RIG_OK(writer_close(trace.writer));
	assert_int_equal(rig_judge(&trace, NULL).events, 16 * 2 * BOUND_EVENTS);
	rig_remove(&trace);
}

/* By time, also when no packet comes; older files don't change any more. */
static void test_rotated_by_time(void **unused)
{
	const struct writer_limits limits = { .rotate_ns = 1 };
	struct rig_trace trace;
	struct stat st;
	char path[128];
	uint64_t done = 0;

	make_simple(&trace);
	writer_set_limits(trace.writer, &limits);
	put_turns(trace.writer, 0, 1, &done); /* the second thread's packet begins a piece */
	RIG_OK(writer_tick(trace.writer));
	assert_int_equal(trace.writer->lanes.count, 0);
	assert_int_equal(count_files(&trace), 2);
	put_turns(trace.writer, 1, 3, &done);
	assert_int_equal(count_files(&trace), 6);
	assert_int_equal(trace.writer->pieces.count, 1); /* nothing is removed: one note for all */
	snprintf(path, sizeof(path), "%s/stream_1", trace.directory);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 256 << 10); /* a reader may have found the filler */
	RIG_OK(writer_close(trace.writer));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, sizeof(struct metadata_packet) + BOUND_EVENTS * 8);
	assert_int_equal(rig_judge(&trace, NULL).events, 6 * BOUND_EVENTS);
	rig_remove(&trace);
}

/* Runs the child to its `steps`th system call and kills it before that. False: it had fewer. */
static bool kill_at_call(pid_t child, unsigned steps)
{
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD);
	for (unsigned i = 0; i < steps * 2 - 1; i++) {
		assert_int_equal(ptrace(PTRACE_SYSCALL, child, NULL, NULL), 0);
		assert_int_equal(waitpid(child, &status, 0), child);
		if (WIFEXITED(status)) {
			assert_int_equal(WEXITSTATUS(status), 0);
			return false;
		}
	}
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	return true;
}

/* The next controller goes on within the same limits, until nothing of the dead one is left. */
static void go_on(struct rig_trace *trace, const struct writer_part *part, uint64_t turns)
{
	const struct writer_limits limits = { .max_size = BOUND };
	struct trace_info info = { .process = "next" };
	struct trace_writer *before = NULL, *after = NULL;
	struct event_types types = { 0 };
	struct held held;
	uint64_t last = 0, done = turns;

	RIG_OK(writer_reopen(trace->directory, part, &types, count_seen, &last, &before));
	RIG_OK(writer_create_after(before, &info, &types, &simple_clock, &after));
	RIG_OK(writer_complete(before));
	RIG_OK(writer_suspend(before));
	writer_set_limits(after, &limits);
	put_turns(after, turns + 1, turns + 12, &done);
	hold_files(trace, &held);
	assert_true(held.blocks <= BOUND);
	assert_false(held.has_part0);
	RIG_OK(writer_close(after));
	event_types_free(&types);
}

/* A part whose controller was killed before it wrote anything, and its buffers' packets. */
struct dead_part {
	struct rig_trace trace;
	struct writer_part part;
	struct event_types types;
	struct trace_writer *before, *after;
};

static void make_dead(struct dead_part *dead, uint64_t turns)
{
	const struct writer_limits limits = { .max_size = BOUND };
	char directory[4096];
	uint64_t last = 0, done = 0;

	*dead = (struct dead_part){ 0 };
	make_simple(&dead->trace);
	writer_set_limits(dead->trace.writer, &limits);
	put_turns(dead->trace.writer, 0, turns, &done);
	writer_identify(dead->trace.writer, &dead->part, directory, sizeof(directory));
	RIG_OK(writer_suspend(dead->trace.writer));
	RIG_OK(writer_reopen(directory, &dead->part, &dead->types, count_seen, &last,
			     &dead->before));
}

static void begin_after(struct dead_part *dead)
{
	const struct writer_limits limits = { .max_size = BOUND };
	struct trace_info info = { .process = "next" };

	RIG_OK(writer_create_after(dead->before, &info, &dead->types, &simple_clock,
				   &dead->after));
	writer_set_limits(dead->after, &limits);
}

/* Saves the buffers' packets, turn by turn within the size. */
static void save_turns(struct dead_part *dead, uint64_t from, uint64_t to)
{
	const struct writer_limits limits = { .max_size = BOUND };
	struct held held;
	uint64_t done;

	RIG_OK(writer_limit_before(dead->before, dead->after, &limits));
	for (uint64_t turn = from; turn < to; turn++) {
		put_turns(dead->before, turn, turn + 1, &done);
		hold_files(&dead->trace, &held);
		assert_true(held.blocks <= BOUND);
	}
	RIG_OK(writer_complete(dead->before));
	if (dead->after)
		RIG_OK(writer_note_before(dead->after, dead->before));
}

static void bury(struct dead_part *dead)
{
	RIG_OK(writer_suspend(dead->before));
	if (dead->after)
		RIG_OK(writer_close(dead->after));
	event_types_free(&dead->types);
	rig_remove(&dead->trace);
}

/* (W5) Buffers that are larger than the limit: their last events stay, whether there is a next part
 * already or not. It goes on within the limit, and counts what was removed. */
static void test_bounded_takeover(void **unused)
{
	struct writer_removed removed;
	struct dead_part dead;
	struct held held;
	uint64_t done;

	for (uint64_t turns = 0; turns < 10; turns += 3) {
		make_dead(&dead, turns);
		save_turns(&dead, 10, 30);
		hold_files(&dead.trace, &held);
		check_held(&held, 30, 0);
		assert_true(held.packets[0] >= 3 && held.packets[1] >= 3);
		begin_after(&dead);
		put_turns(dead.after, 30, 31, &done);
		hold_files(&dead.trace, &held);
		check_held(&held, 31, 0);
		assert_true(held.packets[0] >= 3 && held.has_part0);
		put_turns(dead.after, 31, 50, &done);
		hold_files(&dead.trace, &held);
		check_held(&held, 50, 0);
		assert_false(held.has_part0);
		bury(&dead);

		make_dead(&dead, turns);
		begin_after(&dead);
		put_turns(dead.after, 30, 31, &done);
		save_turns(&dead, 10, 30);
		hold_files(&dead.trace, &held);
		check_held(&held, 31, 0);
		assert_true(held.packets[0] >= 3 && held.packets[1] >= 3);
		writer_get_removed(dead.after, &removed);
		if (!turns)
			assert_int_equal(removed.events,
					 (42 - held.packets[0] - held.packets[1]) * BOUND_EVENTS);
		put_turns(dead.after, 31, 50, &done);
		hold_files(&dead.trace, &held);
		check_held(&held, 50, 0);
		assert_false(held.has_part0);
		bury(&dead);
	}
}

/* The next part has filled the room, and removed what the dead controller wrote: nothing that is
 * older comes, and nothing newer goes. */
static void test_bounded_takeover_late(void **unused)
{
	struct dead_part dead;
	struct held held, then;
	uint64_t done;

	for (uint64_t turns = 0; turns < 10; turns += 3) {
		make_dead(&dead, turns);
		begin_after(&dead);
		put_turns(dead.after, 30, 50, &done);
		hold_files(&dead.trace, &held);
		assert_false(held.has_part0);
		save_turns(&dead, 10, 30);
		hold_files(&dead.trace, &then);
		assert_true(then.packets[0] >= held.packets[0]);
		check_held(&then, 50, 0);
		bury(&dead);
	}
}

/* The next part has removed the dead one's file, and has some room: no packet goes to a file
 * that is gone. */
static void test_bounded_takeover_of_removed(void **unused)
{
	const struct writer_limits wide = { .max_size = BOUND + (16 << 10) };
	struct packet packet = bare_packet(1000, 1, 3, 0);
	struct dead_part dead;
	struct held held;
	uint64_t done;

	make_dead(&dead, 0);
	RIG_OK(writer_packet(dead.before, 1, &packet)); /* as if it was found there */
	RIG_OK(writer_close_one(dead.before));
	writer_end_stream(dead.before, 1);
	begin_after(&dead);
	put_turns(dead.after, 30, 50, &done);
	hold_files(&dead.trace, &held);
	assert_false(held.has_part0);
	RIG_OK(writer_limit_before(dead.before, dead.after, &wide));
	packet = bare_packet(2000, 1, 3, 0);
	RIG_OK(writer_packet(dead.before, 1, &packet));
	assert_int_equal(dead.before->removed.events + dead.before->removed.bytes, 0);
	RIG_OK(writer_complete(dead.before));
	RIG_OK(writer_note_before(dead.after, dead.before));
	bury(&dead);
}

/* kill -9 of the next controller, too, while it saves the first one's buffers: the third one knows
 * all files, and removes them. */
static void test_bounded_killed_twice(void **unused)
{
	const struct writer_limits limits = { .max_size = BOUND };
	struct dead_part dead;
	struct held held;
	uint64_t done, last = 0;

	for (uint64_t saved = 0; saved < 12; saved++) {
		struct event_types types = { 0 };
		char directory[4096];

		make_dead(&dead, saved % 5);
		begin_after(&dead);
		put_turns(dead.after, 30, 31, &done);
		writer_identify(dead.after, &dead.part, directory, sizeof(directory));
		RIG_OK(writer_limit_before(dead.before, dead.after, &limits));
		put_turns(dead.before, 10, 10 + saved, &done);
		RIG_OK(writer_suspend(dead.before));
		RIG_OK(writer_suspend(dead.after));
		event_types_free(&dead.types);
		RIG_OK(writer_reopen(directory, &dead.part, &types, count_seen, &last,
				     &dead.before));
		dead.types = types;
		begin_after(&dead);
		put_turns(dead.after, 31, 50, &done);
		hold_files(&dead.trace, &held);
		check_held(&held, 50, 0);
		assert_false(held.has_part0);
		bury(&dead);
	}
}

/* (W5) kill -9 before any system call of a trace that rotates. */
static void test_bounded_killed_at_any_call(void **unused)
{
	const struct writer_limits limits = { .max_size = BOUND };
	volatile uint64_t *counter =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	bool killed = true;

	for (unsigned steps = 1; killed; steps += 1 + steps % 2) {
		struct rig_trace trace;
		struct writer_part part;
		char directory[4096];
		struct held held;

		make_simple(&trace);
		writer_set_limits(trace.writer, &limits);
		writer_identify(trace.writer, &part, directory, sizeof(directory));
		*counter = 0;
		pid_t child = fork();
		if (!child) {
			ptrace(PTRACE_TRACEME, 0, NULL, NULL);
			raise(SIGSTOP);
			put_turns(trace.writer, 0, 7, counter);
			_exit(0);
		}
		killed = kill_at_call(child, steps);
		hold_files(&trace, &held);
		check_held(&held, *counter, 1);
		if (steps % 16 == 1)
			assert_int_equal(rig_judge(&trace, NULL).events,
					 (held.packets[0] + held.packets[1]) * BOUND_EVENTS);
		go_on(&trace, &part, *counter);
		writer_close(trace.writer);
		rig_remove(&trace);
	}
	munmap((void *)counter, 4096);
}

/* (H39) Recording stops before the file system is full; losses can still be written. */
static void test_stops_before_full(void **unused)
{
	struct rig_trace trace;
	struct packet packet = turn_packet(0, 0);

	make_simple(&trace);
	RIG_OK(writer_packet(trace.writer, 1, &packet));
	trace.writer->is_full = true; /* as writer_check_space finds it: test_bounded.py */
	trace.writer->space_left = 1 << 20;
	packet = turn_packet(0, 1);
	struct error *error = writer_packet(trace.writer, 1, &packet);
	assert_non_null(error);
	assert_int_equal(error_kind(error), ERROR_FULL);
	assert_non_null(strstr(error_text(error), "only 1024 KiB are left on the file system of "));
	error_free(error);
	packet.size = 0;
	packet.count = 0;
	packet.lost = BOUND_EVENTS;
	RIG_OK(writer_packet(trace.writer, 1, &packet));
	RIG_OK(writer_close(trace.writer));
	assert_int_equal(rig_judge(&trace, NULL).events, BOUND_EVENTS);
	rig_remove(&trace);
}

/* ---- a trace that can't begin --------------------------------------------------------------- */

static int (*open_file)(struct trace_dir *dir, const char *name, bool create);

static int open_no_events(struct trace_dir *dir, const char *name, bool create)
{
	return strcmp(name, ".events") ? open_file(dir, name, create) : -ENOSPC;
}

/* Nothing of it stays, and the next attempt works: a daemon has one directory per trace. */
static void test_begins_again(void **unused)
{
	const struct trace_info info = { .hostname = "h", .process = "p", .pid = 9 };
	struct rig_trace trace;
	struct event_types types;
	struct trace_dir *dir;
	struct trace_writer *writer = NULL;

	make_simple(&trace); /* for its folder */
	RIG_OK(writer_close(trace.writer));
	rig_make_types(&types);
	_cleanup_free_ char *path = NULL;
	assert_true(asprintf(&path, "%s/second", trace.top) > 0);
	RIG_OK(trace_dir_direct(path, &dir));
	open_file = dir->open;
	dir->open = open_no_events;
	struct error *error = writer_create_in(dir, &info, &types, &simple_clock, &writer);
	assert_non_null(error);
	error_free(error);
	assert_int_equal(access(path, F_OK), -1);
	dir->open = open_file;
	RIG_OK(writer_create_in(dir, &info, &types, &simple_clock, &writer));
	writer_discard(writer);
	assert_int_equal(access(path, F_OK), -1);
	trace_dir_free(dir);
	event_types_free(&types);
	rig_remove(&trace);
}

/* Probes have recorded that were placed before others failed: nothing stays of their events. */
static void test_discarded_with_events(void **unused)
{
	const struct writer_limits limits = { .rotate_ns = 1 };
	struct rig_trace trace;

	make_simple(&trace);
	writer_set_limits(trace.writer, &limits);
	for (uint64_t i = 0; i < 3; i++) { /* in pieces, of two lanes each */
		put(&trace, 1, 1000 + i * 1000, 1, 10, 0);
		put(&trace, 2, 1000 + i * 1000, 1, 10, 0);
		RIG_OK(writer_tick(trace.writer));
	}
	put(&trace, 1, 9000, 1, 10, 0);
	assert_true(count_files(&trace) > 3);
	writer_discard(trace.writer);
	assert_int_equal(access(trace.directory, F_OK), -1);
	rig_remove(&trace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values_and_clock),
		cmocka_unit_test(test_discarded_with_events),
		cmocka_unit_test(test_hostile_names),
		cmocka_unit_test(test_update_adds_types),
		cmocka_unit_test(test_begins_again),
		cmocka_unit_test(test_no_event_at_all),
		cmocka_unit_test(test_lanes_are_reused),
		cmocka_unit_test(test_many_streams_at_once),
		cmocka_unit_test(test_more_lanes_than_descriptors),
		cmocka_unit_test(test_losses),
		cmocka_unit_test(test_time_goes_back),
		cmocka_unit_test(test_directory_errors),
		cmocka_unit_test(test_disk_full),
		cmocka_unit_test(test_disk_full_at_once),
		cmocka_unit_test(test_killed_at_any_moment),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_killed_twice),
		cmocka_unit_test(test_reopen_refuses),
		cmocka_unit_test(test_bounded_by_size),
		cmocka_unit_test(test_bounded_by_pieces),
		cmocka_unit_test(test_rotated_by_time),
		cmocka_unit_test(test_bounded_killed_at_any_call),
		cmocka_unit_test(test_bounded_takeover),
		cmocka_unit_test(test_bounded_takeover_late),
		cmocka_unit_test(test_bounded_takeover_of_removed),
		cmocka_unit_test(test_bounded_killed_twice),
		cmocka_unit_test(test_stops_before_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
