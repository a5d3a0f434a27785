"""The engine's random numbers (base/core/philox.h), for what must meet the same ones."""

MASK = 0xFFFFFFFF


def philox(seed, stream, counter):
    """Four words of block `counter`, the last of which is drawn first: Philox 4x32-10."""
    c = [counter & MASK, counter >> 32, stream & MASK, stream >> 32]
    k = [seed & MASK, seed >> 32]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & MASK, (p0 >> 32) ^ c[3] ^ k[1], p0 & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c
