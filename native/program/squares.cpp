#include "program/squares.h"

namespace pyrite {

int count_chunks(const SquaresOp& op, const Step& step) {
  return step.num_rows(op.input.rows) > 0 ? 1 : 0;
}

void run_chunk(const SquaresOp& op, const Step& step, Member& member, int) {
  const int num_rows = step.num_rows(op.input.rows);
  double* sums = op.squares->sums.data();
  for (int row = 0; row < num_rows; ++row) {
    const float* in = input_row(op.input, step, member, row);
    for (int column = 0; column < op.input.in.width; ++column) {
      sums[column] += double(in[column]) * double(in[column]);
    }
  }
  op.squares->num_rows += num_rows;
}

}  // namespace pyrite
