#include "completion.h"

#include <ctype.h>
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "control/proc/proc_status.h"
#include "control/names/name_fit.h"
#include "control/modules/module.h"
#include "cli/daemon/daemon_call.h"

#define SYMBOLS_MAX 2000

static void offer(const char *candidate, const char *typed)
{
	if (!strncmp(candidate, typed, strlen(typed)))
		cli_print("%s\n", candidate);
}

/* ---- processes ------------------------------------------------------------------------------- */

static bool may_trace(const char *pid)
{
	char path[64];
	struct stat folder;

	snprintf(path, sizeof(path), "/proc/%.20s", pid);
	return geteuid() == 0 || (!stat(path, &folder) && folder.st_uid == geteuid());
}

/* Offers pids and names, with `suffix` appended. */
static void offer_targets(const char *typed, const char *suffix)
{
	DIR *dir = opendir("/proc");

	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		struct thread_stat stat;
		char text[128];
		pid_t pid = atoi(entry->d_name);

		if (pid <= 0 || pid == getpid() || !may_trace(entry->d_name))
			continue;
		_cleanup_error_ struct error *gone = proc_status_read_stat(pid, pid, &stat);
		if (gone || (stat.flags & STATUS_PF_KTHREAD))
			continue;
		snprintf(text, sizeof(text), "%d%s", pid, suffix);
		offer(text, typed);
		snprintf(text, sizeof(text), "%s%s", stat.comm, suffix);
		if (!isdigit((unsigned char)*typed) && !strchr(stat.comm, ' '))
			offer(text, typed);
	}
	if (dir)
		closedir(dir);
}

/* ---- functions ------------------------------------------------------------------------------- */

static void closep(struct proc **proc)
{
	if (*proc)
		proc_close(*proc);
}

/* With "TARGET:" before each name, if there is a target. */
static void offer_symbols_of(const struct symtab *symtab, const char *target, const char *typed,
			     size_t *count)
{
	for (size_t i = 0; i < symtab_count(symtab) && *count < SYMBOLS_MAX; i++) {
		const struct symbol *symbol = symtab_get(symtab, i);

		if (symbol->kind == SYMBOL_OBJECT)
			continue;
		_cleanup_free_ char *readable = *typed ? name_fit_short(symbol->name) : NULL;
		const char *name = readable && !strncmp(readable, typed, strlen(typed)) ?
					   readable :
					   symbol->name;
		if (strncmp(name, typed, strlen(typed)) != 0)
			continue;
		cli_print("%s%s%s\n", target ? target : "", target ? ":" : "", name);
		++*count;
	}
}

/* Offers functions of the program first, then of its libraries. */
static void offer_symbols(const char *target, const char *typed, bool with_target)
{
	_cleanup_(closep) struct proc *proc = NULL;
	_cleanup_(modules_free) struct modules modules = { 0 };
	size_t count = 0;
	pid_t pid;
	_cleanup_error_ struct error *error = proc_find(target, &pid);

	if (!error)
		error = proc_open_plain(pid, &proc);
	if (!error)
		error = modules_of(proc, &modules);
	for (int own = 1; own >= 0; own--) {
		for (size_t i = 0; i < modules.count && !error; i++) {
			struct symtab *symtab = NULL;

			if (modules.items[i]->is_executable != own)
				continue;
			_cleanup_error_ struct error *unreadable =
				module_symtab(proc, modules.items[i], &symtab);
			if (!unreadable)
				offer_symbols_of(symtab, with_target ? target : NULL, typed,
						 &count);
		}
	}
}

/* ---- tracepoints ----------------------------------------------------------------------------- */

struct offering {
	const char *target, *typed;
};

static struct error *offer_tracepoint(void *context, const struct wire_message *item)
{
	const struct offering *offering = context;
	const char *name = wire_get_text(item, WIRE_NAME);

	if (name && !strncmp(name, offering->typed, strlen(offering->typed)))
		cli_print("%s:%s\n", offering->target, name);
	return NULL;
}

static void offer_tracepoints(const char *target, const char *typed)
{
	_cleanup_client_ struct client *client = NULL;
	struct offering offering = { target, typed };
	_cleanup_error_ struct error *error = daemon_call_connect(&client);

	if (error)
		return;
	daemon_call_begin(client, WIRE_TRACEPOINTS, target, true);
	error = daemon_call_finish(client, offer_tracepoint, &offering);
}

/* ---- options --------------------------------------------------------------------------------- */

static void offer_options(const struct command *command, const char *typed)
{
	for (const struct option_spec *option = command->options; !option_ends_table(option);
	     option++) {
		char text[64];

		if (!option->name)
			continue;
		snprintf(text, sizeof(text), "--%s", option->name);
		offer(text, typed);
	}
	offer("--help", typed);
}

static const struct option_spec *find_option(const struct command *command, const char *word)
{
	for (const struct option_spec *option = command->options; !option_ends_table(option);
	     option++) {
		if (option->name && !strncmp(word, "--", 2) && !strcmp(option->name, word + 2))
			return option;
		if (option->letter && word[0] == '-' && word[1] == option->letter && !word[2])
			return option;
	}
	return NULL;
}

/* The first process that was named, in any of the forms of -p; NULL: none. */
static const char *find_process(int count, char **words)
{
	for (int i = 1; i < count; i++) {
		if (i + 1 < count && (!strcmp(words[i], "-p") || !strcmp(words[i], "--pid")))
			return words[i + 1];
		if (!strncmp(words[i], "--pid=", strlen("--pid=")))
			return words[i] + strlen("--pid=");
		if (!strncmp(words[i], "-p", 2) && words[i][2])
			return words[i] + 2;
	}
	return NULL;
}

/* Returns true if the last word is the argument of `option`, the word before it. */
static bool offer_argument(const struct option_spec *option, int count, char **words)
{
	static const char *const tracers[] = { "ctf", "log", "log:", "count", "lttng", "call:" };
	const char *typed = words[count - 1], *process = find_process(count - 1, words);

	if (!option || !option->argument)
		return false;
	for (int i = 0; option->choices && option->choices[i]; i++)
		offer(option->choices[i], typed);
	if (!strcmp(option->argument, "TARGET") || !strcmp(option->argument, "PID"))
		offer_targets(typed, "");
	for (size_t i = 0; i < sizeof(tracers) / sizeof(tracers[0]); i++) {
		if (!strcmp(option->argument, "TRACER"))
			offer(tracers[i], typed);
	}
	if (!strcmp(option->argument, "LOC") && process)
		offer_symbols(process, typed, false);
	return true;
}

static void offer_word(const struct command *command, char *typed)
{
	bool loc = strstr(command->usage, "TARGET:LOC"),
	     name = strstr(command->usage, "TARGET:NAME");
	char *colon = strchr(typed, ':');

	if ((loc || name) && !colon)
		return offer_targets(typed, ":");
	if (!loc && !name && strstr(command->usage, "TARGET"))
		return offer_targets(typed, "");
	if (!colon)
		return;
	*colon = '\0';
	if (loc)
		offer_symbols(typed, colon + 1, true);
	else
		offer_tracepoints(typed, colon + 1);
}

void completion_print(const struct command *const *commands, int count, char **words)
{
	const struct command *command = NULL;

	if (count < 1)
		return;
	char *typed = words[count - 1];
	for (const struct command *const *each = commands; *each; each++) {
		if (count == 1 || (count == 2 && !strcmp(words[0], "help")))
			offer((*each)->name, typed);
		else if (!strcmp((*each)->name, words[0]))
			command = *each;
	}
	if (count == 1)
		offer("help", typed);
	if (!command || offer_argument(find_option(command, words[count - 2]), count, words))
		return;
	if (typed[0] == '-')
		offer_options(command, typed);
	else if (count == 2 || words[count - 2][0] == '-')
		offer_word(command, typed);
}
