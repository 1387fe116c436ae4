// one exception in seven calls: duktape leaves C frames by longjmp
function f(n) { if (n % 7 == 0) throw new Error('e' + n); return n * 2; }
var s = 0;
for (var i = 0; i < 2000; i++) { try { s += f(i); } catch (e) { s += e.message.length; } }
print(s, JSON.stringify([1, { a: 'x' }]), 'abcabc'.replace(/b(c)/g, '$1-'));
