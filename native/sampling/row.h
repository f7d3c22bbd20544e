#pragma once
#include <cstdint>
#include <vector>

namespace pyrite {

// A row of logits is walked in blocks of this many; what a block sums to is the same bits on every
// machine, for each block adds up in 16 fixed lanes.
constexpr int kRowBlock = 64;

inline int row_blocks(int size) { return (size + kRowBlock - 1) / kRowBlock; }

// e^z for z <= 0 within 2 units in the last place, exactly 1 at 0, and 0 below kExpLowest, where
// the normal numbers end. The same bits in scalar and vector code.
constexpr float kExpLowest = -87;
float exp_negative(float z);

// What one walk over a row finds. The vectors keep their memory from row to row.
struct RowScan {
  float max = 0;        // if finite
  bool finite = false;           // no NaN and no plus infinity; minus infinity is a masked token
  std::vector<float> block_max;  // (row_blocks,)

  void read(const float* row, int size);
  // The lowest id whose logit is `max`.
  int argmax(const float* row, int size) const;
};

// Softmax of a row at one temperature, kept as a sum for each block. Needs a finite row.
struct RowSum {
  double total = 0;
  std::vector<double> block_sum;  // (row_blocks,)

  void read(const float* row, int size, float max, float inverse_temperature);
  // A depth in nats, as small as a bound allows, such that the weights of tokens further than it
  // below the largest logit hold at most 1 - `share` of the total.
  double depth_of(double share) const;
  // The first id, ascending, at which the running sum of weights passes `draw` * total.
  int pick(const float* row, int size, float max, float inverse_temperature, double draw) const;
};

}  // namespace pyrite
