#include "sampling/philox.h"

namespace pyrite {
namespace {

constexpr uint32_t kMultiply0 = 0xD2511F53;
constexpr uint32_t kMultiply1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;
constexpr uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;

double unit(uint32_t high, uint32_t low) {
  const uint64_t bits = (uint64_t(high) << 32 | low) >> 11;
  return double(bits) * 0x1p-53;
}

}  // namespace

Random random_at(uint64_t seed, uint32_t choice, uint64_t step) {
  uint32_t key0 = uint32_t(seed), key1 = uint32_t(seed >> 32);
  uint32_t word0 = uint32_t(step), word1 = uint32_t(step >> 32), word2 = choice, word3 = 0;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = uint64_t(kMultiply0) * word0;
    const uint64_t product1 = uint64_t(kMultiply1) * word2;
    word0 = uint32_t(product1 >> 32) ^ word1 ^ key0;
    word1 = uint32_t(product1);
    word2 = uint32_t(product0 >> 32) ^ word3 ^ key1;
    word3 = uint32_t(product0);
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return {unit(word0, word1), unit(word2, word3)};
}

}  // namespace pyrite
