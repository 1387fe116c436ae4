/*
 * question_options.h - the options of a question to calls (control/event/question.h), one table
 * for all commands that take them.
 *
 *	static struct question_args args = { .keys = QUESTION_KEYS_USUAL };
 *	static const struct option_spec options[] = { QUESTION_OPTIONS(args), ..., { 0 } };
 */
#ifndef DYNTRACE_QUESTION_OPTIONS_H
#define DYNTRACE_QUESTION_OPTIONS_H

#include "calls_table.h"
#include "control/event/question.h"
#include "options.h"

struct question_args {
	const char *by, *of;
	const char *top_text, *keys_text;
	bool hist, linear;
	int sort; /* enum calls_sort */
	uint64_t top; /* rows; 0: the usual number */
	uint64_t keys; /* different keys that are kept apart */
};

/* Options that ask, that say how the answer is shown, and how much of it is kept. */
#define QUESTION_ASKS(args)                                                                        \
	{ 0, "by", "KEY[,KEY]",                                                                    \
	  "one row per value of KEY: a field or an expression over fields, ret, $tid, $pid, $comm, " \
	  "$cpu, function, caller or backtrace[:FRAMES]",                                          \
	  .string = &(args).by },                                                                  \
	{ 0, "of", "VALUE",                                                                        \
	  "what is summed up and distributed: duration (the default with exits), self, ret, or a " \
	  "numeric field or expression",                                                           \
	  .string = &(args).of }
#define QUESTION_SHOWS(args)                                                                       \
	{ 0, "hist", NULL, "below each row its distribution, by powers of two",                    \
	  .flag = &(args).hist },                                                                  \
	{ 0, "linear", NULL, "the same in equal steps", .flag = &(args).linear },                  \
	{ 0, "sort", "COLUMN",                                                                     \
	  "calls, total, self, mean, p50, p90, p99, max or name (default: total; without exits, calls)", \
	  .choice = &(args).sort, .choices = calls_sorts },                                        \
	{ 0, "top", "N", "only the first N rows", .string = &(args).top_text }
#define QUESTION_KEEPS(args)                                                                       \
	{ 0, "keys", "N", "at most N different keys; calls with others share a row (default: 4096)", \
	  .string = &(args).keys_text }
#define QUESTION_OPTIONS(args) QUESTION_ASKS(args), QUESTION_SHOWS(args), QUESTION_KEEPS(args)

/* Reads the numbers and the words. ERROR_USAGE: not understood. */
struct error *question_options_read(struct question_args *args, struct question *ret_question);

#endif
