#include "program/adapt.h"

#include <algorithm>
#include <cstring>

#include "program/tiles.h"

namespace pyrite {

namespace {

constexpr int kRowsPerChunk = 16;
constexpr int kPlanes = 2;

size_t line_up(size_t bytes) { return (bytes + 63) / 64 * 64; }

int inner_stride(const AdaptOp& op) { return divide_up(op.most_rank, kPanelRows) * kPanelRows; }

bool any_adapter(const Batch& batch) {
  if (batch.adapters == nullptr) return false;
  return std::any_of(batch.adapters, batch.adapters + batch.num_sequences,
                     [](int32_t adapter) { return adapter >= 0; });
}

// The pair that changes a row; without matrices where none does.
AdapterPair pair_of(const AdaptOp& op, const Batch& batch, int row) {
  if (batch.adapters == nullptr) return {};
  const int token = op.rows == Rows::kTokens ? row : batch.output_rows[row];
  const int32_t* starts = batch.sequence_starts;
  const int32_t* after = std::upper_bound(starts, starts + batch.num_sequences + 1, token);
  const int32_t adapter = batch.adapters[after - starts - 1];
  return adapter < 0 ? AdapterPair() : op.adapters[size_t(adapter)];
}

void keep(const AdaptOp& op, int row) {
  if (!op.in_place()) {
    std::memcpy(op.out.row(row), op.base.row(row), sizeof(float) * size_t(op.out.width));
  }
}

// The member's scratch: prepared rows of the input, what the first product gave, that prepared.
struct Scratch {
  uint8_t* rows;
  float* inner;
  uint8_t* inner_rows;

  Scratch(const AdaptOp& op, const Member& member) {
    rows = member.activations;
    const size_t inner_at = line_up(kRowsPerChunk * op.row_bytes);
    inner = reinterpret_cast<float*>(rows + inner_at);
    const size_t floats = size_t(kRowsPerChunk) * inner_stride(op);
    inner_rows = rows + inner_at + line_up(sizeof(float) * floats);
  }
};

void add(const AdaptOp& op, const Step& step, Member& member, const AdapterPair& pair,
         int first_row, int num_rows) {
  const Scratch scratch(op, member);
  const int stride = inner_stride(op), rank = pair.down->rows;
  for (int i = 0; i < num_rows; ++i) {
    step.kernels.prepare_row(op.in.row(first_row + i), op.in.width, kPlanes, op.forms,
                             scratch.rows + size_t(i) * op.row_bytes);
  }
  const Activations in = {op.in.width, kPlanes, op.forms, op.row_bytes, scratch.rows};
  step.kernels.matmul(*pair.down, 0, divide_up(rank, kPanelRows), in, 0, num_rows, scratch.inner,
                      stride);
  for (int i = 0; i < num_rows; ++i) {
    step.kernels.prepare_row(scratch.inner + size_t(i) * stride, rank, kPlanes, op.forms,
                             scratch.inner_rows + size_t(i) * op.inner_row_bytes);
  }
  const Activations inner = {rank, kPlanes, op.forms, op.inner_row_bytes, scratch.inner_rows};
  const int panels = divide_up(op.out.width, kPanelRows);
  for (int panel = 0; panel < panels; panel += kTilePanels) {
    const int column = panel * kPanelRows;
    const int lanes = std::min(kTilePanels * kPanelRows, op.out.width - column);
    step.kernels.matmul(*pair.up, panel, std::min(kTilePanels, panels - panel), inner, 0, num_rows,
                        member.tile, kTileStride);
    for (int i = 0; i < num_rows; ++i) {
      step.kernels.rows.add(op.base.row(first_row + i) + column,
                            member.tile + size_t(i) * kTileStride, lanes,
                            op.out.row(first_row + i) + column);
    }
  }
}

}  // namespace

size_t adapt_bytes(const AdaptOp& op) {
  const size_t floats = size_t(kRowsPerChunk) * inner_stride(op);
  return line_up(kRowsPerChunk * op.row_bytes) + line_up(sizeof(float) * floats) +
         kRowsPerChunk * op.inner_row_bytes;
}

int count_chunks(const AdaptOp& op, const Step& step) {
  if (op.in_place() && !any_adapter(step.batch)) return 0;
  return divide_up(step.num_rows(op.rows), kRowsPerChunk);
}

void run_chunk(const AdaptOp& op, const Step& step, Member& member, int chunk) {
  const int end = std::min(step.num_rows(op.rows), (chunk + 1) * kRowsPerChunk);
  member.prepared_by = nullptr;
  for (int row = chunk * kRowsPerChunk; row < end;) {
    const AdapterPair pair = pair_of(op, step.batch, row);
    int after = row + 1;
    while (after < end && pair_of(op, step.batch, after).down == pair.down) ++after;
    if (pair.down != nullptr) {
      add(op, step, member, pair, row, after - row);
    } else {
      for (int i = row; i < after; ++i) keep(op, i);
    }
    row = after;
  }
}

}  // namespace pyrite
