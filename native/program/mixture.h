#pragma once
// Who goes to which expert in the mixture that runs: filled by its first phases, read by the others.
// A pair is a row and an expert that it goes to. Pairs are in the order of their experts, and those of
// an expert in the order of their rows.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "program/region.h"

namespace pyrite {

// What the mixtures of a program need at most.
struct MixtureSizes {
  size_t pairs = 0;
  size_t experts = 0;
  size_t inner = 0;  // floats, of all pairs
  size_t given = 0;  // floats, of the pairs of few rows
  size_t ranks = 0;  // bytes, of all pairs
};

struct Mixture {
  std::vector<int32_t> chosen;  // (rows, num_used) experts, ascending
  std::vector<float> weights;   // (rows, num_used)

  std::vector<int32_t> pairs;   // (rows, num_used) which pair each became

  std::vector<int32_t> pair_rows;    // (pairs,)
  std::vector<float> pair_weights;   // (pairs,)
  std::vector<int32_t> first_pairs;  // (experts + 1,)
  std::vector<int32_t> hit;          // experts that have pairs, ascending
  std::vector<int32_t> first_units;  // (hit + 1,): units are the panels of an expert, by its tiles
  int num_hit = 0;
  bool is_adapted = false;             // some row's sequence has an adapter that the mixture knows
  std::vector<int32_t> pair_adapters;  // (pairs,) then: the adapter of its row, -1: none
  Region inner;  // (pairs, feed_forward) what comes between an expert's products
  Region ranks;  // (2, pairs) prepared rows of what adapters' first matrices give
  Region given;  // (pairs, width) what experts give, weighed, where it is not summed by the way

  void reserve(const MixtureSizes& sizes);
  // From `chosen` and `weights` to the rest. `panels`: of the first product of an expert.
  void group(int num_rows, int num_used, int num_experts, int panels);

  int first_pair(int expert) const { return first_pairs[size_t(expert)]; }
  int num_pairs(int expert) const { return first_pair(expert + 1) - first_pair(expert); }
  int num_units() const { return first_units[size_t(num_hit)]; }
};

}  // namespace pyrite
