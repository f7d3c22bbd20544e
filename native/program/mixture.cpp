#include "program/mixture.h"

#include <algorithm>

#include "program/tiles.h"

namespace pyrite {

void Mixture::reserve(const MixtureSizes& sizes) {
  chosen.resize(sizes.pairs);
  weights.resize(sizes.pairs);
  pairs.resize(sizes.pairs);
  pair_rows.resize(sizes.pairs);
  pair_weights.resize(sizes.pairs);
  pair_adapters.resize(sizes.pairs);
  first_pairs.resize(sizes.experts + 2);
  hit.resize(sizes.experts);
  first_units.resize(sizes.experts + 1);
  inner = Region(sizeof(float) * sizes.inner);
  given = Region(sizeof(float) * sizes.given);
  ranks = Region(sizes.ranks);
}

// Sorts by counting. While pairs are placed, first_pairs[e + 1] is where the next one of e goes; then
// it is where those of e + 1 begin.
void Mixture::group(int num_rows, int num_used, int num_experts, int panels) {
  const int count = num_rows * num_used;
  int32_t* next = first_pairs.data() + 1;
  std::fill_n(first_pairs.begin(), num_experts + 2, 0);
  for (int i = 0; i < count; ++i) ++next[chosen[size_t(i)] + 1];
  for (int expert = 0; expert < num_experts; ++expert) next[expert + 1] += next[expert];
  for (int i = 0; i < count; ++i) {
    const int32_t pair = next[chosen[size_t(i)]]++;
    pairs[size_t(i)] = pair;
    pair_rows[size_t(pair)] = i / num_used;
    pair_weights[size_t(pair)] = weights[size_t(i)];
  }
  num_hit = 0;
  first_units[0] = 0;
  for (int expert = 0; expert < num_experts; ++expert) {
    if (num_pairs(expert) == 0) continue;
    const int units = Tiles(num_pairs(expert)).count * panels;
    first_units[size_t(num_hit) + 1] = first_units[size_t(num_hit)] + units;
    hit[size_t(num_hit++)] = expert;
  }
}

}  // namespace pyrite
