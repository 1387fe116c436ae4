#include "walk.h"

#include <assert.h>
#include <immintrin.h>

#include "shared/program.h"

/* Only an enemy fills more holes than that in one chunk while we look. */
#define WALK_FILLS_MAX 64
#define ID_MASK (DT_EVENT_ID_MASK | DT_EVENT_PENDING)
#define COPY_WORDS 4 /* that walk_copy copies at a time */
#define RUN_EVENTS 4
#define TAKE_BYTES 64u /* of fields that walk_take_short looks at: a bit for each */
#define TAKE_WORDS (2 + TAKE_BYTES / 8)

static inline uint64_t walk_load(const uint64_t *from)
{
	return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}

static inline bool walk_is_variable(const struct walk *walk, uint64_t id)
{
	return id < walk->id_count && (walk->sizes[id] & WALK_VARIABLE);
}

/* By bytes: an event's size needn't be divided first, for which the next one would wait. */
static inline const uint64_t *walk_past(const uint64_t *from, size_t bytes)
{
	return (const uint64_t *)((const char *)from + bytes);
}

/* In words; 0: unknown event, or variable size. */
static inline size_t walk_size(const struct walk *walk, uint64_t id)
{
	return id < walk->id_count && !(walk->sizes[id] & WALK_VARIABLE) ? walk->sizes[id] / 8 : 0;
}

static enum walk_stop walk_judge(const struct walk *walk, uint64_t header)
{
	size_t words = walk_size(walk, header & DT_EVENT_ID_MASK);

	if (!header)
		return WALK_EMPTY;
	if ((header & DT_EVENT_PENDING) && walk_is_variable(walk, header & DT_EVENT_ID_MASK))
		return WALK_PENDING; /* walk_pending tells how long it is */
	return (header & DT_EVENT_PENDING) && words && words <= walk->words ? WALK_PENDING :
									      WALK_BROKEN;
}

/* Loads four headers, once: the asm keeps the compiler from reading the memory again, which may
 * have changed. */
__attribute__((target("avx2"))) static inline __m256i walk_load4(const uint64_t *from)
{
	__m256i lanes = _mm256_loadu_si256((const __m256i *)from);

	__asm__ volatile("" : "+x"(lanes));
	return lanes;
}

/*
 * Copies events that are a header and nothing else, all of one kind, eight at a time. Valid headers
 * go to the trace as they were loaded, since it has the same 40 bits of the clock. The difference
 * of two headers with the same id is that of their clocks, and negative if the clock stepped back
 * (H19). Returns the number of copied events.
 */
__attribute__((target("avx2"))) static size_t walk_bare(const uint64_t *from, uint64_t *to,
							size_t words, uint64_t id, uint64_t *clock)
{
	const __m256i ids = _mm256_set1_epi64x((int64_t)id), mask = _mm256_set1_epi64x(ID_MASK);
	const __m256i sign = _mm256_set1_epi64x(INT64_MIN), none = _mm256_setzero_si256();
	__m256i ahead = none,
		turned = _mm256_set1_epi64x((int64_t)(*clock << DT_EVENT_ID_BITS | id));
	uint64_t sums[4];
	size_t at = 0;

	for (; at + 8 <= words; at += 8) {
		__m256i a = walk_load4(from + at), b = walk_load4(from + at + 4);
		__m256i turned_a = _mm256_permute4x64_epi64(a, 0x93),
			turned_b = _mm256_permute4x64_epi64(b, 0x93);
		__m256i step_a = _mm256_sub_epi64(a, _mm256_blend_epi32(turned_a, turned, 3));
		__m256i step_b = _mm256_sub_epi64(b, _mm256_blend_epi32(turned_b, turned_a, 3));
		__m256i other = _mm256_or_si256(_mm256_xor_si256(_mm256_and_si256(a, mask), ids),
						_mm256_xor_si256(_mm256_and_si256(b, mask), ids));
		__m256i back = _mm256_and_si256(_mm256_or_si256(step_a, step_b), sign);
		__m256i empty =
			_mm256_or_si256(_mm256_cmpeq_epi64(a, none), _mm256_cmpeq_epi64(b, none));
		__m256i wrong = _mm256_or_si256(_mm256_or_si256(other, back), empty);

		if (!_mm256_testz_si256(wrong, wrong))
			break;
		_mm256_storeu_si256((__m256i *)(to + at), a);
		_mm256_storeu_si256((__m256i *)(to + at + 4), b);
		ahead = _mm256_add_epi64(
			ahead, _mm256_add_epi64(_mm256_srli_epi64(step_a, DT_EVENT_ID_BITS),
						_mm256_srli_epi64(step_b, DT_EVENT_ID_BITS)));
		turned = turned_b;
	}
	_mm256_storeu_si256((__m256i *)sums, ahead);
	*clock += sums[0] + sums[1] + sums[2] + sums[3];
	return at;
}

/* Copies the words behind a header. Copies more where that stays within the `left` words: the next
 * event overwrites it, and copies of one length need no branches that depend on the event. */
static inline void walk_copy(uint64_t *to, const uint64_t *from, size_t words, size_t left)
{
	if (words + COPY_WORDS > left) {
		for (size_t i = 1; i < words; i++)
			to[i] = __atomic_load_n(from + i, __ATOMIC_RELAXED);
		return;
	}
	for (size_t i = 1; i < words; i += COPY_WORDS) {
		__m128i low = _mm_loadu_si128((const __m128i *)(from + i));
		__m128i high = _mm_loadu_si128((const __m128i *)(from + i + 2));

		_mm_storeu_si128((__m128i *)(to + i), low);
		_mm_storeu_si128((__m128i *)(to + i + 2), high);
	}
}

/* Notes the length of so many events. Returns the place of the next one's. */
static uint16_t *walk_note(uint16_t *lengths, size_t count, size_t words)
{
	const __m128i eight = _mm_set1_epi16((short)words);

	for (; count >= 8; count -= 8, lengths += 8)
		_mm_storeu_si128((__m128i *)lengths, eight);
	while (count--)
		*lengths++ = (uint16_t)words;
	return lengths;
}

/*
 * Copies a run of events of one kind, which is usual: as long as the id stays the same, its size
 * needn't be looked up, so the next header can be loaded before this one is judged. Uses locals,
 * because the compiler must assume that `to` may point into *walk.
 */
static inline void walk_run(struct walk *walk, uint64_t id, size_t words)
{
	const uint64_t *from = walk->from;
	uint64_t *to = walk->to;
	uint64_t clock = walk->clock, count = 0, back = 0;
	size_t left = walk->words;

	if (words == 1 && __builtin_cpu_supports("avx2")) {
		count = walk_bare(from, to, left, id, &clock);
		from += count;
		to += count;
		left -= count;
	}
	for (; left >= words; left -= words, from += words, to += words, count++) {
		uint64_t header = walk_load(from);

		if ((header & ID_MASK) != id || !header)
			break;
		uint64_t ahead = walk_ahead(header, clock);
		/* A step back (another CPU's clock, an enemy) would look like nearly 2^40 ahead
		 * (H19). */
		if (__builtin_expect(ahead >> DT_CLOCK_GAP_SHIFT, 0)) {
			ahead = 0;
			back++;
		}
		clock += ahead;
		*to = clock << DT_EVENT_ID_BITS | id;
		walk_copy(to, from, words, left);
	}
	walk->from = from;
	walk->to = to;
	if (walk->lengths)
		walk->lengths = walk_note(walk->lengths, count, words);
	walk->words = left;
	walk->clock = clock;
	walk->stepped_back += back;
	walk->count += count;
	walk->hits[id] += count;
	if (count)
		walk->last_id = (uint32_t)id;
}

/* Bytes of a copied event of variable size; 0: it doesn't match its type. */
static inline size_t walk_measure(const struct walk *walk, uint64_t id, const uint64_t *event,
				  size_t size)
{
	const struct event_type *type = &walk->types->items[id];

	if (type->is_pair)
		event_measure_pair(type, event, size, &size);
	else
		size = event_measure(type, event, size);
	return size;
}

/* Copies the fields of an event of variable size, without its size word. Returns the bytes that it
 * takes in the chunk; 0: it doesn't match its type. *ret_size: those of the copy, with a header. */
static inline size_t walk_take(const struct walk *walk, uint64_t id, const uint64_t *from,
			       uint64_t *to, size_t left, size_t *ret_size)
{
	uint64_t word = left >= 2 ? walk_load(from + 1) : 0;
	size_t size = dt_event_size(word), span = dt_event_span(word);
	size_t words = (size + 7) / 8;

	if (size < 16 || size > DT_EVENT_SIZE_MAX || span % 8 || span / 8 < words ||
	    span > DT_EVENT_SIZE_MAX || span / 8 > left)
		return 0;
	for (size_t i = 2; i < words; i++)
		to[i - 1] = __atomic_load_n(from + i, __ATOMIC_RELAXED);
	*ret_size = size - 8;
	return walk_measure(walk, id, to, (words - 1) * 8) == *ret_size ? span : 0;
}

/* Copies 16 bytes. A bit for each that is 0. */
static inline uint64_t walk_copy_16(const uint64_t *from, uint64_t *to)
{
	__m128i bytes = _mm_loadu_si128((const __m128i *)from);

	__asm__ volatile("" : "+x"(bytes)); /* not read again: the memory may have changed */
	_mm_storeu_si128((__m128i *)to, bytes);
	return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_setzero_si128()));
}

/*
 * As walk_take, with at least TAKE_WORDS left, for an event of that size or less: looks for the
 * ends of all strings at once, in the registers that copy it. (A string that was stored a moment
 * before costs more to read again than to copy.) 0: it is longer, or doesn't match its type.
 */
static inline size_t walk_take_short(uint32_t kind, const uint64_t *from, uint64_t *to, size_t left,
				     size_t *ret_size)
{
	uint64_t word = walk_load(from + 1);
	size_t span = word >> DT_SPAN_SHIFT, size = dt_event_size(word);

	if (!span) { /* as dt_event_span, but without a choice between two values to wait for */
		span = (size + 7) & ~(size_t)7;
		__asm__ volatile("" : "+r"(span));
	}
	uint32_t texts = WALK_TEXTS(kind), at = WALK_FIXED(kind) - 8;
	uint64_t zeroes = walk_copy_16(from + 2, to + 1);

	zeroes |= walk_copy_16(from + 4, to + 3) << 16;
	zeroes |= walk_copy_16(from + 6, to + 5) << 32;
	zeroes |= walk_copy_16(from + 8, to + 7) << 48;
	for (; texts && at < TAKE_BYTES && zeroes >> at; texts--)
		at += (uint32_t)__builtin_ctzll(zeroes >> at) + 1;
	if (texts || at + 16 != size || span % 8 || span < size || span > DT_EVENT_SIZE_MAX ||
	    span / 8 > left)
		return 0;
	*ret_size = size - 8;
	return span;
}

/* As walk_take, by the shorter way if it can go there. */
static inline size_t walk_take_texts(const struct walk *walk, uint64_t id, const uint64_t *from,
				     uint64_t *to, size_t left, size_t *ret_size)
{
	uint32_t kind = walk->sizes[id];
	size_t span = WALK_TEXTS(kind) && left >= TAKE_WORDS ?
			      walk_take_short(kind, from, to, left, ret_size) :
			      0;

	return span ? span : walk_take(walk, id, from, to, left, ret_size);
}

/* Copies a run of short events of one kind whose fields that vary are strings, as walk_run does
 * with those of fixed size. Not the first event of a walk. False: it can't copy one. */
static bool walk_run_texts(struct walk *walk, uint64_t id)
{
	const uint64_t *from = walk->from;
	uint32_t kind = walk->sizes[id];
	uint64_t *to = walk->to;
	uint16_t *lengths = walk->lengths;
	uint64_t clock = walk->clock, count = 0;
	size_t left = walk->words, size = 0;

	while (left >= TAKE_WORDS) {
		uint64_t header = walk_load(from), ahead = walk_ahead(header, clock);

		if ((header & ID_MASK) != id || !header || ahead >> DT_CLOCK_GAP_SHIFT)
			break;
		size_t span = walk_take_short(kind, from, to, left, &size);
		if (!span)
			break;
		clock += ahead;
		*to = clock << DT_EVENT_ID_BITS | id;
		if (lengths)
			*lengths++ = (uint16_t)((size + 7) / 8);
		from = walk_past(from, span);
		to += (size + 7) / 8;
		left -= span / 8;
		count++;
	}
	if (count) {
		walk->last_id = (uint32_t)id;
		walk->last_padding = (uint32_t)(-size % 8);
	}
	walk->from = from;
	walk->to = to;
	walk->words = left;
	walk->clock = clock;
	walk->count += count;
	walk->hits[id] += count;
	walk->lengths = lengths;
	return count;
}

/* Copies events until one comes that isn't complete or doesn't match, or is the RUN_EVENTS-th of
 * its kind: then walk_run and walk_run_texts are faster. Not the first event of a walk. Uses
 * locals, as walk_run does. */
static void walk_mixed(struct walk *walk)
{
	const uint64_t *from = walk->from;
	const uint32_t *sizes = walk->sizes;
	uint64_t *to = walk->to, *hits = walk->hits;
	uint64_t clock = walk->clock, count = 0, last = walk->last_id;
	uint32_t id_count = walk->id_count;
	size_t left = walk->words, same = 0, padding = walk->last_padding;
	uint16_t *lengths = walk->lengths;

	while (left && same < RUN_EVENTS) {
		uint64_t header = walk_load(from), id = header & ID_MASK;

		if (id >= id_count || !header) /* a pending one has an id beyond all */
			break;
		size_t span = sizes[id], size = span;
		uint64_t ahead = walk_ahead(header, clock);
		if (ahead >> DT_CLOCK_GAP_SHIFT)
			break;
		if (size & WALK_VARIABLE) {
			span = walk_take_texts(walk, id, from, to, left, &size);
			if (!span)
				break;
			padding = -size % 8;
		} else if (size / 8 - 1 >= left) { /* unknown, or it isn't all there */
			break;
		} else {
			walk_copy(to, from, size / 8, left);
		}
		if (lengths)
			*lengths++ = (uint16_t)((size + 7) / 8);
		same = id == last && sizes[id] != WALK_VARIABLE ? same + 1 : 0;
		clock += ahead;
		*to = clock << DT_EVENT_ID_BITS | id;
		hits[id]++;
		last = id;
		from = walk_past(from, span);
		to += (size + 7) / 8;
		left -= span / 8;
		count++;
	}
	walk->from = from;
	walk->to = to;
	walk->words = left;
	walk->clock = clock;
	walk->count += count;
	walk->last_id = (uint32_t)last;
	walk->last_padding = (uint32_t)padding;
	walk->lengths = lengths;
}

/* Copies the first event alone, for its clock. */
static void walk_first(struct walk *walk, uint64_t id, size_t words)
{
	size_t rest = walk->words - words;

	walk->words = words;
	walk_run(walk, id, words);
	if (walk->count)
		walk->first_clock = walk->clock;
	walk->words += rest;
}

/* Counts an event, and returns its header for the trace. */
static uint64_t walk_stamp(struct walk *walk, uint64_t header, uint64_t id)
{
	uint64_t ahead = walk_ahead(header, walk->clock);

	if (ahead >> DT_CLOCK_GAP_SHIFT) {
		ahead = 0;
		walk->stepped_back++;
	}
	walk->clock += ahead;
	if (!walk->count++)
		walk->first_clock = walk->clock;
	walk->hits[id]++;
	walk->last_id = (uint32_t)id;
	return walk->clock << DT_EVENT_ID_BITS | id;
}

/* Copies an event of variable size. False: it doesn't match its type. */
static bool walk_variable(struct walk *walk, uint64_t header, uint64_t id)
{
	size_t size, span = walk_take(walk, id, walk->from, walk->to, walk->words, &size);

	if (!span)
		return false;
	walk->to[0] = walk_stamp(walk, header, id);
	walk->last_padding = (uint32_t)(-size % 8);
	if (walk->lengths)
		*walk->lengths++ = (uint16_t)((size + 7) / 8);
	walk->from = walk_past(walk->from, span);
	walk->to += (size + 7) / 8;
	walk->words -= span / 8;
	return true;
}

void walk_on(struct walk *walk)
{
	while (walk->words) {
		if (walk->count)
			walk_mixed(walk);
		if (!walk->words)
			break;
		uint64_t header = walk_load(walk->from);
		uint64_t id = header & ID_MASK;
		size_t words = walk_size(walk, id);

		if (header && walk_is_variable(walk, id)) {
			if ((walk->count && walk_run_texts(walk, id)) ||
			    walk_variable(walk, header, id))
				continue;
			walk->stop = WALK_BROKEN;
			walk->stopped_by = header;
			return;
		}
		if (!header || !words || words > walk->words) {
			walk->stop = walk_judge(walk, header);
			walk->stopped_by = header;
			return;
		}
		size_t left = walk->words;
		if (!walk->count)
			walk_first(walk, id, words);
		else if (words == 1)
			walk_run(walk, id, 1);
		else
			walk_run(walk, id, words);
		if (walk->words == left) {
			/* Only an enemy changes a complete event. */
			walk->stop = WALK_BROKEN;
			return;
		}
	}
	walk->stop = WALK_END;
}

void walk_events(struct walk *walk)
{
	walk->count = 0;
	walk_on(walk);
}

void walk_uncount(struct walk *walk, const uint64_t *events, uint64_t count)
{
	for (; count; count--) {
		uint64_t id = *events & ID_MASK;

		walk->hits[id]--;
		if (walk_is_variable(walk, id))
			events += (walk_measure(walk, id, events, DT_EVENT_SIZE_MAX) + 7) / 8;
		else
			events += walk_size(walk, id);
	}
}

/* Number of words up to `end` or, after `first`, to one that isn't 0. 0: a thread filled one of
 * them while we looked at later words, so an apparent header after it may be part of that event. */
static size_t walk_hole(const struct walk *walk, size_t first, size_t end)
{
	size_t words = first;

	while (words < end && !walk_load(walk->from + words))
		words++;
	for (size_t i = first; i < words; i++) {
		if (walk_load(walk->from + i))
			return 0;
	}
	return words;
}

/* Number of words of a pending event. 0: look again. */
static size_t walk_pending(const struct walk *walk)
{
	uint64_t id = walk->stopped_by & DT_EVENT_ID_MASK;

	if (!walk_is_variable(walk, id))
		return walk_size(walk, id);
	uint64_t word = walk->words >= 2 ? walk_load(walk->from + 1) : 0;
	size_t size = dt_event_size(word), span = dt_event_span(word);
	if (!span) /* without a room it has no fields yet */
		return walk_hole(walk, 1, walk->words);
	if (span % 8 || span / 8 > walk->words || size > span)
		return walk->words;
	/* the rest of its room may have been given back, and used again (B10) */
	return size ? walk_hole(walk, (size + 7) / 8, span / 8) : span / 8;
}

bool walk_skip(struct walk *walk)
{
	size_t words = walk->words;

	if (walk->stop == WALK_PENDING)
		words = walk_pending(walk);
	else if (walk->stop == WALK_EMPTY)
		words = walk_hole(walk, 0, walk->words);
	if (!words && walk->fills++ < WALK_FILLS_MAX)
		return false;
	if (!words || words > walk->words)
		words = walk->words;
	assert(words <= walk->words);
	walk->from += words;
	walk->words -= words;
	return true;
}
