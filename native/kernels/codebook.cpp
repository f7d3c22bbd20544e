#include "kernels/codebook.h"

#include <bit>
#include <cstring>

#include "kernels/grids.h"

namespace pyrite {

namespace {

// A point, and the bits that its columns have above their digits, the first column's the lowest.
struct Word {
  int point;
  int above;
};

int word_16(const uint8_t* at) { return at[0] | at[1] << 8; }

uint32_t word_32(const uint8_t* at) {
  uint32_t word;
  std::memcpy(&word, at, 4);
  return word;
}

// Signs of eight columns: the low seven bits, and one that makes the number of ones even.
int even_signs(uint32_t sevens) {
  const unsigned low = sevens & 127;
  return int(low | unsigned(std::popcount(low) & 1) << 7);
}

// Point `i` of four in 32 columns, or of eight.
Word word_of(WeightType type, const uint8_t* block, int part, int i) {
  switch (type) {
    case WeightType::IQ2_XXS: {
      const uint8_t* at = block + 2 + 8 * part;
      return {at[i], even_signs(word_32(at + 4) >> 7 * i)};
    }
    case WeightType::IQ2_XS: {
      const int word = word_16(block + 2 + 8 * part + 2 * i);
      return {word & 511, even_signs(uint32_t(word) >> 9)};
    }
    case WeightType::IQ2_S:
      return {block[2 + 4 * part + i] | (block[66 + part] >> 2 * i & 3) << 8,
              block[34 + 4 * part + i]};
    case WeightType::IQ3_XXS: {
      const int signs = even_signs(word_32(block + 66 + 4 * part) >> 7 * (i / 2));
      return {block[2 + 8 * part + i], signs >> 4 * (i % 2)};
    }
    case WeightType::IQ3_S:
      return {block[2 + 8 * part + i] | (block[66 + part] >> i & 1) << 8,
              block[74 + 4 * part + i / 2] >> 4 * (i % 2)};
    case WeightType::IQ1_S:
      return {block[2 + 4 * part + i] | (word_16(block + 34 + 2 * part) >> 3 * i & 7) << 8, 0};
    default: {  // IQ1_M
      const int high = block[32 + 2 * part + i / 2] >> 4 * (i % 2);
      return {block[4 * part + i] | (high & 7) << 8, high & 8 ? 0xff : 0};
    }
  }
}

const uint16_t* grid_of(WeightType type) {
  switch (type) {
    case WeightType::IQ2_XXS: return kGridIQ2XXS.data();
    case WeightType::IQ2_XS: return kGridIQ2XS.data();
    case WeightType::IQ2_S: return kGridIQ2S.data();
    case WeightType::IQ3_XXS: return kGridIQ3XXS.data();
    case WeightType::IQ3_S: return kGridIQ3S.data();
    default: return kGridIQ1.data();
  }
}

uint8_t odd(int number) { return uint8_t(2 * number + 1); }

}  // namespace

void read_points(WeightType type, const uint8_t* block, int part, uint8_t codes[32]) {
  const uint16_t* grid = grid_of(type);
  const bool of_four = type == WeightType::IQ3_XXS || type == WeightType::IQ3_S;
  const int columns = of_four ? 4 : 8;
  const int bits = of_four ? 3 : 2;
  for (int i = 0; i < 32 / columns; ++i) {
    const Word word = word_of(type, block, part, i);
    const int digits = grid[word.point];
    for (int j = 0; j < columns; ++j) {
      const int digit = digits >> bits * j & ((1 << bits) - 1);
      codes[columns * i + j] = uint8_t(digit | (word.above >> j & 1) << bits);
    }
  }
}

void read_odd_steps(WeightType type, const uint8_t* block, int part, uint8_t steps[2]) {
  switch (type) {
    case WeightType::IQ2_XXS:
      steps[0] = odd(int(word_32(block + 6 + 8 * part) >> 28));
      return;
    case WeightType::IQ2_XS:
    case WeightType::IQ2_S: {
      const int both = block[(type == WeightType::IQ2_XS ? 66 : 74) + part];
      steps[0] = odd(both & 15);
      steps[1] = odd(both >> 4);
      return;
    }
    case WeightType::IQ3_XXS: steps[0] = odd(int(word_32(block + 66 + 4 * part) >> 28)); return;
    case WeightType::IQ3_S: steps[0] = odd(block[106 + part / 2] >> 4 * (part % 2) & 15); return;
    case WeightType::IQ1_S: {
      const int high = word_16(block + 34 + 2 * part);
      steps[0] = uint8_t(odd(high >> 12 & 7) | (high >> 15) << 4);
      return;
    }
    default: {  // IQ1_M
      const int both = word_16(block + 48 + 2 * (part / 2)) >> 6 * (part % 2);
      steps[0] = odd(both & 7);
      steps[1] = odd(both >> 3 & 7);
      return;
    }
  }
}

}  // namespace pyrite
