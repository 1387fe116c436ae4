#include "trace_merge.h"

#include <string.h>

static void free_stream(struct trace_stream *stream)
{
	packet_cursor_free(&stream->cursor);
	free(stream->own);
	free(stream);
}

void trace_merge_free(struct trace_merge *merge)
{
	for (size_t i = 0; i < merge->streams.count; i++)
		free_stream(merge->streams.items[i]);
	vec_free(&merge->streams);
}

/* Goes on to the stream's next item; false: there is none. */
static bool advance(struct trace_stream *stream)
{
	const struct trace_layout *layout = &stream->input->layout;

	stream->item = packet_cursor_next(&stream->cursor);
	if (stream->item == CURSOR_EVENT)
		stream->ns = trace_layout_ns(layout, stream->cursor.cycles);
	else if (stream->item == CURSOR_LOST_EVENTS || stream->item == CURSOR_LOST_PACKETS)
		stream->ns = trace_layout_ns(layout, stream->cursor.lost_begin);
	return stream->item != CURSOR_END;
}

static bool is_before(const struct trace_stream *a, const struct trace_stream *b)
{
	if (a->ns != b->ns)
		return a->ns < b->ns;
	int order = memcmp(a->input->layout.uuid, b->input->layout.uuid,
			   sizeof(a->input->layout.uuid));
	return order ? order < 0 : a->file < b->file;
}

static void sift_down(struct trace_merge *merge, size_t at)
{
	struct trace_stream **heap = merge->streams.items;

	for (size_t child; (child = 2 * at + 1) < merge->streams.count; at = child) {
		if (child + 1 < merge->streams.count && is_before(heap[child + 1], heap[child]))
			child++;
		if (!is_before(heap[child], heap[at]))
			return;
		struct trace_stream *lower = heap[at];
		heap[at] = heap[child];
		heap[child] = lower;
	}
}

static struct error *add_stream(struct trace_merge *merge, const struct trace_input *input,
				size_t file)
{
	struct trace_stream *stream = calloc(1, sizeof(*stream));

	if (!stream || !trace_input_file(input, file, &stream->cursor)) {
		free(stream);
		return error_new(ERROR_FAILED, "out of memory");
	}
	stream->input = input;
	stream->file = file;
	if (!advance(stream)) {
		free_stream(stream);
		return NULL;
	}
	if (vec_push(&merge->streams, stream))
		return NULL;
	free_stream(stream);
	return error_new(ERROR_FAILED, "out of memory");
}

struct error *trace_merge_begin(struct trace_merge *merge, struct trace_input *const *inputs,
				size_t count)
{
	struct error *error = NULL;

	*merge = (struct trace_merge){ 0 };
	for (size_t i = 0; i < count; i++)
		for (size_t file = 0; file < inputs[i]->files.count && !error; file++)
			error = add_stream(merge, inputs[i], file);
	if (error) {
		trace_merge_free(merge);
		return error;
	}
	for (size_t i = merge->streams.count; i-- > 0;)
		sift_down(merge, i);
	return NULL;
}

struct trace_stream *trace_merge_next(struct trace_merge *merge)
{
	if (!merge->streams.count)
		return NULL;
	struct trace_stream *first = merge->streams.items[0];
	if (!merge->is_begun) {
		merge->is_begun = true;
		return first;
	}
	if (!advance(first)) {
		free_stream(first);
		merge->streams.items[0] = *vec_last(&merge->streams);
		merge->streams.count--;
	}
	sift_down(merge, 0);
	return merge->streams.count ? merge->streams.items[0] : NULL;
}
