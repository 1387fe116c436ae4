#include "top_terminal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "cli/trace/trace_begin.h"
#include "control/base/plain_text.h"
#include "options/commands.h"

#define USUAL_WIDTH 80
#define USUAL_HEIGHT 24
#define ESCAPE 27

static struct termios before;
static bool has_keys, is_on;
static unsigned width = USUAL_WIDTH, height = USUAL_HEIGHT;
static unsigned char pressed[64]; /* read and not used yet */
static size_t pressed_count, pressed_at;

bool top_terminal_is_usable(void)
{
	const char *terminal = getenv("TERM");

	return isatty(STDOUT_FILENO) && terminal && *terminal && strcmp(terminal, "dumb") != 0;
}

static bool write_all(const char *text, size_t length)
{
	while (length) {
		ssize_t n = write(STDOUT_FILENO, text, length);

		/* A terminal that was stopped by Ctrl-S takes nothing: Ctrl-C ends the wait. */
		if (n < 0 && errno == EINTR && !trace_must_stop())
			continue;
		if (n < 0)
			return false;
		text += n;
		length -= (size_t)n;
	}
	return true;
}

void top_terminal_begin(void)
{
	static const char begin[] = "\33[?1049h\33[?25l"; /* the other screen, no cursor */
	struct termios raw;

	has_keys = isatty(STDIN_FILENO) && !tcgetattr(STDIN_FILENO, &before);
	if (has_keys) {
		raw = before;
		raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		raw.c_cc[VMIN] = raw.c_cc[VTIME] = 0;
		raw.c_cc[VSUSP] = _POSIX_VDISABLE; /* a stopped top would keep the screen */
		tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
	}
	is_on = true;
	write_all(begin, sizeof(begin) - 1);
}

void top_terminal_end(void)
{
	static const char end[] = "\33[?25h\33[?1049l";

	if (!is_on)
		return;
	is_on = false;
	write_all(end, sizeof(end) - 1);
	if (has_keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

bool top_terminal_size(unsigned *ret_width, unsigned *ret_height)
{
	struct winsize size = { 0 };
	unsigned old_width = width, old_height = height;

	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col && size.ws_row) {
		width = size.ws_col;
		height = size.ws_row;
	}
	*ret_width = width;
	*ret_height = height;
	return width != old_width || height != old_height;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static int next_byte(void)
{
	if (pressed_at == pressed_count) {
		ssize_t n = has_keys ? read(STDIN_FILENO, pressed, sizeof(pressed)) : 0;

		pressed_at = 0;
		pressed_count = n > 0 ? (size_t)n : 0;
	}
	return pressed_at < pressed_count ? pressed[pressed_at++] : TOP_NO_KEY;
}

/* The rest of a sequence that began with an escape. */
static int read_sequence(void)
{
	int key = next_byte();

	if (key != '[' && key != 'O')
		return TOP_ESCAPE;
	key = next_byte();
	if (key == 'A' || key == 'B')
		return key == 'A' ? TOP_UP : TOP_DOWN;
	int last = key;
	while (last != TOP_NO_KEY && last != '~' && (last < '@' || last > 'z'))
		last = next_byte();
	return key == '5' ? TOP_PAGE_UP : key == '6' ? TOP_PAGE_DOWN : TOP_NO_KEY;
}

int top_terminal_key(void)
{
	int key = next_byte();

	return key == ESCAPE ? read_sequence() : key;
}

/* ---- screen ---------------------------------------------------------------------------------- */

void top_terminal_mark(struct strbuf *lines, char look)
{
	strbuf_add(lines, &look, 1);
}

/* Bytes of the line's first `columns` characters. */
static size_t cut(const char *line, size_t length, unsigned columns)
{
	unsigned used = 0;

	for (size_t i = 0; i < length; i++) {
		bool begins = ((unsigned char)line[i] & 0xc0) != 0x80;

		if (begins && used++ == columns)
			return i;
	}
	return length;
}

static void add_line(struct strbuf *screen, const char *line, size_t length)
{
	char look = length ? line[0] : 0;

	/* before the text: behind a full line it would take the last character */
	text_add(screen, "\33[2K");
	if (look == TOP_TITLE || look == TOP_SELECTED) {
		line++;
		length--;
		text_add(screen, look == TOP_TITLE ? "\33[1m" : "\33[7m");
	}
	strbuf_add(screen, line, cut(line, length, width));
	text_add(screen, "\33[0m");
}

bool top_terminal_draw(const struct strbuf *lines)
{
	struct strbuf screen = { 0 };
	const char *at = lines->text ? lines->text : "", *end = at + lines->length;

	text_add(&screen, "\33[H");
	unsigned row;
	for (row = 0; row < height && at < end; row++) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		size_t length = stop ? (size_t)(stop - at) : (size_t)(end - at);

		if (row)
			text_add(&screen, "\r\n");
		add_line(&screen, at, length);
		at += length + 1;
	}
	if (row < height)
		text_add(&screen, row ? "\r\n\33[J" : "\33[J");
	bool written = !screen.failed && write_all(screen.text, screen.length);
	strbuf_free(&screen);
	return written;
}
