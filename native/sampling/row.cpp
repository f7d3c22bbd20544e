#include "sampling/row.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace pyrite {
namespace {

constexpr int kLanes = 16;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

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

inline float exp_inline(float z) {
  constexpr float kLowest = -87.33654f;  // ln of the smallest normal float
  constexpr float kLog2e = 1.44269504f;
  // ln 2 in two parts: the first has few bits, so that its product with a small integer is exact.
  constexpr float kLn2High = 0.693359375f;
  constexpr float kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
  const float clamped = z < kLowest ? kLowest : z;
  const float n = (clamped * kLog2e + kRound) - kRound;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;
  // Taylor to the seventh power: |r| <= 0.347 leaves r^8 / 8! < 6e-9 relative to 0.7.
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const float scale = std::bit_cast<float>((int32_t(n) + 127) << 23);
  return z < kLowest ? 0.0f : p * scale;
}

void exp_block(const float* values, float max, float inverse_temperature, float* weights) {
  for (int i = 0; i < kRowBlock; ++i) {
    weights[i] = exp_inline((values[i] - max) * inverse_temperature);
  }
}

// The 16 lanes of a block joined by `join`, in an order that four-wide vectors follow.
template <class Join>
float join_lanes(const float* lanes, Join join) {
  float quarter[4];
  for (int i = 0; i < 4; ++i) {
    quarter[i] = join(join(lanes[i], lanes[i + 4]), join(lanes[i + 8], lanes[i + 12]));
  }
  return join(join(quarter[0], quarter[1]), join(quarter[2], quarter[3]));
}

float sum_block(const float* weights) {
  const auto add = [](float a, float b) { return a + b; };
  float lanes[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    lanes[lane] = (weights[lane] + weights[lane + 16]) + (weights[lane + 32] + weights[lane + 48]);
  }
  return join_lanes(lanes, add);
}

// The maximum of a block, NaN apart; `wrong` gathers whether a lane was NaN or plus infinity.
float max_block(const float* values, int32_t* wrong) {
  const auto larger = [](float a, float b) { return a > b ? a : b; };
  float lanes[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = -kInfinity;
  for (int start = 0; start < kRowBlock; start += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const float value = values[start + lane];
      lanes[lane] = larger(value, lanes[lane]);
      wrong[lane] |= value < kInfinity ? 0 : -1;
    }
  }
  return join_lanes(lanes, larger);
}

int last_positive(const float* weights) {
  int last = kRowBlock - 1;
  while (last > 0 && !(weights[last] > 0)) --last;
  return last;
}

}  // namespace

float exp_negative(float z) { return exp_inline(z); }

void RowScan::read(const float* row, int size) {
  block_max.resize(row_blocks(size));
  int32_t wrong[kLanes] = {};
  each_block(row, size, [&](const float* values, int block) {
    block_max[block] = max_block(values, wrong);
  });
  max = *std::max_element(block_max.begin(), block_max.end());
  finite = std::all_of(wrong, wrong + kLanes, [](int32_t lane) { return lane == 0; });
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
