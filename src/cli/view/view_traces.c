#include "view_traces.h"

#include <errno.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "control/base/cleanup.h"

void view_traces_free(struct traces *traces)
{
	for (size_t i = 0; i < traces->paths.count; i++)
		free(traces->paths.items[i]);
	vec_free(&traces->paths);
}

static void fts_closep(FTS **fts)
{
	if (*fts)
		fts_close(*fts);
}

static struct error *add_directory(struct traces *traces, const char *metadata)
{
	char *path = strndup(metadata, strlen(metadata) - strlen("/metadata"));

	if (path && vec_push(&traces->paths, path))
		return NULL;
	free(path);
	return error_new(ERROR_FAILED, "out of memory");
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

struct error *view_traces_find(const char *path, struct traces *ret_traces)
{
	char *roots[] = { (char *)path, NULL };
	_cleanup_(fts_closep) FTS *fts =
		fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
	_cleanup_(view_traces_free) struct traces traces = { 0 };

	for (FTSENT *entry; fts && (entry = fts_read(fts));) {
		if (entry->fts_level == 0 &&
		    (entry->fts_info == FTS_NS || entry->fts_info == FTS_DNR))
			return error_errno(entry->fts_errno, "cannot open the trace '%s'", path);
		if (entry->fts_level == 0 && entry->fts_info == FTS_F)
			return error_new(ERROR_FAILED, "'%s' is not a trace (give its directory)",
					 path);
		if (entry->fts_info != FTS_F)
			continue;
		traces.size += (uint64_t)entry->fts_statp->st_blocks * 512;
		if (strcmp(entry->fts_name, "metadata"))
			continue;
		traces.metadata += (uint64_t)entry->fts_statp->st_blocks * 512;
		struct error *error = add_directory(&traces, entry->fts_path);
		if (error)
			return error;
	}
	if (!traces.paths.count)
		return error_new(ERROR_FAILED,
				 "'%s' is not a trace (it has no file 'metadata')", path);
	*ret_traces = traces;
	traces = (struct traces){ 0 };
	return NULL;
}
