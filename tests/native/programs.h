#pragma once
// What tests of whole programs build them of: packed weights of pseudo-random values, and products.

#include <cstdint>
#include <utility>
#include <vector>

#include "program/program.h"

namespace pyrite {

class Weights {
 public:
  // A packed F32 matrix of small pseudo-random values.
  PackedMatrix matrix(int rows, int columns) { return stack(1, rows, columns).first; }

  MatrixStack stack(int count, int rows, int columns) {
    std::vector<float> values(size_t(rows) * size_t(columns));
    const int panels = (rows + kPanelRows - 1) / kPanelRows;
    const size_t panel_bytes = packed_panel_bytes(WeightType::F32, columns);
    const size_t matrix_bytes = panel_bytes * size_t(panels);
    regions_.emplace_back(matrix_bytes * size_t(count));
    for (int i = 0; i < count; ++i) {
      for (float& value : values) value = next();
      pack_panels(WeightType::F32, rows, columns, reinterpret_cast<const uint8_t*>(values.data()),
                  0, panels, regions_.back().data() + size_t(i) * matrix_bytes);
    }
    return {{WeightType::F32, rows, columns, panel_bytes, regions_.back().data()}, count};
  }

 private:
  float next() {
    state_ = state_ * 1664525 + 1013904223;
    return float(int32_t(state_) >> 8) / float(1 << 25);
  }

  uint32_t state_ = 1;
  std::vector<Region> regions_;
};

inline LinearOp linear(Program& program, Slice in, Slice out, std::vector<const PackedMatrix*> matrices) {
  LinearOp op;
  op.preparation = {Rows::kTokens, in, Norm(), 2};
  op.out = out;
  for (const PackedMatrix* matrix : matrices) {
    Segment segment;
    segment.matrix = matrix;
    segment.first_output = op.segments.empty() ? 0 : op.segments.back().first_output +
                                                         op.segments.back().matrix->rows;
    op.segments.push_back(segment);
    op.preparation.forms |= program.kernels().activation_forms(matrix->type, 2);
  }
  op.preparation.row_bytes =
      program.kernels().activation_bytes(in.width, 2, op.preparation.forms);
  return op;
}

inline void add_linear(Program& program, LinearOp op) {
  program.add(PrepareOp{op.preparation}, "prepare");
  program.add(std::move(op), "linear");
}

}  // namespace pyrite
