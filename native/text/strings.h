#pragma once
#include <cstddef>
#include <cstdint>

namespace pyrite {

// Walks `count` strings, each a little-endian 64-bit length followed by its bytes, and writes where
// each one's bytes start and its length. Returns the offset after the last string, or -1 when a
// length runs past `size`.
int64_t scan_strings(const uint8_t* data, size_t size, size_t offset, size_t count,
                     int64_t* starts, int32_t* lengths);

}  // namespace pyrite
