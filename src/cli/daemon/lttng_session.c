#include "lttng_session.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/base/cleanup.h"

#define WORDS_MAX 12
#define KILLED 128 /* plus the signal: as a shell's exit status */
/* Exit statuses of lttng: numbers of LTTng's errors. */
#define NO_SUCH_SESSION 23
#define ALREADY_ENABLED 55

bool lttng_session_is_default;

/* ---- run lttng ------------------------------------------------------------------------------- */

static int spawn(char *const *words, int output, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	int number = posix_spawn_file_actions_init(&actions);

	if (number)
		return number;
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
	number = posix_spawnp(ret_pid, "lttng", &actions, NULL, words, environ);
	posix_spawn_file_actions_destroy(&actions);
	return number;
}

static void read_all(int fd, struct strbuf *text)
{
	char bytes[1024];
	ssize_t count;

	while ((count = read(fd, bytes, sizeof(bytes))) > 0 || (count < 0 && errno == EINTR)) {
		if (count > 0)
			strbuf_add(text, bytes, (size_t)count);
	}
}

/* Runs lttng to its end; `text` gets its output. */
static struct error *run(char *const *words, struct strbuf *text, int *ret_status)
{
	int ends[2], status = 0, number;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC))
		return error_errno(errno, "cannot make a pipe");
	number = spawn(words, ends[1], &pid);
	close(ends[1]);
	if (!number) {
		read_all(ends[0], text);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	close(ends[0]);
	if (number == ENOENT)
		return error_new(ERROR_NOT_FOUND, "lttng is not installed (install lttng-tools)");
	if (number)
		return error_errno(number, "cannot run lttng");
	*ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : KILLED + WTERMSIG(status);
	return text->failed ? error_new(ERROR_FAILED, "out of memory") : NULL;
}

/* ---- rules ----------------------------------------------------------------------------------- */

static void fill_words(const struct lttng_session *where, const char *command, const char *event,
		       bool with_level, const char **words)
{
	size_t count = 0;

	words[count++] = "lttng";
	words[count++] = command;
	words[count++] = "--userspace";
	if (where->session) {
		words[count++] = "--session";
		words[count++] = where->session;
	}
	if (where->channel) {
		words[count++] = "--channel";
		words[count++] = where->channel;
	}
	if (with_level && where->loglevel) {
		words[count++] = where->only ? "--loglevel-only" : "--loglevel";
		words[count++] = where->loglevel;
	}
	words[count++] = event;
	words[count] = NULL;
}

/* lttng says "Error: Event ...: why" on its first line. If there is no such session, the daemon
 * hangs up at once, and lttng may die of SIGPIPE before it says anything. */
static struct error *refuse(const struct lttng_session *where, const char *event, int status,
			    const char *said)
{
	static const char error[] = "Error: ";
	size_t skip = said && !strncmp(said, error, strlen(error)) ? strlen(error) : 0;

	if (!where->session && said && strstr(said, "create a session"))
		return error_new(ERROR_REFUSED,
				 "no session of LTTng to record %s (create one: dyntrace lttng create)",
				 event);
	if (status == NO_SUCH_SESSION || status == KILLED + SIGPIPE)
		return error_new(ERROR_REFUSED,
				 "LTTng has no session '%s' to record %s ('lttng list' shows sessions)",
				 where->session ? where->session : "(the current one)", event);
	return error_new(ERROR_REFUSED, "lttng enable-event %s: %.*s", event,
			 said ? (int)strcspn(said + skip, "\n") : 0, said ? said + skip : "");
}

void lttng_rules_free(struct lttng_rules *rules)
{
	for (size_t i = 0; i < rules->events.count; i++)
		free(rules->events.items[i]);
	vec_free(&rules->events);
	strbuf_free(&rules->said);
}

struct error *lttng_session_enable(const struct lttng_session *where, const char *event,
				   struct lttng_rules *rules)
{
	const char *words[WORDS_MAX];
	char *copy = strdup(event);
	struct strbuf text = { 0 };
	int status = 0;

	fill_words(where, "enable-event", event, true, words);
	struct error *error = copy ? run((char *const *)words, &text, &status) :
				     error_new(ERROR_FAILED, "out of memory");
	if (!error && status && status != ALREADY_ENABLED)
		error = refuse(where, event, status, text.text);
	if (!error && !status) {
		strbuf_add(&rules->said, text.text ? text.text : "", text.length);
		if (vec_push(&rules->events, copy))
			copy = NULL;
	}
	free(copy);
	strbuf_free(&text);
	return error;
}

void lttng_session_undo(const struct lttng_session *where, const struct lttng_rules *rules)
{
	for (size_t i = 0; i < rules->events.count; i++) {
		const char *words[WORDS_MAX];
		struct strbuf text = { 0 };
		int status;

		fill_words(where, "disable-event", rules->events.items[i], false, words);
		error_free(run((char *const *)words, &text, &status));
		strbuf_free(&text);
	}
}
