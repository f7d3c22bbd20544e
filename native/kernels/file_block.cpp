#include "kernels/file_block.h"

#include <cstring>

#include "kernels/codebook.h"
#include "kernels/layout.h"

namespace pyrite {

namespace {

// Columns 0-15 in the low halves of 16 bytes, 16-31 in the high ones.
void nibbles_of_16(const uint8_t* packed, uint8_t* codes) {
  for (int i = 0; i < 16; ++i) {
    codes[i] = packed[i] & 15;
    codes[i + 16] = packed[i] >> 4;
  }
}

void nibbles_of_8(const uint8_t* packed, uint8_t* codes) {
  for (int i = 0; i < 8; ++i) {
    codes[i] = packed[i] & 15;
    codes[i + 8] = packed[i] >> 4;
  }
}

// Fields of `bits` bits one after the other, the lowest of a byte first.
void fields_of_32(const uint8_t* packed, int bits, uint8_t* codes) {
  for (int i = 0; i < 32; ++i) codes[i] = packed[i * bits / 8] >> i * bits % 8 & ((1 << bits) - 1);
}

void bits_of_32(const uint8_t* packed, int shift, int mask, uint8_t* codes) {
  for (int i = 0; i < 32; ++i) codes[i] = packed[i] >> shift & mask;
}

void add_fifth_bits(const uint8_t* field, uint8_t* codes) {
  uint32_t bits;
  std::memcpy(&bits, field, 4);
  for (int i = 0; i < 32; ++i) codes[i] |= (bits >> i & 1) << 4;
}

void add_bits_of_32(const uint8_t* packed, int shift, int mask, int by, uint8_t* codes) {
  for (int i = 0; i < 32; ++i) codes[i] |= (packed[i] >> shift & mask) << by;
}

// 6-bit scales and minima of Q4_K and Q5_K.
void read_six_bits(const uint8_t* packed, int part, uint8_t* steps) {
  if (part < 4) {
    steps[0] = packed[part] & 63;
    steps[1] = packed[part + 4] & 63;
  } else {
    steps[0] = (packed[part + 4] & 15) | (packed[part - 4] >> 6) << 4;
    steps[1] = packed[part + 4] >> 4 | (packed[part] >> 6) << 4;
  }
}

uint8_t q3_k_scale(const uint8_t* packed, int index) {
  const int low = packed[index % 8] >> 4 * (index / 8) & 15;
  const int high = packed[8 + index % 4] >> 2 * (index / 4) & 3;
  return uint8_t((low | high << 4) - 32);
}

uint8_t iq4_xs_scale(const uint8_t* block, int part) {
  const int high = (block[2] | block[3] << 8) >> 2 * part & 3;
  const int low = block[4 + part / 2] >> 4 * (part % 2) & 15;
  return uint8_t((low | high << 4) - 32);
}

// Five digits in base 3 are a fraction of 256: 32 bytes have the first digits of all before the second
// ones, then 16 bytes, then 4 bytes with four digits each.
uint8_t tq1_0_digit(const uint8_t* block, int column) {
  constexpr int kPowers[] = {1, 3, 9, 27, 81};
  const int start = column < 160 ? 0 : column < 240 ? 160 : 240;
  const int bytes = column < 160 ? 32 : column < 240 ? 16 : 4;
  const int first = start / 5;
  const int place = column - start;
  const int rest = block[first + place % bytes] * kPowers[place / bytes] & 0xff;
  return uint8_t(rest * 3 >> 8);
}

// The highest bit is ignored, and 0x7F, which would be no number, is 0.
uint8_t nvfp4_scale(uint8_t bits) { return bits == 0x7f ? 0 : bits & 0x7f; }

// The highest four bits of four words.
uint16_t iq1_m_scale(const uint8_t* block) {
  const uint8_t* high = block + 49;
  return uint16_t(high[0] >> 4 | (high[2] & 0xf0) | (high[4] & 0xf0) << 4 | (high[6] & 0xf0) << 8);
}

}  // namespace

void read_codes(WeightType type, const uint8_t* block, int part, uint8_t codes[32]) {
  switch (type) {
    case WeightType::Q4_0:
    case WeightType::IQ4_NL: return nibbles_of_16(block + 2, codes);
    case WeightType::Q4_1: return nibbles_of_16(block + 4, codes);
    case WeightType::Q5_0:
      nibbles_of_16(block + 6, codes);
      return add_fifth_bits(block + 2, codes);
    case WeightType::Q5_1:
      nibbles_of_16(block + 8, codes);
      return add_fifth_bits(block + 4, codes);
    case WeightType::Q8_0:
      for (int i = 0; i < 32; ++i) codes[i] = block[2 + i] ^ 0x80;
      return;
    case WeightType::Q2_K:
      return bits_of_32(block + 16 + 32 * (part / 4), 2 * (part % 4), 3, codes);
    case WeightType::Q3_K:
      bits_of_32(block + 32 + 32 * (part / 4), 2 * (part % 4), 3, codes);
      return add_bits_of_32(block, part, 1, 2, codes);
    case WeightType::Q4_K:
      return bits_of_32(block + 16 + 32 * (part / 2), 4 * (part % 2), 15, codes);
    case WeightType::Q5_K:
      bits_of_32(block + 48 + 32 * (part / 2), 4 * (part % 2), 15, codes);
      return add_bits_of_32(block + 16, part, 1, 4, codes);
    case WeightType::Q6_K:
      bits_of_32(block + 64 * (part / 4) + 32 * (part % 2), 4 * (part % 4 / 2), 15, codes);
      return add_bits_of_32(block + 128 + 32 * (part / 4), 2 * (part % 4), 3, 4, codes);
    case WeightType::IQ4_XS: return nibbles_of_16(block + 8 + 16 * part, codes);
    case WeightType::IQ1_S:
    case WeightType::IQ1_M:
    case WeightType::IQ2_XXS:
    case WeightType::IQ2_XS:
    case WeightType::IQ2_S:
    case WeightType::IQ3_XXS:
    case WeightType::IQ3_S: return read_points(type, block, part, codes);
    case WeightType::TQ1_0:
      for (int i = 0; i < 32; ++i) codes[i] = tq1_0_digit(block, 32 * part + i);
      return;
    case WeightType::TQ2_0: return bits_of_32(block + 32 * (part / 4), 2 * (part % 4), 3, codes);
    case WeightType::MXFP4: return nibbles_of_16(block + 1, codes);
    case WeightType::NVFP4:
      nibbles_of_8(block + 4 + 16 * part, codes);
      return nibbles_of_8(block + 12 + 16 * part, codes + 16);
    case WeightType::Q1_0: return fields_of_32(block + 2 + 4 * part, 1, codes);
    case WeightType::Q2_0: return fields_of_32(block + 2 + 8 * part, 2, codes);
    default: return;
  }
}

void read_steps(WeightType type, const uint8_t* block, int part, uint8_t steps[2]) {
  switch (type) {
    case WeightType::Q2_K: std::memcpy(steps, block + 2 * part, 2); return;
    case WeightType::Q3_K:
      steps[0] = q3_k_scale(block + 96, 2 * part);
      steps[1] = q3_k_scale(block + 96, 2 * part + 1);
      return;
    case WeightType::Q4_K:
    case WeightType::Q5_K: return read_six_bits(block + 4, part, steps);
    case WeightType::Q6_K: std::memcpy(steps, block + 192 + 2 * part, 2); return;
    case WeightType::IQ4_XS: steps[0] = iq4_xs_scale(block, part); return;
    case WeightType::IQ1_S:
    case WeightType::IQ1_M:
    case WeightType::IQ2_XXS:
    case WeightType::IQ2_XS:
    case WeightType::IQ2_S:
    case WeightType::IQ3_XXS:
    case WeightType::IQ3_S: return read_odd_steps(type, block, part, steps);
    case WeightType::MXFP4: steps[0] = block[0]; return;
    case WeightType::NVFP4:
      steps[0] = nvfp4_scale(block[2 * part]);
      steps[1] = nvfp4_scale(block[2 * part + 1]);
      return;
    default: return;
  }
}

void read_halves(WeightType type, const uint8_t* block, uint16_t halves[2]) {
  if (type == WeightType::IQ1_M) {
    halves[0] = iq1_m_scale(block);
    return;
  }
  const int start = type == WeightType::Q2_K   ? 80
                    : type == WeightType::Q3_K ? 108
                    : type == WeightType::Q6_K ? 208
                    : type == WeightType::TQ1_0 ? 52
                    : type == WeightType::TQ2_0 ? 64
                                               : 0;
  std::memcpy(halves, block + start, 2 * size_t(traits_of(type).num_halves));
}

}  // namespace pyrite
