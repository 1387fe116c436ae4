mixed build(int depth) { return depth ? ({ build(depth - 1), build(depth - 1) }) : 0; }
int leaves(mixed node) { return node ? leaves(node[0]) + leaves(node[1]) : 1; }

int work()
{
	int sum = leaves(build(9));

	for (int i = 0; i < 300; i++) {
		mixed failed = catch {
			if (i % 3 == 0)
				error("third %d", i);
			sum += i;
		};
		if (failed)
			sum += sizeof(failed[0]);
	}
	return sum + sizeof((string)pow(7, 200));
}

int main(int count, array(string) words)
{
	for (int i = (int)words[-1]; i > 0 && !file_stat("stop"); i--)
		write("%d\n", work());
	return 0;
}
