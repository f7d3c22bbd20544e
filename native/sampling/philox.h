#pragma once
#include <cstdint>

namespace pyrite {

// Two numbers in [0, 1) with 53 bits each: `draw` picks the token, `coin` decides on XTC.
struct Random {
  double draw;
  double coin;
};

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011):
// key = seed, counter = (step, choice, 0). A pure function, so that a request draws the same
// numbers alone, in company, after it was interrupted, and when steps are guessed ahead.
Random random_at(uint64_t seed, uint32_t choice, uint64_t step);

}  // namespace pyrite
