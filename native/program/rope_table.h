#pragma once
// Cosines and sines of one rotary configuration, for every position up to the largest one seen.

#include <cstddef>
#include <vector>

namespace pyrite {

class RopeTable {
 public:
  // `frequencies`: angle a position, in radians, of each pair of columns; `factor` is on both tables,
  // and 1 + growth log(1 + floor(position / growth_span)).
  RopeTable(std::vector<double> frequencies, double factor, bool pairs, double growth,
            int growth_span);

  int half() const { return int(frequencies_.size()); }
  bool pairs() const { return pairs_; }
  // Makes room for positions 0 .. count - 1. Not while a step runs.
  void grow(int count);
  const float* cosines(int position) const { return row(position); }
  const float* sines(int position) const { return row(position) + half(); }

 private:
  const float* row(int position) const { return table_.data() + size_t(position) * 2 * half(); }

  std::vector<double> frequencies_;
  double factor_;
  bool pairs_;
  double growth_;
  int growth_span_;
  std::vector<float> table_;  // (positions, 2, half)
};

}  // namespace pyrite
