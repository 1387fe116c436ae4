// Exceptions through frames with destructors, nested and rethrown; threads; a table of functions: one line per round.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

struct node {
	std::unique_ptr<node> left, right;
	int value;
};

static std::unique_ptr<node> build(int depth)
{
	if (!depth)
		return nullptr;
	return std::unique_ptr<node>(new node{ build(depth - 1), build(depth - 1), depth });
}

static int sum(const node *n)
{
	return n ? n->value + sum(n->left.get()) + sum(n->right.get()) : 0;
}

__attribute__((noinline)) static int thrower(int n, int depth)
{
	std::string held(depth, 'x');

	if (depth > 0)
		return thrower(n, depth - 1) + (int)held.size();
	switch (n % 3) {
	case 0:
		return std::vector<int>(3).at(n + 3);
	case 1:
		throw n;
	default:
		throw std::runtime_error("no " + std::to_string(n));
	}
}

static int caught(int n)
{
	try {
		try {
			return thrower(n, 10);
		} catch (const std::out_of_range &) {
			throw std::logic_error("again");
		}
	} catch (int value) {
		return value;
	} catch (const std::exception &e) {
		return (int)std::string(e.what()).size();
	}
}

int main(int, char **words)
{
	for (int count = atoi(words[1]); count > 0 && access("stop", F_OK); count--) {
		std::atomic<int> total{ 0 };
		std::vector<std::thread> threads;
		for (int t = 0; t < 4; t++)
			threads.emplace_back([&] {
				total += sum(build(9).get());
				for (int n = 1; n <= 50; n++)
					total += caught(n);
			});
		for (auto &thread : threads)
			thread.join();
		std::map<std::string, int> table;
		for (int i = 0; i < 1000; i++)
			table["k" + std::to_string(i * 31 % 401)] += i;
		printf("%d %zu %d\n", total.load(), table.size(), table["k31"]);
		fflush(stdout);
	}
}
