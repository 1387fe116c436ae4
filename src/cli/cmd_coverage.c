/*
 * cmd_coverage.c - dyntrace coverage FILE...: count the places that can be probed, per tactic.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/placement/coverage/coverage.h"
#include "options/commands.h"
#include "options/table_text.h"

#define REASONS_SHOWN 5

static struct {
	bool instructions;
	bool json;
	bool reasons;
	bool list;
} args;

static const struct option_spec options[] = {
	{ 'i', "instructions", NULL,
	  "also plan every instruction: each alone, and all of a function at once",
	  .flag = &args.instructions },
	{ 'r', "reasons", NULL, "show why the rest can't be placed, with an example address per reason",
	  .flag = &args.reasons },
	{ 'l', "list", NULL, "instead list every instruction: address, tactic, function",
	  .flag = &args.list },
	{ 0, "json", NULL, "one JSON object per row of the table", .flag = &args.json },
	{ 0 },
};

static void symtab_closep(struct symtab **symtab)
{
	if (*symtab)
		symtab_close(*symtab);
}

static void print_header(void)
{
	cli_print("| %-16s | %-24s | %9s |", "file", "what", "all");
	for (size_t i = 0; coverage_tactic(i); i++)
		cli_print(" %10s |", coverage_tactic(i));
	cli_print(" %9s | %10s |\n|---|---|---|", "refused", "placed");
	for (size_t i = 0; coverage_tactic(i); i++)
		cli_print("---|");
	cli_print("---|---|\n");
}

static double percent(const struct coverage_count *count)
{
	return count->total ?
		       100.0 * (double)(count->total - count->refused) / (double)count->total :
		       100.0;
}

static void print_json(const char *file, const char *what, const struct coverage_count *count)
{
	_cleanup_(strbuf_free) struct strbuf name = { 0 };

	quote_json(&name, file, strlen(file));
	cli_print("{\"file\":%s,\"what\":\"%s\",\"all\":%llu", name.text ? name.text : "null", what,
	       (unsigned long long)count->total);
	for (size_t i = 0; coverage_tactic(i); i++)
		cli_print(",\"%s\":%llu", coverage_tactic(i), (unsigned long long)count->placed[i]);
	cli_print(",\"refused\":%llu}\n", (unsigned long long)count->refused);
}

static void print_count(const char *file, const char *what, const struct coverage_count *count)
{
	if (args.json) {
		print_json(file, what, count);
		return;
	}
	cli_print("| %-16s | %-24s | %9llu |", file, what, (unsigned long long)count->total);
	for (size_t i = 0; coverage_tactic(i); i++)
		cli_print(" %10llu |", (unsigned long long)count->placed[i]);
	cli_print(" %9llu | %9.4f%% |\n", (unsigned long long)count->refused, percent(count));
	for (size_t i = 0; args.reasons && i < count->reason_count && i < REASONS_SHOWN; i++)
		cli_print("    %llu, as at 0x%llx: %s\n", (unsigned long long)count->reasons[i].count,
		       (unsigned long long)count->reasons[i].example, count->reasons[i].text);
}

static void print_instruction(void *context, const struct symbol *symbol, uint64_t address,
			      const char *tactic)
{
	cli_print("0x%llx %s %s\n", (unsigned long long)address, tactic ? tactic : "refused",
	       symbol ? symbol->name : "-");
}

static struct error *cover(const char *file, struct module *module, const struct maps *maps)
{
	struct coverage_count count;
	struct error *error;

	if (args.list)
		return coverage_each(module, maps, print_instruction, NULL);
	error = coverage_functions(module, maps, &count);

	if (error)
		return error;
	print_count(file, "function entries", &count);
	coverage_free(&count);
	for (int at_once = 0; args.instructions && at_once < 2; at_once++) {
		error = coverage_instructions(module, maps, at_once, &count);
		if (error)
			return error;
		print_count(file, at_once ? "instructions, at once" : "instructions, each alone",
			    &count);
		coverage_free(&count);
	}
	return NULL;
}

static struct error *cover_file(const char *path)
{
	_cleanup_(symtab_closep) struct symtab *symtab = NULL;
	_cleanup_(maps_free) struct maps maps = { 0 };
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	const char *slash = strrchr(path, '/');
	struct module module;

	if (fd < 0)
		return error_errno(errno, "cannot open '%s'", path);
	struct error *error = symtab_open(fd, path, &symtab);
	if (!error)
		error = coverage_load(symtab, slash ? slash + 1 : path, strstr(path, ".so") != NULL,
				      &module, &maps);
	return error ? error : cover(slash ? slash + 1 : path, &module, &maps);
}

static struct error *run(const struct words *words, int *ret_status)
{
	struct error *error = NULL;

	if (!words->count)
		return error_new(ERROR_USAGE, "give a program or a library");
	if (!args.json && !args.list)
		print_header();
	for (size_t i = 0; i < words->count && !error; i++)
		error = cover_file(words->items[i]);
	return error;
}

const struct command command_coverage = {
	.name = "coverage",
	.summary = "count the places of a program that can be probed",
	.usage = "[OPTIONS] FILE...",
	.details =
		"Plans a probe at every function of the file (with -i also at every instruction) and counts the\n"
		"tactics that would place them. Nothing is started or changed; the result is for the file\n"
		"alone in its address space.",
	.example = "dyntrace coverage --instructions /usr/bin/redis-server",
	.options = options,
	.run = run,
};
