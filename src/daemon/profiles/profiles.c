#include "profiles.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/base/cleanup.h"

#define SUFFIX ".conf"
#define FILES_MOST 256

/* (D16) */
static struct error *check_owner(const struct stat *st, const char *path)
{
	if (st->st_uid != 0 && st->st_uid != geteuid())
		return error_new(ERROR_NOT_PERMITTED,
				 "%s: not used: it belongs to user %u (chown root %s)", path,
				 st->st_uid, path);
	if (st->st_mode & (S_IWGRP | S_IWOTH))
		return error_new(ERROR_NOT_PERMITTED,
				 "%s: not used: others may write to it (chmod go-w %s)", path, path);
	return NULL;
}

/* Follows links: those of the folder are its owner's, and what they lead to is looked at. */
static struct error *read_file(int folder, const char *name, const char *path,
			       struct profile_requests *requests)
{
	_cleanup_close_ int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return error_errno(errno, "cannot read %s", path);
	if (!S_ISREG(st.st_mode))
		return error_new(ERROR_USAGE, "%s: not used: it isn't a file", path);
	struct error *error = check_owner(&st, path);
	if (error)
		return error;
	_cleanup_fclose_ FILE *file = fdopen(fd, "r");
	if (!file)
		return error_errno(errno, "cannot read %s", path);
	take_fd(&fd);
	return profile_options_read(file, path, requests);
}

static void note_error(struct profiles *profiles, struct error *error)
{
	char *text = strdup(error_text(error));

	error_free(error);
	if (!text || !vec_push(&profiles->errors, text))
		free(text);
}

static int is_profile(const struct dirent *entry)
{
	size_t length = strlen(entry->d_name), suffix = strlen(SUFFIX);

	return entry->d_name[0] != '.' && length > suffix &&
	       !strcmp(entry->d_name + length - suffix, SUFFIX);
}

static struct error *read_all(int folder, const char *path, struct profiles *profiles)
{
	struct dirent **entries = NULL;
	int count = scandirat(folder, ".", &entries, is_profile, alphasort);

	if (count < 0)
		return error_errno(errno, "cannot read %s", path);
	for (int i = 0; i < count; i++) {
		_cleanup_free_ char *whole = NULL;
		struct error *error = NULL;

		if (i >= FILES_MOST)
			error = error_new(ERROR_USAGE, "%s/%s: not used: more than %d files", path,
					  entries[i]->d_name, FILES_MOST);
		else if (asprintf(&whole, "%s/%s", path, entries[i]->d_name) < 0)
			error = error_new(ERROR_FAILED, "out of memory");
		else
			error = read_file(folder, entries[i]->d_name, whole, &profiles->requests);
		profiles->files += !error;
		if (error)
			note_error(profiles, error); /* D17 */
		free(entries[i]);
	}
	free(entries);
	return NULL;
}

void profiles_read(const char *folder, struct profiles *ret_profiles)
{
	_cleanup_close_ int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct error *error = NULL;
	struct stat st;

	*ret_profiles = (struct profiles){ 0 };
	if (fd < 0 && errno == ENOENT)
		return;
	if (fd < 0 || fstat(fd, &st))
		error = error_errno(errno, "cannot read %s", folder);
	if (!error)
		error = check_owner(&st, folder);
	if (!error)
		error = read_all(fd, folder, ret_profiles);
	if (error)
		note_error(ret_profiles, error);
	assert(ret_profiles->files <= FILES_MOST);
}

void profiles_free(struct profiles *profiles)
{
	for (size_t i = 0; i < profiles->requests.count; i++)
		free(profiles->requests.items[i].bytes);
	vec_free(&profiles->requests);
	for (size_t i = 0; i < profiles->errors.count; i++)
		free(profiles->errors.items[i]);
	vec_free(&profiles->errors);
}
