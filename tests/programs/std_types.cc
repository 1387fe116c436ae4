/*
 * Containers, optional values and pointers of libstdc++ as arguments; containers that make no sense;
 * a container that another thread changes.
 */
#include <array>
#include <cstring>
#include <atomic>
#include <thread>
#include <tuple>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>
#include <emmintrin.h>

struct point {
	int x, y;
};

struct node {
	int id;
	std::string name;
	node *next;
	std::vector<int> numbers;
};

struct big {
	__int128 number;
	std::vector<int> numbers;
};

volatile int sink;
#define CALLED __attribute__((noinline))

CALLED void rows(const std::vector<int> &ints, const std::vector<std::string> &texts, std::vector<point> points,
		 const std::vector<bool> &bits)
{
	sink += ints.size() + texts.size() + points.size() + bits.size();
}

CALLED void nested(const std::vector<std::vector<int>> &rows, const std::map<std::string, std::vector<short>> &named)
{
	sink += rows.size() + named.size();
}

CALLED void trees(const std::map<std::string, int> &map, const std::set<long> &set, const std::multimap<int, double> &multi)
{
	sink += map.size() + set.size() + multi.size();
}

CALLED void hashes(const std::unordered_map<int, std::string> &map, const std::list<int> &list, const std::deque<long> &deque)
{
	sink += map.size() + list.size() + deque.size();
}

CALLED void maybes(std::optional<int> number, const std::optional<std::string> &text, std::optional<int> none)
{
	sink += number.value_or(0) + text.has_value() + none.has_value();
}

CALLED void owned(std::unique_ptr<point> unique, const std::shared_ptr<node> &shared, std::shared_ptr<point> empty,
		  std::unique_ptr<int> number)
{
	sink += unique->x + shared->id + !empty + *number;
}

CALLED void plain(char letter, const point &object, const node *pointer, std::string_view view, node *none)
{
	sink += letter + object.x + pointer->id + view.size() + !none;
}

CALLED void wide(__int128 number, unsigned __int128 natural, __m128d doubles, __m128 floats, __m128i words, const big &object)
{
	sink += (int)number + (int)natural + (int)doubles[0] + (int)floats[0] + (int)words[0] + (int)object.number;
}

using choice = std::variant<int, std::string, std::vector<short>, point>;

CALLED void choices(choice one, const choice &other, const std::vector<choice> &row, const std::variant<std::monostate, double> &maybe)
{
	sink += one.index() + other.index() + row.size() + maybe.index();
}

/* Texts of wider characters; a view has no NUL behind it. */
CALLED void wide_texts(const std::wstring &small, std::u16string text, const std::u32string &far, std::u16string_view view,
		       const std::wstring &large)
{
	sink += small.size() + text.size() + far.size() + view.size() + large.size();
}

CALLED void several(std::tuple<int, double, std::string> tuple, const std::tuple<char> &one, std::pair<short, std::string> pair,
		    const std::array<int, 3> &array, std::tuple<point, std::vector<int>> nested)
{
	sink += std::get<0>(tuple) + std::get<0>(one) + pair.first + array[0] + std::get<0>(nested).x;
}

/* A variant loses its value when the next one can't be made. */
struct refuses {
	std::string text;
	refuses()
	{
		throw 1;
	}
};

CALLED void valueless(const std::variant<std::string, refuses> &choice)
{
	sink += choice.valueless_by_exception();
}

static void lose_value()
{
	std::variant<std::string, refuses> choice = "text";
	try {
		choice.emplace<1>();
	} catch (int) {
	}
	valueless(choice);
}

CALLED std::vector<int> result(int count)
{
	return std::vector<int>(count, 7);
}

/* Bytes that look like a container, and aren't one: no destructor runs. */
template <typename T> struct fake {
	alignas(T) alignas(long) long words[sizeof(T) / sizeof(long)];
	const T &get() const
	{
		return reinterpret_cast<const T &>(words);
	}
};

CALLED void broken(const std::vector<int> &numbers, const std::map<int, int> &map, const std::list<int> &list)
{
	sink += (&numbers != nullptr) + (&map != nullptr) + (&list != nullptr);
}

/* More elements than there is memory for. */
CALLED void too_long(const std::vector<int> &numbers)
{
	sink += (&numbers != nullptr);
}

static void end_wrong()
{
	static int cells[8] = { 1, 2, 3, 4 };
	fake<std::vector<int>> numbers = { { (long)cells, (long)(cells + 4), (long)(cells + 2) } };

	too_long(numbers.get());
}

/* More elements than there are, as while another thread takes one out. */
CALLED void too_short(const std::list<int> &list, const std::map<int, int> &map)
{
	sink += (&list != nullptr) + (&map != nullptr);
}

static void count_wrong()
{
	std::list<int> list = { 1, 2 };
	std::map<int, int> map = { { 1, 2 }, { 3, 4 } };
	long *counts[] = { (long *)((char *)&list + sizeof(list)) - 1, (long *)((char *)&map + sizeof(map)) - 1 };

	for (long *count : counts)
		*count += 7;
	too_short(list, map);
	for (long *count : counts)
		*count -= 7;
}

CALLED void odd(const choice &choice)
{
	sink += (&choice != nullptr);
}

CALLED void lost(const std::optional<int> &maybe, const std::shared_ptr<point> &shared, const point &object, const node *pointer,
		 const std::deque<int> &deque)
{
	sink += (&maybe != nullptr) + (&shared != nullptr) + (&object != nullptr) + (pointer != nullptr) + (&deque != nullptr);
}

/* Pointers into nowhere, backwards, huge, odd; trees and lists in a circle. */
static void break_all()
{
	static const long rows[][3] = { { 0x10, 0x20, 0x20 }, { 0x20, 0x10, 0x40 }, { 0, 1L << 62, 1L << 62 },
					{ 0x1000, 0x1003, 0x2000 }, { 0x1000, 0x3000, 0x2000 } };
	for (auto &row : rows) {
		fake<std::vector<int>> numbers;
		fake<std::map<int, int>> map = {};
		fake<std::list<int>> list = {};
		long circle[6] = { 0, 0, 0, 0, 7, 7 };
		circle[1] = circle[3] = (long)circle; /* its own parent and child */
		circle[0] = (long)circle;
		memcpy(numbers.words, row, sizeof(row));
		map.words[3] = (long)circle;
		map.words[5] = 3; /* nodes */
		map.words[3] = row == rows[0] ? 0x30 : (long)circle;
		list.words[0] = row == rows[0] ? 0x40 : (long)circle;
		list.words[2] = row == rows[1] ? -1 : 2;
		broken(numbers.get(), map.get(), list.get());
	}
	fake<std::optional<int>> maybe = { { 7L << 32 } };
	fake<std::shared_ptr<point>> shared = { { 0x50, 0x60 } };
	fake<choice> out_of_range = {};
	memset((char *)out_of_range.words + sizeof(choice) - 8, 77, 8);
	odd(out_of_range.get());
	fake<std::deque<int>> deque = {};
	deque.words[5] = 0x100; /* the first block's entry is behind the last one's */
	lost(maybe.get(), shared.get(), *(const point *)0x70, (const node *)0x80, deque.get());
}

CALLED void watched(const std::vector<long> &numbers, const std::map<long, long> &map)
{
	sink += (&numbers != nullptr) + (&map != nullptr);
}

/* Nothing protects them: watched must not look. */
static void change_while_watched()
{
	std::vector<long> numbers;
	std::map<long, long> map;
	std::atomic<bool> ends(false);
	std::thread changer([&] {
		for (long i = 0; !ends; i++) {
			if (i % 100 == 0) {
				std::vector<long>().swap(numbers);
				map.clear();
			}
			numbers.push_back(i % 100);
			map[i * 7919 % 101] = i;
		}
	});
	for (int i = 0; i < 2000; i++)
		watched(numbers, map);
	ends = true;
	changer.join();
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		break_all();
		count_wrong();
		end_wrong();
		change_while_watched();
		return 0;
	}
	std::vector<int> many(100);
	for (int i = 0; i < 100; i++)
		many[i] = i * i;
	rows({ 1, -2, 3 }, { "a", "", "a longer text than fits into the object itself" }, { { 1, 2 }, { 3, 4 } },
	     { true, false, true, true, false, false, false, false, true });
	rows(many, {}, {}, {});
	nested({ { 1, 2 }, {}, { 3 } }, { { "one", { 1 } }, { "two", { 2, 3 } } });
	trees({ { "b", 2 }, { "a", 1 }, { "c", 3 } }, { 5, -5, 7, 1, 2, 3, 4, 6, 8, 9 }, { { 1, .5 }, { 1, 1.5 }, { 0, 2.5 } });
	std::deque<long> deque;
	for (long i = 0; i < 70; i++)
		deque.push_back(i);
	for (int i = 0; i < 60; i++)
		deque.pop_front();
	hashes({ { 1, "one" } }, { 3, 1, 2 }, deque);
	maybes(5, "text", {});
	node second = { 2, "second", nullptr, {} };
	auto shared = std::make_shared<node>(node{ 1, "first", &second, { 4, 5 } });
	auto again = shared;
	owned(std::unique_ptr<point>(new point{ 8, 9 }), shared, nullptr, std::make_unique<int>(42));
	plain('x', { 5, 6 }, shared.get(), "a view", nullptr);
	plain('\n', { -5, -6 }, &second, "", nullptr);
	__int128 most = (__int128)(~(unsigned __int128)0 >> 1);
	wide(-most - 1, ~(unsigned __int128)0, _mm_set_pd(2.5, 1.5), _mm_set_ps(4, 3, 2, 1), _mm_set_epi64x(-2, 3), { (__int128)1 << 100, { 1 } });
	wide(-7, 0, _mm_set_pd(0, -1), _mm_set_ps(0, 0, 0, -1), _mm_set_epi64x(0, 0), { 10000000000000000000u, {} });
	result(3);
	choices(5, "text", { 7, "in a row", std::vector<short>{ 1, 2 }, point{ 3, 4 } }, 2.5);
	choices(std::vector<short>{ 8, 9 }, point{ 1, -1 }, {}, -1.25);
	lose_value();
	wide_texts(L"wide", u"six\u00e4\U0001f600", U"a text of thirty-two bits each", std::u16string_view(u"viewed").substr(0, 4),
		   L"a longer text than fits into the object itself");
	wide_texts(L"", u"", U"", std::u16string_view(), L"");
	several({ 6, 7.5, "eight" }, { 'c' }, { 4, "five" }, { 1, 2, 3 }, { { 8, 9 }, { 10 } });
	std::vector<std::string> long_texts(16, std::string(200, 'x'));
	rows({}, long_texts, {}, {});
	return 0;
}
