#pragma once
// Floats of a byte. Scales are for types whose values are kept doubled: half of what the byte means. See
// half.h.

#include <bit>
#include <cstdint>

#include "kernels/half.h"

namespace pyrite {

// E8M0: 2^(exponent - 127), halved. The least two are below float32's normal numbers.
static inline float half_of_e8m0(uint8_t exponent) {
  const uint32_t normal = uint32_t(exponent - 1) << 23;
  const uint32_t below = uint32_t(exponent + 1) << 21;
  return std::bit_cast<float>(exponent < 2 ? below : normal);
}

// E4M3 without a sign, 1 to 7 being below its normal numbers as in binary16.
static inline float half_of_e4m3(uint8_t bits) {
  return float_from_half(uint16_t(bits << 7)) * 0x1p7f;
}

// E4M3 has the bits of binary16 but for the bias of its exponent: the half is 2^-8 of what it means.
// Its one NaN would be 480 and is refused when a file is read.
static inline uint16_t half_of_bits_e4m3(uint8_t bits) {
  return uint16_t((bits & 0x80) << 8 | (bits & 0x7f) << 7);
}
constexpr float kUnitE4M3 = 0x1p8f;

// E5M2 is the upper byte of a binary16.
static inline uint16_t half_of_bits_e5m2(uint8_t bits) { return uint16_t(bits << 8); }

}  // namespace pyrite
