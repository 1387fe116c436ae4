// Overloads, templates, references, strings, classes by value; test_names.py knows the calls.
#include <string>
#include <string_view>
#include <vector>
#include <memory>
#include <cstdio>
#define KEEP __attribute__((noinline))
static volatile int sink;
namespace ns {
KEEP void f(int x) { sink += x; sink += 2*x; }
KEEP void f(double d) { sink += (int)d; sink++; }
struct Trivial { int a; double b; };
struct NonTrivial { int a; NonTrivial(int x):a(x){} NonTrivial(const NonTrivial&o):a(o.a){} ~NonTrivial(){} };
struct Base { int base; virtual void v(){} };
struct Obj : Base { int own; KEEP void method(int n) { sink += n + own; sink++; } };
KEEP void strings(std::string s, const std::string &r, std::string_view v, std::string &&m) { sink += s.size(); sink++; }
KEEP void refs(int &i, const double &d, Trivial t, NonTrivial n, Trivial &tr) { sink += i; sink++; }
template<class T> KEEP T tmpl(T a, T b) { sink += (int)a; return a+b; }
KEEP Trivial sret(int x){ sink += x; return {x, 2.5}; }
KEEP std::string sret2(int x){ sink += x; return "hi"; }
KEEP void ptr(std::unique_ptr<int> p, std::vector<int> v){ sink += *p; sink++; }
enum class Color : unsigned char { Red=1, Green=200 };
KEEP void en(Color c, bool b){ sink += (int)c; sink++; }
int counter = 41;
struct holder { static int total; };
int holder::total = 7;
template<class T> struct box { T value; inline __attribute__((always_inline)) void boxed(T x) { sink += value; value = x; sink += value; } };
}
int main(){ using namespace ns; 
 void (*volatile f1)(int)=f; f1(3); void (*volatile f2)(double)=f; f2(2.5);
 std::string a="short", b(40,'y'), c="moved"; auto volatile sp=strings; sp(a,b,"view",std::move(c));
 int i=7; double d=1.5; Trivial t{1,2.5}; auto volatile rp=refs; rp(i,d,t,NonTrivial(9),t);
 Obj o; o.own=3; o.base=1; o.method(5); auto volatile t1=tmpl<int>; t1(1,2); auto volatile t2=tmpl<double>; t2(1.5,2);
 auto volatile s1=sret; s1(11); auto volatile s2=sret2; s2(12); auto volatile pp=ptr; pp(std::make_unique<int>(4), {1,2}); auto volatile ee=en; ee(Color::Green,true);
 ns::box<int> bx{sink}; bx.boxed(sink);
}
