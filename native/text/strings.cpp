#include "text/strings.h"

#include <cstring>
#include <limits>

namespace pyrite {

int64_t scan_strings(const uint8_t* data, size_t size, size_t offset, size_t count,
                     int64_t* starts, int32_t* lengths) {
  for (size_t i = 0; i < count; ++i) {
    if (offset > size || size - offset < 8) return -1;
    uint64_t length;
    std::memcpy(&length, data + offset, 8);
    offset += 8;
    if (length > size - offset || length > uint64_t(std::numeric_limits<int32_t>::max())) return -1;
    starts[i] = int64_t(offset);
    lengths[i] = int32_t(length);
    offset += size_t(length);
  }
  return int64_t(offset);
}

}  // namespace pyrite
