#include "lttng_options.h"

#include <string.h>

#include "control/base/strbuf.h"
#include "control/event/lttng_identity.h"

static void add_word(struct strbuf *text, const char *word, const char *value)
{
	strbuf_printf(text, "%s%s%s", text->length ? "," : "", word, value);
}

struct error *lttng_options_argument(const struct lttng_args *args, const char *tracer,
				     const char *argument, char **ret_argument)
{
	const char *option = args->typed	 ? "--typed" :
			     args->loglevel	 ? "--loglevel" :
			     args->nowrite.count ? "--nowrite" :
						   NULL;
	struct strbuf text = { 0 };
	int level;
	struct error *error =
		args->loglevel ? lttng_identity_level(args->loglevel, &level) : NULL;

	if (error)
		return error_wrap(error, "--loglevel");
	if (option && (!tracer || strcmp(tracer, "lttng") != 0))
		return error_new(ERROR_USAGE, "%s: only with the tracer lttng", option);
	if (argument)
		add_word(&text, argument, "");
	if (args->typed)
		add_word(&text, "typed", "");
	if (args->loglevel)
		add_word(&text, "loglevel=", args->loglevel);
	for (size_t i = 0; i < args->nowrite.count; i++)
		add_word(&text, "nowrite=", args->nowrite.items[i].text);
	*ret_argument = text.text;
	return text.failed ? error_new(ERROR_FAILED, "out of memory") : NULL;
}
