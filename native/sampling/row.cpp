#include "sampling/row.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace pyrite {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The compiler's own vectors: one register on every machine that is built for.
using Four = float __attribute__((vector_size(16)));
using FourInts = int32_t __attribute__((vector_size(16)));
using FourWords = uint32_t __attribute__((vector_size(16)));

Four load(const float* values) {
  Four four;
  std::memcpy(&four, values, sizeof four);
  return four;
}

// Calls visit(values, block) with kRowBlock values each time; the last block is filled up with
// minus infinity, which changes neither a maximum nor a sum.
template <class Visit>
void each_block(const float* row, int size, Visit visit) {
  const int whole = size / kRowBlock;
  for (int block = 0; block < whole; ++block) visit(row + block * kRowBlock, block);
  if (size % kRowBlock == 0) return;
  float rest[kRowBlock];
  std::fill(rest, rest + kRowBlock, -kInfinity);
  std::copy(row + whole * kRowBlock, row + size, rest);
  visit(rest, whole);
}

// Bits as the whole numbers of one lane or four, and back.
uint32_t bits(float value) { return std::bit_cast<uint32_t>(value); }
FourWords bits(Four value) { return FourWords(value); }
float floats(uint32_t value) { return std::bit_cast<float>(value); }
Four floats(FourWords value) { return Four(value); }

// One and four lanes are the same operations in the same order, so the same bits.
template <class Lanes>
inline Lanes exp_lanes(Lanes z) {
  constexpr float kLog2e = 1.44269504f;
  // ln 2 in two parts: the first has few bits, so that its product with a small integer is exact.
  constexpr float kLn2High = 0.693359375f;
  constexpr float kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
  const Lanes rounded = z * kLog2e + kRound;
  const Lanes n = rounded - kRound;
  const Lanes r = (z - n * kLn2High) - n * kLn2Low;
  // Taylor to the seventh power: |r| <= 0.347 leaves r^8 / 8! < 6e-9 relative to 0.7.
  Lanes p = r * (1.0f / 5040) + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // The last bits of `rounded` are n: added to p's exponent, they multiply it by 2^n. That stays a
  // normal number above kExpLowest; below, whatever came of it is not used.
  const Lanes power = floats(bits(p) + (bits(rounded) << 23));
  return z < kExpLowest ? 0.0f : power;
}

void exp_block(const float* values, float max, float inverse_temperature, float* weights) {
  for (int i = 0; i < kRowBlock; i += 4) {
    const Four four = exp_lanes((load(values + i) - max) * inverse_temperature);
    std::memcpy(weights + i, &four, sizeof four);
  }
}

// Calls join(lane, value) for a block's values, each in the lane of its place modulo 16, then joins
// the lanes: an order that no machine's width changes.
template <class Join>
float join_block(const float* values, Join join) {
  Four lanes[4] = {load(values), load(values + 4), load(values + 8), load(values + 12)};
  for (int start = 16; start < kRowBlock; start += 16) {
    for (int i = 0; i < 4; ++i) lanes[i] = join(lanes[i], load(values + start + 4 * i));
  }
  const Four four = join(join(lanes[0], lanes[1]), join(lanes[2], lanes[3]));
  return join(join(four[0], four[1]), join(four[2], four[3]));
}

float sum_block(const float* weights) {
  return join_block(weights, [](auto a, auto b) { return a + b; });
}

// The maximum of a block; of no meaning if it holds NaN.
float max_block(const float* values) {
  return join_block(values, [](auto a, auto b) { return a > b ? a : b; });
}

// All bits of a lane of `wrong` are set where a value was NaN or plus infinity.
void look_for_wrong(const float* values, FourInts& wrong) {
  for (int i = 0; i < kRowBlock; i += 4) wrong |= ~(load(values + i) < kInfinity);
}

int last_positive(const float* weights) {
  int last = kRowBlock - 1;
  while (last > 0 && !(weights[last] > 0)) --last;
  return last;
}

}  // namespace

float exp_negative(float z) { return exp_lanes(z); }

void RowScan::read(const float* row, int size) {
  block_max.resize(row_blocks(size));
  float* maxima = block_max.data();
  FourInts wrong = {};
  each_block(row, size, [&](const float* values, int block) {
    maxima[block] = max_block(values);
    look_for_wrong(values, wrong);
  });
  finite = !(wrong[0] | wrong[1] | wrong[2] | wrong[3]);
  max = *std::max_element(block_max.begin(), block_max.end());
}

int RowScan::argmax(const float* row, int size) const {
  const auto block = std::find(block_max.begin(), block_max.end(), max) - block_max.begin();
  const float* first = row + block * kRowBlock;
  return int(std::find(first, row + size, max) - row);
}

void RowSum::read(const float* row, int size, float max, float inverse_temperature) {
  block_sum.resize(row_blocks(size));
  total = 0;
  each_block(row, size, [&](const float* values, int block) {
    float weights[kRowBlock];
    exp_block(values, max, inverse_temperature, weights);
    block_sum[block] = sum_block(weights);
    total += block_sum[block];
  });
}

// What lies deeper than `depth` in a block is neither more than the block nor more than 64 weights
// of e^-depth. At 88 nats and deeper every weight is zero.
double RowSum::depth_of(double share) const {
  constexpr double kRounding = 1e-6;  // of sums in single precision
  const double spare = (1 - share) * total * (1 - kRounding);
  int enough = 88;
  for (int step = 64; step > 0; step /= 2) {
    const int depth = enough - step;
    if (depth < 1) continue;
    const double each = kRowBlock * std::exp(-double(depth));
    double deeper = 0;
    for (double block : block_sum) deeper += std::min(block, each);
    if (deeper <= spare) enough = depth;
  }
  return enough;
}

int RowSum::pick(const float* row, int size, float max, float inverse_temperature,
                 double draw) const {
  const double wanted = draw * total;
  double sum = 0;
  int chosen = 0;  // the block that the sum passes in, or the last that has any weight
  double before = 0;
  for (int block = 0; block < int(block_sum.size()); ++block) {
    if (!(block_sum[block] > 0)) continue;
    chosen = block;
    before = sum;
    sum += block_sum[block];
    if (sum > wanted) break;
  }
  float values[kRowBlock];
  const int start = chosen * kRowBlock;
  const int count = std::min(kRowBlock, size - start);
  std::fill(values, values + kRowBlock, -kInfinity);
  std::copy(row + start, row + start + count, values);
  float weights[kRowBlock];
  exp_block(values, max, inverse_temperature, weights);
  for (int i = 0; i < kRowBlock; ++i) {
    before += weights[i];
    if (before > wanted) return start + i;
  }
  return start + last_positive(weights);
}

}  // namespace pyrite
