#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace pyrite {

// Strings in one buffer. Does not own it; the bounds are checked by whoever makes one.
struct Strings {
  const uint8_t* data;
  const int64_t* starts;
  const int32_t* lengths;
  size_t count;

  std::string_view operator[](size_t index) const {
    return {reinterpret_cast<const char*>(data) + starts[index], size_t(lengths[index])};
  }
};

// Strings that own their bytes.
struct StringList {
  std::vector<uint8_t> bytes;
  std::vector<int64_t> starts;
  std::vector<int32_t> lengths;

  void add(std::string_view string) {
    starts.push_back(int64_t(bytes.size()));
    lengths.push_back(int32_t(string.size()));
    bytes.insert(bytes.end(), string.begin(), string.end());
  }

  // Goes on with the last string.
  void extend(std::string_view string) {
    lengths.back() += int32_t(string.size());
    bytes.insert(bytes.end(), string.begin(), string.end());
  }
};

// Walks `count` strings, each a little-endian 64-bit length followed by its bytes, and writes where
// each one's bytes start and its length. Returns the offset after the last string, or -1 when a
// length runs past `size`.
int64_t scan_strings(const uint8_t* data, size_t size, size_t offset, size_t count,
                     int64_t* starts, int32_t* lengths);

}  // namespace pyrite
