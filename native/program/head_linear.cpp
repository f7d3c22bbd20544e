#include "program/head_linear.h"

#include <algorithm>
#include <cstring>

#include "program/tiles.h"

namespace pyrite {

namespace {

constexpr int kChunksPerMember = 6;

struct Cut {
  Tiles tiles;
  int panels;  // of a chunk
  int parts;   // that a head's panels are cut into

  int chunks(int heads) const { return heads * parts * tiles.count; }
};

Cut cut(const HeadLinearOp& op, const Step& step) {
  const Tiles tiles(step.num_rows(op.rows));
  const int panels = op.weight.num_panels();
  const int whole = std::max(1, op.weight.count * tiles.count);
  const int wanted = std::min(divide_up(step.num_members * kChunksPerMember, whole), panels);
  const int together = divide_up(panels, wanted);
  return {tiles, together, divide_up(panels, together)};
}

void carry(const HeadLinearOp& op, int head, int first_row, int num_rows) {
  const PackedMatrix& matrix = op.weight.first;
  const size_t from = size_t(head) * (matrix.columns + op.carried) + matrix.columns;
  const size_t to = size_t(head) * (matrix.rows + op.carried) + matrix.rows;
  for (int row = first_row; row < first_row + num_rows; ++row) {
    std::memcpy(op.out.row(row) + to, op.in.row(row) + from, sizeof(float) * size_t(op.carried));
  }
}

}  // namespace

int count_chunks(const HeadLinearOp& op, const Step& step) {
  return cut(op, step).chunks(op.weight.count);
}

void run_chunk(const HeadLinearOp& op, const Step& step, Member& member, int chunk) {
  const Cut whole = cut(op, step);
  const int first_row = chunk % whole.tiles.count * whole.tiles.rows;
  const int rows = std::min(whole.tiles.rows, step.num_rows(op.rows) - first_row);
  const int part = chunk / whole.tiles.count % whole.parts;
  const int head = chunk / whole.tiles.count / whole.parts;
  const PackedMatrix matrix = op.weight.at(head);
  const size_t column = size_t(head) * (matrix.columns + op.carried);
  member.prepared_by = nullptr;
  for (int i = 0; i < rows; ++i) {
    step.kernels.prepare_row(op.in.row(first_row + i) + column, matrix.columns, op.planes, op.forms,
                             member.activations + size_t(i) * op.row_bytes);
  }
  const Activations in = {matrix.columns, op.planes, op.forms, op.row_bytes, member.activations};
  const int panel = part * whole.panels;
  float* out = op.out.row(first_row) + size_t(head) * (matrix.rows + op.carried) +
               size_t(panel) * kPanelRows;
  step.kernels.matmul(matrix, panel, std::min(whole.panels, op.weight.num_panels() - panel), in, 0,
                      rows, out, op.out.stride);
  if (part == 0 && op.carried > 0) carry(op, head, first_row, rows);
}

}  // namespace pyrite
