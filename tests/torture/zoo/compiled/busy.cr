class Node
  getter left : Node?
  getter right : Node?

  def initialize(@left, @right)
  end
end

def build(depth) : Node?
  depth == 0 ? nil : Node.new(build(depth - 1), build(depth - 1))
end

def leaves(node : Node?) : Int32
  node ? leaves(node.left) + leaves(node.right) : 1
end

def fails(i)
  raise "third #{i}" if i % 3 == 0
  i
end

# Fibers have stacks of their own; exceptions go through its own personality routine.
ARGV.last.to_i.times do
  break if File.exists?("stop")
  sum = leaves(build(10))
  channel = Channel(Int32).new
  10.times { |i| spawn { channel.send(i) } }
  10.times { sum += channel.receive }
  300.times do |i|
    sum += fails(i)
  rescue error
    sum += error.message.not_nil!.size
  end
  puts sum
  STDOUT.flush
end
