// Objects, exceptions, null references, threads and collections: one line per round.
using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Runtime.CompilerServices;
using System.Threading;

class Node { public Node Left, Right; public int Value; }

static class Busy
{
    [MethodImpl(MethodImplOptions.NoInlining)]
    static Node Build(int depth) {
        return depth == 0 ? null : new Node { Left = Build(depth - 1), Right = Build(depth - 1), Value = depth };
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static int Sum(Node node) { return node == null ? 0 : node.Value + Sum(node.Left) + Sum(node.Right); }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static int Thrower(int n, int depth) {
        if (depth > 0) return Thrower(n, depth - 1) + 1;
        Node none = null;
        switch (n % 4) {
        case 0: return none.Value;
        case 1: return n / (n - n);
        case 2: return (new int[1])[n];
        default: throw new InvalidOperationException("no " + n);
        }
    }

    static int Caught(int n) {
        try { return Thrower(n, 10); } catch (Exception e) { return e.GetType().Name.Length; }
    }

    static string Round() {
        int sum = 0;
        var threads = Enumerable.Range(0, 4).Select(n => new Thread(() => {
            int mine = 0;
            for (int i = 0; i < 10; i++) mine += Sum(Build(9));
            Interlocked.Add(ref sum, mine);
        })).ToList();
        threads.ForEach(t => t.Start());
        threads.ForEach(t => t.Join());
        int errors = Enumerable.Range(1, 60).Sum(n => Caught(n));
        var table = new Dictionary<string, int>();
        for (int i = 0; i < 2000; i++) { int old; table.TryGetValue((i % 91).ToString(), out old); table[(i % 91).ToString()] = old + i; }
        GC.Collect();
        return sum + " " + errors + " " + string.Join(",", table.OrderBy(p => p.Key, StringComparer.Ordinal).Take(5).Select(p => p.Value));
    }

    static int Main(string[] words) {
        for (int n = int.Parse(words[0]); n > 0 && !File.Exists("stop"); n--) Console.WriteLine(Round());
        return 0;
    }
}
