/*
 * driver.c - runs a fuzzer's corpus as a plain test.
 *
 * Every file named on the command line, and every file in a folder named there, goes once through
 * LLVMFuzzerTestOneInput, and then in as many mutations as `--mutations N` says. Mutations depend
 * on the file's bytes and the mutation's number alone, so a failure comes again. `--only N` runs
 * that mutation of each file and no other. Fails if there was no file at all.
 */
#include <dirent.h>
#include <sys/stat.h>

#include "fuzz.h"

#define SIZE_MAX_GROWTH 64

static size_t files;
static unsigned long mutations, only;

/* ---- mutations ------------------------------------------------------------------------------- */

static uint64_t state;

/* xorshift64* */
static uint64_t next(void)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * 2685821657736338717ULL;
}

static uint64_t below(uint64_t limit)
{
	return limit ? next() % limit : 0;
}

static void overwrite(uint8_t *bytes, size_t size)
{
	static const uint64_t values[] = { 0,	   1,	       0x7f,	   0x80,	 0xff,
					   0x7fff, 0xffff,     0x7fffffff, 0xffffffff,	 1ULL << 32,
					   ~0ULL,  1ULL << 63, ~0ULL >> 1, 0x3030303030, 0x2020 };
	uint64_t value = values[below(sizeof(values) / sizeof(values[0]))] + below(3) - 1;
	size_t width = (size_t)1 << below(4), at = below(size);

	memcpy(bytes + at, &value, width < size - at ? width : size - at);
}

/* Moves a piece to another place, over what is there. */
static void copy_piece(uint8_t *bytes, size_t size)
{
	size_t from = below(size), to = below(size), room = size - (from > to ? from : to);

	memmove(bytes + to, bytes + from, below(room) + 1);
}

/* Opens or closes a gap. */
static size_t shift(uint8_t *bytes, size_t size)
{
	size_t at = below(size), by = below(SIZE_MAX_GROWTH / 8) + 1;

	if (below(2)) {
		memmove(bytes + at + by, bytes + at, size - at);
		return size + by;
	}
	by = by < size - at ? by : size - at;
	memmove(bytes + at, bytes + at + by, size - at - by);
	return size - by;
}

static size_t mutate(uint8_t *bytes, size_t size)
{
	size_t end = size + SIZE_MAX_GROWTH / 2;

	for (uint64_t left = 1 + below(6); left && size && size < end; left--) {
		switch (below(6)) {
		case 0:
			bytes[below(size)] ^= (uint8_t)(1 << below(8));
			break;
		case 1:
			bytes[below(size)] = (uint8_t)next();
			break;
		case 2:
			copy_piece(bytes, size);
			break;
		case 3:
			size = shift(bytes, size);
			break;
		case 4:
			size = below(8) ? size : below(size);
			break;
		default:
			overwrite(bytes, size);
		}
	}
	return size;
}

static uint64_t hash(const uint8_t *bytes, size_t size)
{
	uint64_t value = 14695981039346656037ULL;

	for (size_t i = 0; i < size; i++)
		value = (value ^ bytes[i]) * 1099511628211ULL;
	return value;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Exactly the bytes: what is read beyond them is seen by ASan. */
static void run(const uint8_t *bytes, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	REQUIRE(copy);
	memcpy(copy, bytes, size);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
}

static void run_mutation(const uint8_t *bytes, size_t size, unsigned long number)
{
	uint8_t *copy = malloc(size + SIZE_MAX_GROWTH);

	REQUIRE(copy);
	memcpy(copy, bytes, size);
	memset(copy + size, 0, SIZE_MAX_GROWTH);
	state = hash(bytes, size) + number * 0x9e3779b97f4a7c15ULL + 1;
	state = state ? state : 1;
	run(copy, mutate(copy, size));
	free(copy);
}

static void run_file(const char *path, size_t size)
{
	FILE *file = fopen(path, "r");
	uint8_t *bytes = malloc(size ? size : 1);

	if (!file || !bytes || fread(bytes, 1, size, file) != size) {
		fprintf(stderr, "cannot read %s\n", path);
		exit(1);
	}
	fclose(file);
	printf("%s\n", path);
	fflush(stdout);
	if (!only)
		run(bytes, size);
	for (unsigned long i = only ? only : 1; i <= (only ? only : mutations); i++) {
		/* overwritten by the next number: only the last one of a failure stays */
		fprintf(stderr, "\rmutation %lu", i);
		run_mutation(bytes, size, i);
	}
	fprintf(stderr, "\r");
	free(bytes);
	files++;
}

static void run_path(const char *path)
{
	struct dirent **entries;
	struct stat stat_of;
	int count;

	if (stat(path, &stat_of) != 0) {
		fprintf(stderr, "no such file: %s\n", path);
		exit(1);
	}
	if (!S_ISDIR(stat_of.st_mode)) {
		run_file(path, (size_t)stat_of.st_size);
		return;
	}
	count = scandir(path, &entries, NULL, alphasort);
	for (int i = 0; i < count; i++) {
		char inner[4096];

		snprintf(inner, sizeof(inner), "%s/%s", path, entries[i]->d_name);
		if (entries[i]->d_name[0] != '.')
			run_path(inner);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--mutations") && i + 1 < argc)
			mutations = strtoul(argv[++i], NULL, 10);
		else if (!strcmp(argv[i], "--only") && i + 1 < argc)
			only = strtoul(argv[++i], NULL, 10);
		else
			run_path(argv[i]);
	}
	printf("%zu files, %lu mutations of each\n", files, mutations);
	return files ? 0 : 1;
}
