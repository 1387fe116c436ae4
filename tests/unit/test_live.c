/*
 * Tracepoints that come, go, are switched and get contexts while the session records. The trace is
 * compared with the calls that the target counts itself (live.h): exactly, where the threads stood
 * still when the tracepoint came and went; otherwise up to the calls that were going on.
 *
 * LIVE_SECONDS and LIVE_CYCLES make it longer (make torture); LIVE_ONLY names one test.
 */
#include "live.h"

#include "control/exits/exits.h"
#include "control/session/session.h"
#include "control/session/state/session_state.h"

#include "thin.h"

/* ---- single changes -------------------------------------------------------------------------- */

/* A session begins without tracepoints; a tracepoint records exactly the calls after its adding. */
static void test_add_and_remove(void **state)
{
	struct fixture f = { 0 };
	struct stat st;
	size_t count = 0;

	begin(&f, (struct session_options){ 0 });
	work(&f, 10);
	assert_int_equal(session_tracepoint_count(f.session), 0);
	assert_int_not_equal(stat(f.output, &st), 0);

	uint64_t before = done(3);
	add(&f, 3, TRACEPOINT_ENTRY);
	work(&f, 100);
	assert_int_equal(info(&f, "work_3").hits, done(3) - before);
	assert_string_equal(info(&f, "work_3").location, "work_3");
	assert_true(info(&f, "work_3").enabled && info(&f, "work_3").code_bytes > 0);

	uint64_t second = done(4), first = done(3) - before;
	add(&f, 4, TRACEPOINT_FUNCTION);
	check(session_remove(f.session, "work_3", &count), &f);
	assert_int_equal(count, 1);
	work(&f, 100);
	assert_int_equal(session_tracepoint_count(f.session), 1);
	assert_int_equal(info(&f, "work_4").hits, done(4) - second);
	assert_int_equal(info(&f, "work_4").exits, done(4) - second);

	/* the name is free, and counts begin anew */
	uint64_t again = done(3);
	add(&f, 3, TRACEPOINT_ENTRY);
	work(&f, 50);
	assert_int_equal(info(&f, "work_3").hits, done(3) - again);
	uint64_t total = first + done(3) - again, fours = done(4) - second;
	leave(&f);
	assert_int_equal(judge(&f, "work_3_entry", ""), total);
	assert_int_equal(judge(&f, "work_4_entry", ""), fours);
	assert_int_equal(judge(&f, "work_4_exit", "duration"), fours);
	end(&f);
}

/* Several names, globs, and a session without any event leaves no directory. */
static void test_names(void **state)
{
	struct name_list names = { 0 };
	struct fixture f = { 0 };
	struct stat st;
	size_t count = 0;

	begin(&f, (struct session_options){ 0 });
	struct tracepoint_spec spec = { .location = "work_1*", .kind = TRACEPOINT_ENTRY };
	check(session_add(f.session, &spec, &names), &f);
	assert_int_equal(names.count, 11); /* 1, 10 to 19 */
	name_list_free(&names);

	spec = (struct tracepoint_spec){ .location = "work_1", .name = "mine" };
	check(session_add(f.session, &spec, &names), &f);
	assert_int_equal(names.count, 1);
	assert_string_equal(names.items[0], "mine");
	name_list_free(&names);
	_cleanup_error_ struct error *taken = session_add(f.session, &spec, NULL);
	assert_non_null(taken);
	assert_string_equal(error_text(taken),
			    "tracepoint 'mine' exists already (give another name)");
	add(&f, 1, TRACEPOINT_ENTRY);
	assert_string_equal(info(&f, "work_1-2").location, "work_1");

	_cleanup_error_ struct error *none = session_remove(f.session, "work_9*", &count);
	assert_string_equal(error_text(none), "no tracepoint 'work_9*' (list-tracepoints lists them)");
	check(session_remove(f.session, "work_1?", &count), &f);
	assert_int_equal(count, 10);
	check(session_remove(f.session, "*", &count), &f);
	assert_int_equal(count, 3);
	assert_int_equal(session_tracepoint_count(f.session), 0);
	work(&f, 10);
	leave(&f);
	assert_int_equal(stat(f.output, &st), 0); /* there were tracepoints, if no events */
	assert_int_equal(judge(&f, "work", ""), 0);
	end(&f);
}

/* What fails leaves nothing: neither a name, nor memory, nor the trace's directory. */
static void test_all_or_nothing(void **state)
{
	static const char *const contexts[] = { "var:nonesuch" };
	struct fixture f = { 0 };
	struct stat st;

	begin(&f, (struct session_options){ 0 });
	uint64_t used = session_code_used(f.session);
	struct tracepoint_spec spec = { .location = "work_2",
					.contexts = contexts,
					.context_count = 1 };
	_cleanup_error_ struct error *context = session_add(f.session, &spec, NULL);
	assert_non_null(context);
	_cleanup_error_ struct error *place = try_add(&f, "work_2+1", TRACEPOINT_BARE);
	assert_non_null(place);
	assert_non_null(strstr(error_text(place), "not the start of an instruction"));
	_cleanup_error_ struct error *name = try_add(&f, "nonesuch_function", TRACEPOINT_ENTRY);
	assert_non_null(name);
	assert_int_equal(session_tracepoint_count(f.session), 0);
	assert_int_equal(session_code_used(f.session), used);
	assert_int_not_equal(stat(f.output, &st), 0);
	leave(&f);
	assert_int_not_equal(stat(f.output, &st), 0);
	end(&f);
}

/* Off is off, as a whole and one by one; what is added while all is off is off too. */
static void test_switches(void **state)
{
	struct fixture f = { 0 };

	begin(&f, (struct session_options){ .stopped = true });
	add(&f, 5, TRACEPOINT_ENTRY);
	work(&f, 50);
	assert_int_equal(info(&f, "work_5").hits, 0);
	uint64_t from = done(5);
	check(session_recording(f.session, true), &f);
	work(&f, 50);
	uint64_t first = done(5) - from;
	assert_int_equal(info(&f, "work_5").hits, first);

	check(session_switch(f.session, "work_5", false, NULL), &f);
	assert_false(info(&f, "work_5").enabled);
	work(&f, 50);
	check(session_recording(f.session, false), &f);
	check(session_switch(f.session, "work_5", true, NULL), &f);
	add(&f, 6, TRACEPOINT_FUNCTION);
	work(&f, 50);
	assert_int_equal(info(&f, "work_5").hits, first);
	assert_int_equal(info(&f, "work_6").hits, 0);
	from = done(5);
	uint64_t sixes = done(6);
	check(session_recording(f.session, true), &f);
	work(&f, 50);
	assert_int_equal(info(&f, "work_5").hits, first + done(5) - from);
	assert_int_equal(info(&f, "work_6").exits, done(6) - sixes);
	leave(&f);
	end(&f);
}

/* A call that began before recording was stopped and returns later records no exit; one that
 * returns after it was started again does. */
static void test_stopped_inside(void **state)
{
	struct fixture f = { 0 };

	begin(&f, (struct session_options){ 0 });
	uint64_t from = done(0);
	check(try_add(&f, "work_*", TRACEPOINT_FUNCTION), &f);
	/* each thread is inside when it stands */
	check(try_add(&f, "stand_still", TRACEPOINT_FUNCTION), &f);
	work(&f, 10);
	assert_int_equal(info(&f, "stand_still").hits, THREADS);
	assert_int_equal(info(&f, "stand_still").exits, 0);
	check(session_recording(f.session, false), &f);
	work(&f, 10); /* they leave, and enter again */
	assert_int_equal(info(&f, "stand_still").hits, THREADS);
	assert_int_equal(info(&f, "stand_still").exits, 0);
	uint64_t recorded = info(&f, "work_0").hits, again = done(0);
	assert_true(recorded < done(0) - from);
	check(session_recording(f.session, true), &f);
	work(&f, 10);
	assert_int_equal(info(&f, "work_0").hits, recorded + done(0) - again);
	assert_int_equal(info(&f, "work_0").exits, recorded + done(0) - again);
	assert_int_equal(info(&f, "stand_still").hits, 2 * THREADS);
	assert_int_equal(info(&f, "stand_still").exits, 0);
	leave(&f);
	assert_int_equal(judge(&f, "stand_still_exit", ""), 0);
	assert_int_equal(judge(&f, "stand_still_entry", ""), 2 * THREADS);
	end(&f);
}

/* (P7) From one event to the next they have one field more; none is lost in between, although the
 * threads never stop. */
static void test_contexts(void **state)
{
	struct fixture f = { 0 };

	begin(&f, (struct session_options){ 0 });
	uint64_t from = done(7), exits = done(8);
	add(&f, 7, TRACEPOINT_ENTRY);
	add(&f, 8, TRACEPOINT_FUNCTION);
	go();
	static const char *const types[] = { "reg:rsp", "tid", "cpu", "reg:rbx", "comm", "pid" };
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		uint64_t now = done(7);

		while (done(7) < now + 200)
			check(session_step(f.session, 1), &f);
		check(session_add_context(f.session, "work_[78]", types[i], NULL), &f);
	}
	_cleanup_error_ struct error *again = session_add_context(f.session, "work_7", "tid", NULL);
	assert_string_equal(error_text(again), "work_7: has the context tid already");
	work(&f, 200);
	struct tracepoint_info seven = info(&f, "work_7");
	assert_int_equal(seven.context_count, 6);
	assert_string_equal(seven.contexts[5], "pid");
	assert_int_equal(seven.hits, done(7) - from);
	assert_int_equal(info(&f, "work_8").hits, done(8) - exits);
	assert_int_equal(info(&f, "work_8").exits, done(8) - exits);
	leave(&f);
	assert_int_equal(judge(&f, "work_7_entry", ""), done(7) - from);
	assert_int_equal(judge(&f, "work_8_entry", ""), done(8) - exits);
	assert_int_equal(judge(&f, "work_8_exit", ""), done(8) - exits);
	uint64_t with_comm = judge(&f, "work_7_entry", "comm = \"");
	assert_true(with_comm >= 400 && with_comm < done(7) - from - 600);
	end(&f);
}

/*
 * A tracepoint inside the site of a function whose exits are recorded, while threads call it all
 * the time: calls that begin behind the adding go through the new code, also those that return
 * through stubs which knew the old one.
 */
static void test_inside_a_function_with_exits(void **state)
{
	struct fixture f = { 0 };

	begin(&f, (struct session_options){ 0 });
	uint64_t from = done(1);
	add(&f, 1, TRACEPOINT_FUNCTION);
	work(&f, 100);
	for (int round = 0; round < 12; round++) {
		const struct tracepoint_spec inside = { .location = "work_1+4",
							.name = "inside",
							.kind = TRACEPOINT_BARE };
		uint64_t before = done(1);

		go();
		check(session_add(f.session, &inside, NULL), &f);
		uint64_t behind = begun(1);
		while (done(1) < behind + 200)
			check(session_step(f.session, 1), &f);
		stand(&f);
		assert_in_range(info(&f, "inside").hits, done(1) - behind, done(1) - before);
		check(session_remove(f.session, "inside", NULL), &f);
	}
	work(&f, 100);
	assert_int_equal(info(&f, "work_1").hits, done(1) - from);
	assert_int_equal(info(&f, "work_1").exits, done(1) - from);
	leave(&f);
	end(&f);
}

/* ---- under load ------------------------------------------------------------------------------ */

/* What is known of a function's tracepoint: hits lie between `least` and `most`. */
struct known {
	bool there, on;
	uint64_t done_at, begun_at; /* calls, when it was surely not recorded yet, and surely was */
	uint64_t least, most;
	unsigned contexts;
};

static void start_counting(struct known *known, size_t function, uint64_t done_before)
{
	known->on = true;
	known->done_at = done_before;
	known->begun_at = begun(function);
}

static void stop_counting(struct known *known, size_t function, uint64_t done_before)
{
	uint64_t begun_now = begun(function);

	known->on = false;
	known->most += begun_now - known->done_at;
	known->least += done_before > known->begun_at ? done_before - known->begun_at : 0;
}

static void change_one(struct fixture *f, struct known *known, size_t function)
{
	static const char *const contexts[] = { "reg:rsp", "tid", "reg:rbx", "cpu" };
	static const enum tracepoint_kind kinds[] = { TRACEPOINT_BARE, TRACEPOINT_ENTRY };
	uint64_t before = done(function);
	char name[16];

	work_name(function, name);
	if (!known->there) {
		add(f, function, kinds[random() % 2]);
		*known = (struct known){ .there = true,
					   .least = known->least,
					   .most = known->most };
		start_counting(known, function, before);
		return;
	}
	switch (random() % 4) {
	case 0:
		check(session_remove(f->session, name, NULL), f);
		if (known->on)
			stop_counting(known, function, before);
		known->there = false;
		break;
	case 1:
		check(session_switch(f->session, name, !known->on, NULL), f);
		if (known->on)
			stop_counting(known, function, before);
		else
			start_counting(known, function, before);
		break;
	default:
		if (known->contexts < 4)
			check(session_add_context(f->session, name, contexts[known->contexts++],
						  NULL),
			      f);
	}
}

static void test_random(void **state)
{
	const char *seconds = getenv("LIVE_SECONDS");
	double until = now() + (seconds ? atof(seconds) : 2);
	struct known known[FUNCTIONS] = { 0 };
	struct fixture f = { 0 };
	uint64_t changes = 0, counts[FUNCTIONS];

	begin(&f, (struct session_options){ 0 });
	uint64_t steady = done(0);
	add(&f, 0, TRACEPOINT_FUNCTION); /* stays as it is */
	srandom((unsigned)time(NULL));
	go();
	for (; now() < until; changes++) {
		size_t function = 1 + (size_t)random() % (FUNCTIONS - 1);

		change_one(&f, &known[function], function);
		check(session_step(f.session, 0), &f);
	}
	stand(&f);
	for (size_t i = 1; i < FUNCTIONS; i++) {
		if (known[i].on)
			stop_counting(&known[i], i, done(i));
	}
	leave(&f);
	print_message("%lu changes\n", (unsigned long)changes);
	judge_all(&f, counts);
	assert_int_equal(counts[0], done(0) - steady);
	assert_int_equal(judge(&f, "work_0_exit", ""), done(0) - steady);
	for (size_t i = 1; i < FUNCTIONS; i++) {
		if (counts[i] < known[i].least || counts[i] > known[i].most)
			fail_msg("work_%zu: %lu events, not from %lu to %lu", i,
				 (unsigned long)counts[i], (unsigned long)known[i].least,
				 (unsigned long)known[i].most);
	}
	end(&f);
}

/* ---- for ever -------------------------------------------------------------------------------- */

static long resident_kib(pid_t pid)
{
	char path[64], line[256];
	long kib = 0, pages = 0;

	snprintf(path, sizeof(path), "/proc/%d/statm", pid);
	FILE *file = fopen(path, "re");
	assert_non_null(file);
	assert_non_null(fgets(line, sizeof(line), file));
	assert_int_equal(sscanf(line, "%*d %ld", &pages), 1);
	fclose(file);
	kib = pages * 4;
	return kib;
}

/* Add, two more contexts, remove: neither the target nor we grow, and ids don't run out. */
static void test_cycles_do_not_grow(void **state)
{
	const char *wanted = getenv("LIVE_CYCLES");
	long cycles = wanted ? atol(wanted) : THIN(800, 600), settled = cycles / 2;
	long here = 0, there = 0;
	struct fixture f = { 0 };
	uint64_t code = 0;
	size_t types = 0;
	char name[16];

	begin(&f, (struct session_options){ .buffer_size = 4 << 20 });
	go();
	for (long i = 0; i < cycles; i++) {
		size_t function = (size_t)i % FUNCTIONS;

		add(&f, function, TRACEPOINT_ENTRY);
		check(session_add_context(f.session, work_name(function, name), "tid", NULL), &f);
		check(session_add_context(f.session, name, "reg:rsp", NULL), &f);
		check(session_step(f.session, 0), &f);
		check(session_remove(f.session, name, NULL), &f);
		if (i == settled) {
			here = resident_kib(getpid());
			there = resident_kib(f.pid);
			code = session_code_used(f.session);
			types = session_types(f.session)->count;
		}
	}
	stand(&f);
	assert_int_equal(session_tracepoint_count(f.session), 0);
	print_message("%ld cycles, %zu kinds of events\n", cycles, session_types(f.session)->count);
	assert_true(session_types(f.session)->count <= types + 3);
	assert_true(session_code_used(f.session) <= code + 300 * 1024);
	if (THIN(true, false)) /* or freed memory is kept, and what isn't freed is told anyway */
		assert_true(resident_kib(getpid()) <= here + 1024);
	assert_true(resident_kib(f.pid) <= there + 1024);
	leave(&f);
	judge(&f, "work", "");
	end(&f);
}

/* Stubs that were ever bound in the target. */
static uint32_t stubs_used(const struct fixture *f)
{
	const struct session *session = f->session;
	uint32_t used = 0;

	assert_null(mem_read(session->proc,
			     taddr_add(session->exits->returns, offsetof(struct dt_returns, used)),
			     &used, sizeof(used)));
	return used;
}

/* With exits: the same return stubs and ids serve tracepoints that come back, and no call goes
 * without. */
static void test_cycles_with_exits_do_not_grow(void **state)
{
	const char *wanted = getenv("LIVE_CYCLES");
	long cycles = wanted ? atol(wanted) : THIN(800, 600), settled = cycles / 2;
	struct fixture f = { 0 };
	uint32_t stubs = 0;
	size_t types = 0;
	char name[16];

	begin(&f, (struct session_options){ .buffer_size = 4 << 20 });
	go();
	for (long i = 0; i < cycles; i++) {
		size_t function = (size_t)i % FUNCTIONS;

		add(&f, function, TRACEPOINT_FUNCTION);
		check(session_step(f.session, 0), &f);
		check(session_remove(f.session, work_name(function, name), NULL), &f);
		if (i == settled) {
			stubs = stubs_used(&f);
			types = session_types(f.session)->count;
		}
	}
	stand(&f);
	print_message("%ld cycles, %zu kinds of events, %u return stubs; half way %zu, %u\n",
		      cycles, session_types(f.session)->count, stubs_used(&f), types, stubs);
	assert_true(session_types(f.session)->count <= types + 2 * FUNCTIONS);
	/* by function and thread, not by cycle */
	assert_true(stubs_used(&f) <= 4 * session_types(f.session)->count);
	for (size_t id = 0; id < session_types(f.session)->count; id++)
		assert_int_equal(f.session->agent->pool->tallies[id].missed, 0);
	leave(&f);
	judge(&f, "work", "");
	end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_add_and_remove),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_all_or_nothing),
		cmocka_unit_test(test_switches),
		cmocka_unit_test(test_stopped_inside),
		cmocka_unit_test(test_contexts),
		cmocka_unit_test(test_inside_a_function_with_exits),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_cycles_do_not_grow),
		cmocka_unit_test(test_cycles_with_exits_do_not_grow),
	};

	built_use_agent();
	if (getenv("LIVE_ONLY"))
		cmocka_set_test_filter(getenv("LIVE_ONLY"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
