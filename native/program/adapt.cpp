#include "program/adapt.h"

#include <algorithm>
#include <cstring>

#include "program/tiles.h"

namespace pyrite {

namespace {

constexpr int kRowsPerChunk = 16;
constexpr int kPanelsPerChunk = 8192 / kPanelRows;  // so that one row of logits is work for many
constexpr int kPlanes = 2;

size_t line_up(size_t bytes) { return (bytes + 63) / 64 * 64; }

int inner_stride(const AdaptOp& op) { return divide_up(op.most_rank, kPanelRows) * kPanelRows; }

// The pair that changes a row; without matrices where none does.
AdapterPair pair_of(const AdaptOp& op, const Batch& batch, int row) {
  const int adapter = adapter_of(batch, op.rows, row);
  return adapter < 0 ? AdapterPair() : op.adapters[size_t(adapter)];
}

int panels_of(const AdaptOp& op) { return divide_up(op.out.width, kPanelRows); }

// Panels of the result, and the rows of the matrices that give them.
struct PanelRange {
  int first, end;

  int column() const { return first * kPanelRows; }
  int width(const AdaptOp& op) const {
    return std::min(end * kPanelRows, op.out.width) - column();
  }
};

void keep(const AdaptOp& op, PanelRange panels, int row) {
  if (op.in_place()) return;
  const int column = panels.column();
  std::memcpy(op.out.row(row) + column, op.base.row(row) + column,
              sizeof(float) * size_t(panels.width(op)));
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

void pick_rows(const AdaptOp& op, const Step& step, const AdapterPair& pair, int first_row,
               int num_rows, float* inner) {
  for (int i = 0; i < num_rows; ++i) {
    float* row = inner + size_t(i) * inner_stride(op);
    unpack_row(*pair.down, step.batch.token_ids[first_row + i], row);
    if (op.scale != 1.0f) step.kernels.rows.scale(row, op.scale, pair.up->columns, row);
  }
}

void multiply_down(const AdaptOp& op, const Step& step, const AdapterPair& pair, int first_row,
                   int num_rows, const Scratch& scratch) {
  for (int i = 0; i < num_rows; ++i) {
    step.kernels.prepare_row(op.in.row(first_row + i), op.in.width, kPlanes, op.forms,
                             scratch.rows + size_t(i) * op.row_bytes);
  }
  const Activations in = {op.in.width, kPlanes, op.forms, op.row_bytes, scratch.rows};
  step.kernels.matmul(*pair.down, 0, divide_up(pair.down->rows, kPanelRows), in, 0, num_rows,
                      scratch.inner, inner_stride(op));
}

void add(const AdaptOp& op, const Step& step, Member& member, const AdapterPair& pair,
         PanelRange panels, int first_row, int num_rows) {
  const Scratch scratch(op, member);
  const int rank = pair.up->columns;
  if (op.in) {
    multiply_down(op, step, pair, first_row, num_rows, scratch);
  } else {
    pick_rows(op, step, pair, first_row, num_rows, scratch.inner);
  }
  for (int i = 0; i < num_rows; ++i) {
    step.kernels.prepare_row(scratch.inner + size_t(i) * inner_stride(op), rank, kPlanes, op.forms,
                             scratch.inner_rows + size_t(i) * op.inner_row_bytes);
  }
  const Activations inner = {rank, kPlanes, op.forms, op.inner_row_bytes, scratch.inner_rows};
  for (int panel = panels.first; panel < panels.end; panel += kTilePanels) {
    const PanelRange part = {panel, std::min(panel + kTilePanels, panels.end)};
    step.kernels.matmul(*pair.up, panel, part.end - panel, inner, 0, num_rows, member.tile,
                        kTileStride);
    for (int i = 0; i < num_rows; ++i) {
      step.kernels.rows.add(op.base.row(first_row + i) + part.column(),
                            member.tile + size_t(i) * kTileStride, part.width(op),
                            op.out.row(first_row + i) + part.column());
    }
  }
}

void check(const AdaptOp& op, const Step& step, PanelRange panels, int row) {
  const float* logits = op.out.row(row) + panels.column();
  if (!step.kernels.rows.all_finite(logits, panels.width(op))) step.mark_broken(row);
}

int column_chunks(const AdaptOp& op) { return divide_up(panels_of(op), kPanelsPerChunk); }

}  // namespace

int adapter_of(const Batch& batch, Rows rows, int row) {
  if (batch.adapters == nullptr) return -1;
  const int token = rows == Rows::kTokens ? row : batch.output_rows[row];
  const int32_t* starts = batch.sequence_starts;
  const int32_t* after = std::upper_bound(starts, starts + batch.num_sequences + 1, token);
  return batch.adapters[after - starts - 1];
}

bool any_adapter(const Batch& batch) {
  if (batch.adapters == nullptr) return false;
  return std::any_of(batch.adapters, batch.adapters + batch.num_sequences,
                     [](int32_t adapter) { return adapter >= 0; });
}

size_t adapt_bytes(const AdaptOp& op) {
  const size_t floats = size_t(kRowsPerChunk) * inner_stride(op);
  return line_up(kRowsPerChunk * op.row_bytes) + line_up(sizeof(float) * floats) +
         kRowsPerChunk * op.inner_row_bytes;
}

int count_chunks(const AdaptOp& op, const Step& step) {
  if (op.in_place() && !any_adapter(step.batch)) return 0;
  return divide_up(step.num_rows(op.rows), kRowsPerChunk) * column_chunks(op);
}

void run_chunk(const AdaptOp& op, const Step& step, Member& member, int chunk) {
  const int first_panel = chunk % column_chunks(op) * kPanelsPerChunk;
  const PanelRange panels = {first_panel, std::min(first_panel + kPanelsPerChunk, panels_of(op))};
  const int first_row = chunk / column_chunks(op) * kRowsPerChunk;
  const int end = std::min(step.num_rows(op.rows), first_row + kRowsPerChunk);
  member.prepared_by = nullptr;
  for (int row = first_row; row < end;) {
    const AdapterPair pair = pair_of(op, step.batch, row);
    int after = row + 1;
    while (after < end && pair_of(op, step.batch, after).down == pair.down) ++after;
    if (pair.down != nullptr) {
      add(op, step, member, pair, panels, row, after - row);
    } else {
      for (int i = row; i < after; ++i) keep(op, panels, i);
    }
    for (; row < after; ++row) {
      if (op.is_result) check(op, step, panels, row);
    }
  }
}

}  // namespace pyrite
