/*
 * Runs a fuzzer's corpus as a plain test: every file named on the command line, and every file in a
 * folder named there, goes once through LLVMFuzzerTestOneInput. Fails if there was no file at all.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static size_t files;

static void run_file(const char *path, size_t size)
{
	FILE *file = fopen(path, "r");
	uint8_t *bytes =
		malloc(size ? size : 1); /* exactly: what is read beyond it is seen by ASan */

	if (!file || !bytes || fread(bytes, 1, size, file) != size) {
		fprintf(stderr, "cannot read %s\n", path);
		exit(1);
	}
	fclose(file);
	printf("%s\n", path);
	fflush(stdout);
	LLVMFuzzerTestOneInput(bytes, size);
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
	for (int i = 1; i < argc; i++)
		run_path(argv[i]);
	printf("%zu files\n", files);
	return files ? 0 : 1;
}
