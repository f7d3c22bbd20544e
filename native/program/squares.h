#pragma once
// Sums of squares of what goes into a product, column by column: what an importance matrix is made of.
// A program has such operations only where they were asked for. One member adds up all rows in their
// order, in double precision, so the sums do not depend on the threads.

#include <cstdint>
#include <vector>

#include "program/experts.h"
#include "program/linear.h"

namespace pyrite {

// Of a matrix, or of each of a stack.
struct Squares {
  std::vector<double> sums;     // (matrices, columns)
  std::vector<int64_t> counts;  // (matrices,) rows that were added up
};

struct SquaresOp {
  Preparation input;  // rows, columns and norm of the product
  Squares* squares;
  int heads = 1;    // each with a matrix of its own
  int carried = 0;  // columns of a head that follow those that are multiplied
};

// Follows the phases of a mixture, and reads which rows went to which experts.
struct ExpertSquaresOp {
  Rows rows;
  Slice in;
  int feed_forward;
  Squares* outer;  // of what goes into the gate and up matrices
  Squares* inner;  // into the down matrices
};

int count_chunks(const SquaresOp& op, const Step& step);
int count_chunks(const ExpertSquaresOp& op, const Step& step);
void run_chunk(const SquaresOp& op, const Step& step, Member& member, int chunk);
void run_chunk(const ExpertSquaresOp& op, const Step& step, Member& member, int chunk);

}  // namespace pyrite
