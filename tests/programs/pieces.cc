/*
 * pieces.cc - a class whose functions g++ -O2 splits into pieces, templates, overloads, and a
 * function that it clones.
 */
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>

#define APART __attribute__((noinline))

struct Book {
	std::map<int, int> orders;
	APART void add(int price, int count);
	APART static int get(int x);
};

__attribute__((cold)) APART void refuse(int x)
{
	fprintf(stderr, "refused %d\n", x);
	throw std::runtime_error("refused");
}

void Book::add(int price, int count)
{
	if (__builtin_expect(price < 0, 0)) {
		refuse(price);
		abort();
	}
	orders[price] += count;
}

int Book::get(int x)
{
	if (x < 0)
		throw std::logic_error("negative");
	return x + 1;
}

template <class T> APART T sum(T a, T b)
{
	asm volatile("");
	return a + b;
}

template <class T> struct Box {
	T v;
	APART T push(T x)
	{
		asm volatile("");
		return v += x;
	}
};

template <class T> struct Only {
	T v;
	APART T put(const T *x, int)
	{
		asm volatile("");
		return v += *x;
	}
};

APART int over(int *a)
{
	asm volatile("");
	return *a;
}

APART int over(double a)
{
	asm volatile("");
	return (int)a;
}

static APART int cloned(int a, int b, int *c)
{
	asm volatile("");
	if (!b)
		return *c;
	for (int i = 0; i < a; i++)
		asm volatile("");
	return *c + a;
}

int main(int argc, char **)
{
	Box<int> ints{0};
	Box<double> doubles{0};
	Only<int> only{0};
	Book book;
	int three = 3, result = Book::get(argc);

	for (int i = 0; i < 5; i++)
		book.add(i, argc);
	result += sum(1, 2) + (int)sum(1.5, 2.0);
	result += ints.push(1) + (int)doubles.push(2);
	result += only.put(&three, 1) + over(&three) + over(2.0);
	result += cloned(argc, 7, &three) + cloned(argc + 1, 7, &three);
	printf("%d\n", result);
}
