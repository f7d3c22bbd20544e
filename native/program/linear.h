#pragma once
// Products with packed weights. `PrepareOp` turns rows of activations into what the kernels read;
// `LinearOp` multiplies, a chunk being some panels by some rows, and finishes a tile while it is hot.
// With few rows nobody prepares for the others: each member prepares all rows for itself, which
// gives the same bits and saves a wait.

#include <vector>

#include "program/row_ops.h"
#include "program/step.h"
#include "program/tiles.h"

namespace pyrite {

constexpr int kPrivateRows = 2;   // up to so many rows each member prepares its own

// One weight matrix of a Linear; with an activation `pair` holds the matching "up" matrix.
struct Segment {
  const PackedMatrix* matrix = nullptr;
  const float* bias = nullptr;
  const PackedMatrix* pair = nullptr;
  const float* pair_bias = nullptr;
  int first_output = 0;  // column of its first row in the result

  int num_panels() const { return (matrix->rows + kPanelRows - 1) / kPanelRows; }
};

// What the rows of one Linear are prepared into.
struct Preparation {
  Rows rows;
  Slice in;
  Norm norm;
  int planes = 2;
  uint32_t forms = 0;
  size_t row_bytes = 0;
};

struct PrepareOp {
  Preparation preparation;
};

struct LinearOp {
  Preparation preparation;
  std::vector<Segment> segments;
  Slice out;
  Activation activation = Activation::kNone;
  Slice residual;
  float softcap = 0;
  bool is_result = false;  // its rows are logits, and are checked for NaN and infinity
};

// A row that goes into the product, normalised; it may lie in the member's scratch.
const float* input_row(const Preparation& preparation, const Step& step, Member& member, int row);

int count_chunks(const PrepareOp& op, const Step& step);
int count_chunks(const LinearOp& op, const Step& step);
void run_chunk(const PrepareOp& op, const Step& step, Member& member, int chunk);
void run_chunk(const LinearOp& op, const Step& step, Member& member, int chunk);

}  // namespace pyrite
