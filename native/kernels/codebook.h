#pragma once
// Reading one block of IQ1, IQ2 or IQ3, whose codes are numbers of points in a grid.

#include <cstdint>

#include "kernels/table.h"

namespace pyrite {

// As read_codes in file_block.h: the digits of points, with the bit of a sign above them. For IQ1_M
// that bit tells that 1/8 is taken away, not added.
void read_points(WeightType type, const uint8_t* block, int part, uint8_t codes[32]);

// As read_steps: odd numbers. Above those of IQ1_S is the bit that tells of 1/8.
void read_odd_steps(WeightType type, const uint8_t* block, int part, uint8_t steps[2]);

}  // namespace pyrite
