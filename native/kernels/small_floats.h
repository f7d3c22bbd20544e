#pragma once
// Scales of a byte, for types whose values are kept doubled: half of what the byte means.

#include <bit>
#include <cstdint>

namespace pyrite {

// E8M0: 2^(exponent - 127), halved. The least two are below float32's normal numbers.
static inline float half_of_e8m0(uint8_t exponent) {
  const uint32_t normal = uint32_t(exponent - 1) << 23;
  const uint32_t below = uint32_t(exponent + 1) << 21;
  return std::bit_cast<float>(exponent < 2 ? below : normal);
}

}  // namespace pyrite
