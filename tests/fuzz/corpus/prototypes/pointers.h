void (*signal(int number, void (*handler)(int)))(int);
typedef int (*compare)(const void *, const void *);
struct s { int a; } *f(compare how, enum e { A } e, char const * const argv[]), g(int);
