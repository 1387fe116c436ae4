// Classes, exceptions, threads, fibers, collections: one line per round.
import core.memory, core.thread, std.algorithm, std.array, std.conv, std.file, std.range, std.regex, std.stdio;

class Node { Node left, right; int value; this(Node l, Node r, int v) { left = l; right = r; value = v; } }

Node build(int depth) { return depth == 0 ? null : new Node(build(depth - 1), build(depth - 1), depth); }
int sum(Node n) { return n is null ? 0 : n.value + sum(n.left) + sum(n.right); }

int thrower(int n, int depth)
{
	if (depth > 0)
		return thrower(n, depth - 1) + 1;
	if (n % 3 == 0)
		throw new Exception("no " ~ n.to!string);
	if (n % 3 == 1)
		return "text".to!int;
	int[] list = [1, 2];
	return list[n];
}

int caught(int n)
{
	scope (exit) n++;
	try
		return thrower(n, 10);
	catch (Throwable e)
		return cast(int)typeid(e).name.length;
}

void round()
{
	int[4] results;
	Thread[] threads;
	foreach (n; 0 .. 4) {
		auto thread = (int i) { return new Thread({ results[i] = .sum(build(9)); }); }(n);
		threads ~= thread;
		thread.start();
	}
	foreach (thread; threads)
		thread.join();
	int total = results[].fold!"a + b", errors;
	foreach (n; 1 .. 61)
		errors += caught(n);
	auto fiber = new Fiber({ foreach (i; 0 .. 50) { total += i; Fiber.yield(); } });
	while (fiber.state != Fiber.State.TERM)
		fiber.call();
	auto text = replaceAll(iota(500).map!(to!string).join(","), regex("[13579]+"), "x");
	GC.collect();
	writeln(total, " ", errors, " ", text.length);
	stdout.flush();
}

void main(string[] words)
{
	foreach (n; 0 .. words[1].to!int) {
		if (exists("stop"))
			break;
		round();
	}
}
