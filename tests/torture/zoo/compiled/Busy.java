// Objects, exceptions, null references, a stack that is too deep, threads, collections: one line per round.
import java.io.File;
import java.util.*;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.*;

public class Busy {
    static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
    static int endless(int n) { return endless(n + 1) + 1; }

    static int caught(int n) {
        try {
            int[] none = null;
            switch (n % 4) {
            case 0: return none.length;
            case 1: return n / (n - n);
            case 2: return (new int[1])[n];
            default: throw new IllegalStateException("no " + n);
            }
        } catch (Exception e) {
            return e.getClass().getSimpleName().length();
        }
    }

    static String round() throws Exception {
        AtomicLong sum = new AtomicLong();
        List<Thread> threads = IntStream.range(0, 4).mapToObj(n -> new Thread(() -> {
            Map<String, List<Integer>> table = new TreeMap<>();
            for (int i = 0; i < 3000; i++) table.computeIfAbsent("k" + i * 31 % 401, k -> new ArrayList<>()).add(i * n);
            sum.addAndGet(table.toString().hashCode());
        })).collect(Collectors.toList());
        for (Thread t : threads) t.start();
        for (Thread t : threads) t.join();
        int errors = 0;
        for (int i = 0; i < 200; i++) errors += caught(i);
        int deep;
        try { deep = endless(0); } catch (StackOverflowError e) { deep = 7; }
        System.gc();
        String text = IntStream.range(0, 500).mapToObj(Integer::toString).collect(Collectors.joining(",")).replaceAll("[13579]+", "x");
        return sum + " " + errors + " " + deep + " " + text.hashCode() + " " + fib(20);
    }

    public static void main(String[] words) throws Exception {
        for (int n = Integer.parseInt(words[0]); n > 0 && !new File("stop").exists(); n--) System.out.println(round());
    }
}
