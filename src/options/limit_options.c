#include "limit_options.h"

const char *const limit_modes[] = { [SESSION_DISCARD] = "discard",
				    [SESSION_OVERWRITE] = "overwrite",
				    [SESSION_BLOCK] = "block",
				    NULL };

#define SIZE_LEAST (1u << 20) /* an eighth of it has room for a packet and its file's end */
#define FILES_MOST 10000u

struct error *limit_options_check(const struct limit_args *args, enum session_mode mode,
				  struct writer_limits *ret_limits)
{
	unsigned least = mode == SESSION_OVERWRITE ? 1 : 2; /* snapshots; pieces */

	if (args->max_size && args->max_size < SIZE_LEAST)
		return error_new(ERROR_USAGE, "--max-size: from 1M on");
	if (args->max_files && !args->max_size && !(args->rotate > 0) &&
	    mode != SESSION_OVERWRITE)
		return error_new(ERROR_USAGE,
				 "--max-files: needs --rotate TIME or --max-size SIZE");
	if (args->max_files && (args->max_files < least || args->max_files > FILES_MOST))
		return error_new(ERROR_USAGE, "--max-files: from %u to %u", least, FILES_MOST);
	if (args->max_size && args->max_files && args->max_size / args->max_files < SIZE_LEAST / 8)
		return error_new(ERROR_USAGE, "--max-files: at most %llu with this --max-size",
				 (unsigned long long)(args->max_size / (SIZE_LEAST / 8)));
	if (mode == SESSION_OVERWRITE && (args->max_size || args->rotate > 0))
		return error_new(ERROR_USAGE,
				 "%s: not with --mode overwrite, whose trace --buffer-size bounds",
				 args->max_size ? "--max-size" : "--rotate");
	if (mode == SESSION_OVERWRITE) /* its --max-files is for snapshots */
		return NULL;
	*ret_limits = (struct writer_limits){ .max_size = args->max_size,
					      .max_files = (uint32_t)args->max_files,
					      .rotate_ns = (uint64_t)(args->rotate * 1e9) };
	return NULL;
}

struct error *limit_options_check_recording(struct recording_args *args)
{
	return overhead_option_parse(args->overhead_text, &args->overhead);
}

void limit_options_write(const struct recording_args *args, struct wire_out *out)
{
	if (args->mode >= 0)
		wire_number(out, WIRE_MODE, (uint64_t)args->mode);
	if (args->buffer_size)
		wire_number(out, WIRE_BUFFER_SIZE, args->buffer_size);
	if (args->max_files)
		wire_number(out, WIRE_SNAPSHOTS_KEPT, args->max_files);
	if (args->overhead > 0)
		wire_number(out, WIRE_OVERHEAD, (uint64_t)(args->overhead * 1e6 + 0.5));
}
