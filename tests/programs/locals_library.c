/* A library with thread-local variables: of its own, exported, and so many that no thread has them
 * before it uses them. */
static __thread long own = 77;
__thread int exported = 5;
static __thread int many[1000];

int library(int x)
{
	own++;
	exported += x;
	many[3] = x;
	return exported + (int)own + many[x % 5];
}
