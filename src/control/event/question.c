#include "question.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum use { KEY = 1, VALUE = 2 };

static const struct {
	const char *text;
	enum question_kind kind;
	unsigned use;
} words[] = {
	{ "function", QUESTION_FUNCTION, KEY },	 { "ret", QUESTION_RET, KEY | VALUE },
	{ "$ret", QUESTION_RET, KEY | VALUE },	 { "duration", QUESTION_DURATION, VALUE },
	{ "$duration", QUESTION_DURATION, VALUE }, { "self", QUESTION_SELF, VALUE },
	{ "$tid", QUESTION_TID, KEY },		 { "$pid", QUESTION_PID, KEY },
	{ "$comm", QUESTION_COMM, KEY },	 { "$cpu", QUESTION_CPU, KEY },
	{ "caller", QUESTION_CALLER, KEY },	 { "backtrace", QUESTION_BACKTRACE, KEY },
};

static struct error *read_frames(const char *option, const char *text, unsigned *ret_frames)
{
	int used = 0;

	if (sscanf(text, "%3u%n", ret_frames, &used) == 1 && !text[used] && *ret_frames &&
	    *ret_frames <= QUESTION_FRAMES_MAX && text[0] != '+')
		return NULL;
	return error_new(ERROR_USAGE, "%s: 'backtrace:%s': give 1 to %u frames", option, text,
			 QUESTION_FRAMES_MAX);
}

/* Understands one word, without the space around it; `word` has a text. */
static struct error *classify(const char *option, enum use use, struct question_word *word)
{
	static const char backtrace[] = "backtrace:";

	word->kind = QUESTION_EXPRESSION;
	if (use == KEY && !strncmp(word->text, backtrace, sizeof(backtrace) - 1)) {
		word->kind = QUESTION_BACKTRACE;
		return read_frames(option, word->text + sizeof(backtrace) - 1, &word->frames);
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(words[i].text, word->text) != 0)
			continue;
		if (!(words[i].use & use))
			return error_new(ERROR_USAGE, use == KEY ?
				"%s: '%s' is no key (--of %s sums it up)" :
				"%s: '%s' is no value (--by %s groups by it)",
				option, word->text, word->text);
		word->kind = words[i].kind;
	}
	return NULL;
}

static struct error *read_word(const char *option, enum use use, const char *text, size_t length,
			       struct question_word *ret_word)
{
	while (length && text[0] == ' ')
		text++, length--;
	while (length && text[length - 1] == ' ')
		length--;
	if (!length)
		return error_new(ERROR_USAGE, "%s: an empty word (give %s)", option,
				 use == KEY ? "a field, $tid, ret, caller, ..." :
					      "duration, self, ret or a numeric field");
	ret_word->text = strndup(text, length);
	if (!ret_word->text)
		return error_new(ERROR_FAILED, "out of memory");
	return classify(option, use, ret_word);
}

/* Length up to the next comma that isn't inside of brackets or quotes. */
static size_t word_length(const char *text)
{
	unsigned depth = 0;
	char quote = 0;
	size_t i;

	for (i = 0; text[i] && (quote || depth || text[i] != ','); i++) {
		if (quote && text[i] == '\\' && text[i + 1])
			i++;
		else if (quote)
			quote = text[i] == quote ? 0 : quote;
		else if (text[i] == '"' || text[i] == '\'')
			quote = text[i];
		else if (strchr("([", text[i]))
			depth++;
		else if (strchr(")]", text[i]) && depth)
			depth--;
	}
	return i;
}

static struct error *read_keys(const char *by, struct question *question)
{
	struct error *error = NULL;

	for (bool more = true; more && !error;) {
		size_t length = word_length(by);

		if (question->key_count == QUESTION_KEYS_MAX)
			return error_new(ERROR_USAGE, "--by: at most %d keys", QUESTION_KEYS_MAX);
		error = read_word("--by", KEY, by, length, &question->keys[question->key_count++]);
		more = by[length] == ',';
		by += length + more;
	}
	return error;
}

struct error *question_parse(const char *by, const char *of, struct question *ret_question)
{
	struct question question = { 0 };
	struct error *error = by ? read_keys(by, &question) : NULL;

	if (!error && of)
		error = read_word("--of", VALUE, of, strlen(of), &question.value);
	if (error)
		question_free(&question);
	else
		*ret_question = question;
	return error;
}

void question_free(struct question *question)
{
	for (size_t i = 0; i < question->key_count; i++)
		free(question->keys[i].text);
	free(question->value.text);
	*question = (struct question){ 0 };
}
