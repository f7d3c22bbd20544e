#pragma once
// IEEE binary16, in portable code. Rounds to nearest even; too large becomes infinity; NaN stays NaN.

#include <bit>
#include <cstdint>

namespace pyrite {

static inline float float_from_half(uint16_t half) {
  const uint32_t sign = uint32_t(half & 0x8000) << 16;
  const uint32_t rest = half & 0x7fff;
  if (rest >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | (rest & 0x3ff) << 13);
  // The exponent is put right by a multiplication, which is exact and takes subnormals along.
  const float value = std::bit_cast<float>(rest << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

static inline uint16_t half_from_float(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = uint16_t(bits >> 16 & 0x8000);
  const uint32_t rest = bits & 0x7fffffff;
  if (rest > 0x7f800000) return uint16_t(sign | 0x7e00);
  if (rest >= 0x477ff000) return uint16_t(sign | 0x7c00);  // 65520 and more
  if (rest < 0x38800000) {                                 // below 2^-14: a multiple of 2^-24
    // Adding 1/2 leaves room for multiples of 2^-24 only, rounded to even by the addition itself.
    const float rounded = std::bit_cast<float>(rest) + 0.5f;
    return uint16_t(sign | (std::bit_cast<uint32_t>(rounded) - 0x3f000000));
  }
  const uint32_t even = rest >> 13 & 1;
  return uint16_t(sign | ((rest - 0x38000000 + 0xfff + even) >> 13));
}

}  // namespace pyrite
