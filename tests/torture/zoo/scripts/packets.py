"""Writes a file of packets for tcpdump."""
import struct

with open("packets.pcap", "wb") as file:
    file.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
    for i in range(200):
        packet = b"\x02" * 12 + b"\x08\x00" + struct.pack(">BBHHHBBHII", 0x45, 0, 40 + i, i, 0, 64, 17, 0, 0x7f000001, 0x0a000001 + i) + \
            struct.pack(">HHHH", 53, 1000 + i, 20 + i, 0) + bytes(range(12 + i))
        file.write(struct.pack("<IIII", 1000 + i, i, len(packet), len(packet)) + packet)
