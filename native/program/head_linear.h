#pragma once
// Products of each head with a matrix of its own. A chunk is one head, or some of its outputs, by
// some rows; it prepares the rows' columns for itself, which costs little beside the product and
// saves a phase.

#include "program/matrix_stack.h"
#include "program/step.h"

namespace pyrite {

struct HeadLinearOp {
  Rows rows;
  Slice in, out;
  MatrixStack weight;  // a matrix a head
  int carried = 0;     // columns of a head that follow its product unchanged
  int planes = 2;
  uint32_t forms = 0;
  size_t row_bytes = 0;  // of a head of a row, prepared
};

int count_chunks(const HeadLinearOp& op, const Step& step);
void run_chunk(const HeadLinearOp& op, const Step& step, Member& member, int chunk);

}  // namespace pyrite
