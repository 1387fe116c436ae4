# Objects, exceptions, fibers, threads, a stack that is too deep, collections: one line per round.
def fib(n) = n < 2 ? n : fib(n - 1) + fib(n - 2)
def endless(n) = endless(n + 1) + 1

def caught(n)
  case n % 4
  when 0 then n / 0
  when 1 then nil.upcase
  when 2 then raise ArgumentError, "no #{n}"
  else catch(:mine) { throw :mine, n }
  end
rescue StandardError => e
  e.message.length
end

def round
  fiber = Fiber.new { |x| 50.times { x = Fiber.yield(x * 2 + 1) % 1009 }; x }
  sum = 1
  50.times { sum = fiber.resume(sum) }
  errors = (1..60).sum { |n| caught(n) }
  deep = begin endless(0); rescue SystemStackError; 7; end
  threads = (1..4).map { |n| Thread.new { (1..500).map { |i| (i * n).to_s }.join.sum } }.map(&:value).sum
  text = (1..500).map { |i| i.to_s.gsub(/[13579]+/) { |m| "<#{m.length}>" } }.group_by(&:length).transform_values(&:size)
  GC.start
  puts [sum, errors, deep, threads, text.sort, fib(15)].inspect
  $stdout.flush
end

ARGV[0].to_i.times { break if File.exist?("stop"); round }
