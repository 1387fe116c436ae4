/*
 * requests.c - parts of requests and answers that all clients write and read alike.
 */
#include "client.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "control/base/cleanup.h"

struct error *client_absolute(const char *path, char **ret_path)
{
	_cleanup_free_ char *here = path[0] == '/' ? NULL : getcwd(NULL, 0);
	size_t length;

	if (path[0] != '/' && !here)
		return error_errno(errno, "getcwd");
	while (path[0] == '.' && path[1] == '/')
		path += 1 + strspn(path + 1, "/");
	length = strlen(path);
	while (length > 1 && path[length - 1] == '/')
		length--;
	if (asprintf(ret_path, "%s%s%.*s", here ? here : "", here ? "/" : "", (int)length, path) <
	    0) {
		*ret_path = NULL;
		return error_new(ERROR_FAILED, "out of memory");
	}
	return NULL;
}

struct error *client_absolute_library(const char *name, char **ret_path)
{
	if (strchr(name, '/') || !access(name, F_OK))
		return client_absolute(name, ret_path);
	*ret_path = strdup(name);
	return *ret_path ? NULL : error_new(ERROR_FAILED, "out of memory");
}

struct error *client_absolute_function(const char *argument, char **ret_argument)
{
	const char *colon = strrchr(argument, ':');
	_cleanup_free_ char *library = colon ? strndup(argument, (size_t)(colon - argument)) : NULL,
			    *path = NULL;

	if (!library)
		return error_new(ERROR_USAGE, "'%s' is not LIBRARY:FUNCTION", argument);
	struct error *error = client_absolute_library(library, &path);
	if (!error && asprintf(ret_argument, "%s%s", path, colon) < 0) {
		*ret_argument = NULL;
		error = error_new(ERROR_FAILED, "out of memory");
	}
	return error;
}

struct error *client_write_arguments(struct wire_out *out, const char *tracer,
				     char *const *arguments, size_t count)
{
	bool is_file = !tracer || !strcmp(tracer, "ctf") || !strcmp(tracer, "log");
	bool is_call = tracer && !strcmp(tracer, "call");
	bool is_lttng = tracer && !strcmp(tracer, "lttng");

	if ((is_file || is_call || is_lttng) && count > 1)
		return error_new(ERROR_USAGE, "the tracer '%s' takes one argument, not '%s'",
				 tracer ? tracer : "ctf", arguments[1]);
	for (size_t i = 0; i < count; i++) {
		_cleanup_free_ char *absolute = NULL;
		struct error *error = is_file ? client_absolute(arguments[i], &absolute) :
				      is_call ? client_absolute_function(arguments[i], &absolute) :
						NULL;

		if (error)
			return error;
		wire_text(out, WIRE_ARGUMENT, absolute ? absolute : arguments[i]);
	}
	return NULL;
}

const char *client_tracepoint_state(const struct wire_message *item)
{
	const char *how = wire_get_text(item, WIRE_HOW), *state = wire_get_text(item, WIRE_STATE);

	if (wire_get_number(item, WIRE_STATIC, 0))
		return "static";
	if (!how && state)
		return strncmp(state, "waiting", strlen("waiting")) ? "refused" : "waiting";
	if (how && !strcmp(how, "waiting"))
		return "waiting";
	return wire_get_number(item, WIRE_DISABLED, 0) ? "disabled" : "enabled";
}
