#include "unpack.h"

#include <elf.h>
#include <zlib.h>
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

static bool unpack_zlib(const void *from, size_t from_size, void *to, size_t to_size)
{
	z_stream stream = { .next_in = (Bytef *)from,
			    .avail_in = (uInt)from_size,
			    .next_out = to,
			    .avail_out = (uInt)to_size };
	int status;

	if (from_size > UINT32_MAX || to_size > UINT32_MAX || inflateInit(&stream) != Z_OK)
		return false;
	status = inflate(&stream, Z_FINISH);
	inflateEnd(&stream);
	return status == Z_STREAM_END && stream.avail_out == 0;
}

#ifdef HAVE_ZSTD
static bool unpack_zstd(const void *from, size_t from_size, void *to, size_t to_size)
{
	return ZSTD_decompress(to, to_size, from, from_size) == to_size;
}
#endif

static bool (*const unpackers[])(const void *from, size_t from_size, void *to, size_t to_size) = {
	[ELFCOMPRESS_ZLIB] = unpack_zlib,
#ifdef HAVE_ZSTD
	[ELFCOMPRESS_ZSTD] = unpack_zstd,
#endif
};

bool unpack_knows(uint32_t type)
{
	return type < sizeof(unpackers) / sizeof(unpackers[0]) && unpackers[type];
}

bool unpack(uint32_t type, const void *from, size_t from_size, void *to, size_t to_size)
{
	return unpack_knows(type) && unpackers[type](from, from_size, to, to_size);
}
