#pragma once
// Sums of squares of what goes into a product, column by column: what an importance matrix is made of.
// A program has such operations only where they were asked for. One member adds up all rows in their
// order, in double precision, so the sums do not depend on the threads.

#include <cstdint>
#include <vector>

#include "program/linear.h"

namespace pyrite {

struct Squares {
  std::vector<double> sums;  // of each column
  int64_t num_rows = 0;
};

struct SquaresOp {
  Preparation input;  // rows, columns and norm of the product
  Squares* squares;
};

int count_chunks(const SquaresOp& op, const Step& step);
void run_chunk(const SquaresOp& op, const Step& step, Member& member, int chunk);

}  // namespace pyrite
