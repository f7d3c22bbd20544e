#pragma once
// Matrices of one shape, one after the other: those of experts, or of heads.

#include "kernels/table.h"

namespace pyrite {

struct MatrixStack {
  PackedMatrix first = {};
  int count = 0;

  int num_panels() const { return (first.rows + kPanelRows - 1) / kPanelRows; }
  PackedMatrix at(int index) const {
    PackedMatrix matrix = first;
    matrix.data += size_t(index) * size_t(num_panels()) * first.panel_bytes;
    return matrix;
  }
  explicit operator bool() const { return count > 0; }
};

}  // namespace pyrite
