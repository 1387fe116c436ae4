"""CTF traces made by hand, so that `dyntrace view` is tested against bytes whose meaning is known."""
import os
import struct

METADATA = '''/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 16; align = 8; signed = false; } := uint16_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
typealias integer { size = 64; align = 8; signed = true; } := int64_t;
typealias integer { size = 64; align = 8; signed = false; base = 16; } := hex64_t;
typealias integer { size = 16; align = 8; signed = true; base = 16; } := hex16s_t;
typealias integer { size = 8; align = 8; signed = false; base = 8; } := octal_t;
typealias integer { size = 8; align = 8; signed = false; base = 2; } := binary_t;
trace { major = 1; minor = 8; byte_order = le;
        packet.header := struct { uint32_t magic; uint32_t stream_id; }; };
env { hostname = "here"; procname = "handmade"; };
clock { name = "c"; freq = 1000000000; offset_s = 1000000000; };
typealias integer { size = 64; align = 8; signed = false; map = clock.c.value; } := stamp_t;
stream { id = 0;
        packet.context := struct { stamp_t timestamp_begin; stamp_t timestamp_end; uint64_t content_size;
                uint64_t packet_size; uint64_t events_discarded; uint32_t tid; uint32_t pid; };
        event.header := struct { uint32_t id; stamp_t timestamp; }; };
event { id = 0; stream_id = 0; name = "bare"; };
event { id = 1; stream_id = 0; name = "main_entry"; fields := struct { hex64_t arg0; hex64_t arg1; }; };
event { id = 2; stream_id = 0; name = "everything"; fields := struct {
        int64_t less; uint64_t most; hex16s_t bits; octal_t mode; binary_t flags; string text;
        enum : uint8_t { IDLE = 0, BUSY = 1, MANY = 2 ... 9 } state;
        floating_point { exp_dig = 8; mant_dig = 24; align = 8; } single;
        floating_point { exp_dig = 11; mant_dig = 53; align = 8; } real;
        struct { uint8_t x; struct { uint8_t z; } inner; } point;
        uint16_t fixed[3]; uint8_t count; uint16_t varied[count]; uint8_t none[0];
        uint8_t tag_value;
        }; };
event { id = 3; stream_id = 0; name = "with space"; fields := struct { string text; }; };
'''


class Packet:
    def __init__(self, begin, end, discarded=0, tid=77, pid=70):
        self.begin, self.end, self.discarded, self.tid, self.pid = begin, end, discarded, tid, pid
        self.events = bytearray()

    def add(self, number, stamp, payload=b""):
        self.events += struct.pack("<IQ", number, stamp) + payload
        return self

    def bytes(self):
        bits = (8 + 5 * 8 + 8 + len(self.events)) * 8
        return struct.pack("<IIQQQQQII", 0xC1FC1FC1, 0, self.begin, self.end, bits, bits, self.discarded,
                           self.tid, self.pid) + self.events


def write(path, *streams):
    """Each stream is a list of packets."""
    os.makedirs(path)
    with open(os.path.join(path, "metadata"), "w") as metadata:
        metadata.write(METADATA)
    for number, packets in enumerate(streams):
        with open(os.path.join(path, f"stream_{number}"), "wb") as stream:
            stream.write(b"".join(packet.bytes() for packet in packets))
    return str(path)


EVERYTHING = struct.pack("<qQhBB", -5, 2**64 - 1, -2, 0o175, 5) + b'h\xc3\xa9 "q"\n\x1b\xff\0' \
    + struct.pack("<B", 7) + struct.pack("<fd", 0.1, -1e300) + struct.pack("<BB", 1, 2) \
    + struct.pack("<HHH", 10, 20, 30) + struct.pack("<BHH", 2, 65535, 0) + struct.pack("<B", 9)
