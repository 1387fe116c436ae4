/* Data to find by name: members, elements, pointers, statics, globals. */
#include <stddef.h>
#include <stdlib.h>

enum colour { RED, GREEN, BLUE };

struct header {
	const char *name;
	const char *value;
};

struct request {
	int id;
	const char *path;
	struct header headers[2];
	struct request *next;
	unsigned flags : 3;
	enum colour colour;
};

static int hidden = 7;
long visible = -5;
short table[] = { 10, 20, 30 };

__attribute__((noinline)) int serve(struct request *req, int number)
{
	hidden++;
	return req->id + number + table[number];
}

int main(void)
{
	struct request first = {
		1, "/index.html", { { "A", "b" }, { "Host", "example.org" } }, NULL, 5, BLUE
	};
	struct request second = {
		2, "/two", { { "C", "d" }, { "Accept", "*/*" } }, &first, 2, RED
	};

	return serve(&first, 1) + serve(&second, 2) + (int)visible == 0;
}
