/*
 * dyntraced.c - the program dyntraced: its options, and the processes that it runs as.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/client.h"
#include "control/base/cleanup.h"
#include "control/session/session.h"
#include "daemon/asker/asker.h"
#include "daemon/base/log.h"
#include "daemon/base/start.h"
#include "daemon/keeper/keeper.h"
#include "daemon/profiles/profiles.h"
#include "daemon/supervisor/supervisor.h"
#include "daemon/worker/worker.h"
#include "options/help.h"
#include "options/limit_options.h"
#include "options/overhead_option.h"
#include "options/man.h"

#define EXIT_USAGE 2
#define OUTPUT_ROOT "/var/lib/dyntrace/traces"

static struct {
	const char *socket;
	const char *group;
	const char *output;
	const char *log;
	const char *metrics;
	const char *profiles;
	uint64_t buffer_size;
	int mode;
	struct limit_args limit_args;
	const char *overhead_text;
	double overhead;
	struct writer_limits limits;
	bool daemonize, own_only, all_targets, stopped, version, check_profiles;
} args = { .buffer_size = DT_POOL_DEFAULT };

static const struct option_spec options[] = {
	OPTION_GROUP("How it runs"),
	{ 0, "daemonize", NULL, "go to the background; returns when the daemon listens",
	  .flag = &args.daemonize },
	{ 0, "socket", "PATH",
	  "the socket (default: $DYNTRACE_SOCKET; root: /run/dyntrace/dyntraced.sock; others:\n"
	  "$XDG_RUNTIME_DIR/dyntrace.sock)",
	  .string = &args.socket },
	{ 0, "log", "FILE",
	  "file for messages and one line per command (default: stderr; with --daemonize: PATH.log\n"
	  "beside the socket)",
	  .string = &args.log },

	OPTION_GROUP("Permissions"),
	{ 0, "group", "NAME",
	  "members of this group may connect (default: dyntrace, if root starts the daemon)",
	  .string = &args.group },
	{ 0, "own-only", NULL, "users may trace only what they could trace without the daemon",
	  .flag = &args.own_only },
	{ 0, "all-targets", NULL,
	  "also trace processes that have changed their user or have special rights, and, where\n"
	  "kernel.yama.ptrace_scope is 1, those of other users; their files are then read as root",
	  .flag = &args.all_targets },

	OPTION_GROUP("Recording"),
	{ 0, "output", "DIR",
	  "folder of traces (default: root: /var/lib/dyntrace/traces;\n"
	  "others: $XDG_STATE_HOME/dyntrace)",
	  .string = &args.output },
	{ 0, "stopped", NULL, "record nothing until 'dyntrace start'", .flag = &args.stopped },
	{ 0, "buffer-size", "SIZE",
	  "memory per target for events that aren't written yet (default: 64M)",
	  .size = &args.buffer_size },
	{ 0, "mode", "MODE",
	  "when the buffer is full: discard new events and count them, overwrite the oldest (for\n"
	  "snapshots), or block the target until there is room (default: discard)",
	  .choice = &args.mode, .choices = limit_modes },
	OVERHEAD_OPTION(args.overhead_text),
	LIMIT_OPTIONS(args.limit_args),
	{ 0, "metrics", "FILE",
	  "write hits, losses, durations and counts by key to FILE every 5 s while it runs, for the textfile collector\n"
	  "of Prometheus's node_exporter; whoever may read FILE sees them",
	  .string = &args.metrics },
	OPTION_GROUP("Profiles"),
	{ 0, "profiles", "DIR",
	  "folder of profiles, NAME.conf: what to trace in which programs, without a command (default:\n"
	  "root: " PROFILES_FOLDER "; others: $XDG_CONFIG_HOME/dyntrace)",
	  .string = &args.profiles },
	{ 0, "check-profiles", NULL, "only check the profiles; the exit status is 1 if one has a fault",
	  .flag = &args.check_profiles },
	{ 'V', "version", NULL, "show the version", .flag = &args.version },
	{ 0 },
};

static const struct command dyntraced = {
	.name = "dyntraced",
	.summary = "daemon that traces programs for many users, through dyntrace's commands",
	.usage = "[OPTIONS]",
	.details =
		"Runs until SIGTERM or Ctrl-C. It then detaches from every process, which is as before, and\n"
		"completes the traces. Started by root, it serves root and the members of a group, for all\n"
		"processes; started by another user, it serves that user, for the user's own processes. One\n"
		"daemon runs per socket. If it is killed, recording goes on, and the next daemon takes over.",
	.example = "dyntraced --daemonize\n"
		   "dyntrace add redis-server:processCommand ctf",
	.options = options,
};

static int fail(const struct error *error)
{
	fprintf(stderr, "dyntraced: %s\n", error_text(error));
	return error_kind(error) == ERROR_USAGE ? EXIT_USAGE : EXIT_FAILURE;
}

/* The daemon's working directory changes later. */
static struct error *make_absolute(char **path)
{
	_cleanup_free_ char *here = NULL, *whole = NULL;

	if ((*path)[0] == '/')
		return NULL;
	here = getcwd(NULL, 0);
	if (!here)
		return error_errno(errno, "getcwd");
	if (asprintf(&whole, "%s/%s", here, *path) < 0)
		return error_new(ERROR_FAILED, "out of memory");
	free(*path);
	*path = take_ptr(&whole);
	return NULL;
}

static struct error *choose_output(char **ret_path)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	int made;

	if (args.output)
		made = asprintf(ret_path, "%s", args.output);
	else if (geteuid() == 0)
		made = asprintf(ret_path, "%s", OUTPUT_ROOT);
	else if (state && state[0] == '/')
		made = asprintf(ret_path, "%s/dyntrace", state);
	else if (home && home[0] == '/')
		made = asprintf(ret_path, "%s/.local/state/dyntrace", home);
	else
		return error_new(ERROR_FAILED,
				 "no folder for traces (set HOME, or give --output DIR)");
	if (made < 0) {
		*ret_path = NULL;
		return error_new(ERROR_FAILED, "out of memory");
	}
	return make_absolute(ret_path);
}

/* *ret_path NULL: there is no such folder for this user. */
static struct error *choose_profiles(char **ret_path)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	int made = 0;

	if (args.profiles)
		made = asprintf(ret_path, "%s", args.profiles);
	else if (geteuid() == 0)
		made = asprintf(ret_path, "%s", PROFILES_FOLDER);
	else if (config && config[0] == '/')
		made = asprintf(ret_path, "%s/dyntrace", config);
	else if (home && home[0] == '/')
		made = asprintf(ret_path, "%s/.config/dyntrace", home);
	if (made < 0)
		*ret_path = NULL;
	if (made < 0)
		return error_new(ERROR_FAILED, "out of memory");
	if (args.profiles && access(args.profiles, F_OK))
		return error_errno(errno, "--profiles: cannot read %s", args.profiles);
	return made ? make_absolute(ret_path) : NULL;
}

static struct error *check_profiles(void)
{
	_cleanup_free_ char *folder = NULL;
	struct profiles profiles = { 0 };
	struct error *error = choose_profiles(&folder);

	if (error)
		return error;
	if (folder)
		profiles_read(folder, &profiles);
	for (size_t i = 0; i < profiles.errors.count; i++)
		fprintf(stderr, "dyntraced: %s\n", profiles.errors.items[i]);
	printf("%s: %zu file%s, %zu tracepoint%s", folder ? folder : "no folder", profiles.files,
	       profiles.files == 1 ? "" : "s", profiles.requests.count,
	       profiles.requests.count == 1 ? "" : "s");
	if (profiles.errors.count)
		printf("; %zu not used", profiles.errors.count);
	puts("");
	int status = profiles.errors.count ? EXIT_FAILURE : EXIT_SUCCESS;
	profiles_free(&profiles);
	if (status != EXIT_SUCCESS)
		exit(status); /* the lines above say why */
	return NULL;
}

static struct error *check_usage(const struct words *words)
{
	if (words->count)
		return error_new(ERROR_USAGE, "unexpected argument '%s' (--help lists the options)",
				 words->items[0]);
	if (args.buffer_size < DT_POOL_MIN || args.buffer_size > DT_POOL_MAX)
		return error_new(ERROR_USAGE, "--buffer-size: out of range (from 1M to 4095M)");
	struct error *error = overhead_option_parse(args.overhead_text, &args.overhead);
	if (!error && args.overhead > 0 && args.mode == SESSION_OVERWRITE)
		error = error_new(ERROR_USAGE,
				  "--overhead: not with --mode overwrite (hits are known at the end only)");
	return error ? error :
		       limit_options_check(&args.limit_args, (enum session_mode)args.mode,
					   &args.limits);
}

static struct error *run_supervisor(void)
{
	_cleanup_free_ char *socket = NULL, *output = NULL, *profiles = NULL;
	_cleanup_free_ char *metrics = args.metrics ? strdup(args.metrics) : NULL;
	struct error *error = client_socket_path(args.socket, &socket);

	if (!error)
		error = make_absolute(&socket);
	if (!error && metrics)
		error = make_absolute(&metrics);
	if (!error)
		error = choose_output(&output);
	if (!error)
		error = choose_profiles(&profiles);
	if (!error && args.daemonize)
		error = start_background();
	if (error)
		return error;
	struct supervisor_options chosen = { .socket = socket,
					     .output = output,
					     .group = args.group,
					     .buffer_size = args.buffer_size,
					     .mode = args.mode,
					     .limits = args.limits,
					     .overhead = args.overhead,
					     .snapshots_kept = args.mode == SESSION_OVERWRITE ?
								       args.limit_args.max_files :
								       0,
					     .own_only = args.own_only,
					     .all_targets = args.all_targets,
					     .stopped = args.stopped,
					     .daemonized = args.daemonize,
					     .metrics = metrics,
					     .profiles = profiles,
					     .log = args.log };
	return supervisor_run(&chosen);
}

/* Prints the man page, for the build. */
static int run_man(const char *path)
{
	_cleanup_fclose_ FILE *prose = fopen(path, "re");

	if (!prose) {
		_cleanup_error_ struct error *error = error_errno(errno, "cannot read %s", path);

		return fail(error);
	}
	man_program(dyntraced.name, &dyntraced, prose);
	return EXIT_SUCCESS;
}

/* Ways to start this program that only the supervisor and the build use. -1: not one of them. */
static int run_helper(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--man"))
		return run_man(argv[2]);
	if (argc == 2 && !strcmp(argv[1], "--asker"))
		return asker_main();
	if (argc == 3 && !strcmp(argv[1], "--worker"))
		return worker_main(atoi(argv[2]));
	if (argc == 4 && !strcmp(argv[1], "--keeper"))
		return keeper_main(argv[2], argv[3], KEEPER_NUMBERED);
	if (argc == 4 && !strcmp(argv[1], "--keeper-exact"))
		return keeper_main(argv[2], argv[3], KEEPER_EXACT);
	if (argc == 4 && !strcmp(argv[1], "--keeper-again"))
		return keeper_main(argv[2], argv[3], KEEPER_AGAIN);
	return -1;
}

int main(int argc, char **argv)
{
	_cleanup_(words_free) struct words words = { 0 };
	int helped = run_helper(argc, argv);

	if (helped >= 0)
		return helped;
	_cleanup_error_ struct error *error =
		options_parse(options, false, argc - 1, argv + 1, &words);
	if (!error && words.help) {
		help_program(dyntraced.name, &dyntraced);
		return EXIT_SUCCESS;
	}
	if (!error && args.version) {
		puts("dyntraced " DYNTRACE_VERSION);
		return EXIT_SUCCESS;
	}
	if (!error)
		error = check_usage(&words);
	if (!error && args.check_profiles)
		error = check_profiles();
	else if (!error)
		error = run_supervisor();
	return error ? fail(error) : EXIT_SUCCESS;
}
