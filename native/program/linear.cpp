#include "program/linear.h"

#include <algorithm>

namespace pyrite {

namespace {

constexpr size_t kSmallestChunkBytes = 16 * 1024;  // of weights, with one row
constexpr int kChunksPerMember = 6;
constexpr int kFewRows = 16;  // with more, a product no longer waits for memory
constexpr int kChunksOfFewRows = 24;  // of a member: memory is shared unevenly, and a wait is lost

// How the product is cut for a number of rows. Panels are outermost, so that members that take
// adjacent chunks share the weights.
struct Cut {
  int rows;        // of a chunk
  int row_chunks;
  int panels;      // of a chunk

  int chunks(const Segment& segment) const {
    return divide_up(segment.num_panels(), panels) * row_chunks;
  }
};

Cut cut(const LinearOp& op, int num_rows, int num_members) {
  const Tiles tiles(num_rows);
  int panels = 0;
  for (const Segment& segment : op.segments) panels += segment.num_panels();
  const size_t panel_bytes = std::max<size_t>(1, op.segments.front().matrix->panel_bytes);
  const int smallest = std::max(1, int(kSmallestChunkBytes / panel_bytes / size_t(num_rows)));
  const int chunks = num_rows <= kFewRows ? kChunksOfFewRows : kChunksPerMember;
  const int fair = divide_up(panels * tiles.count, num_members * chunks);
  return {tiles.rows, tiles.count, std::max(smallest, fair)};
}

void prepare(const Preparation& preparation, const Step& step, Member& member, int row,
             uint8_t* rows) {
  const float* in = input_row(preparation, step, member, row);
  step.kernels.prepare_row(in, preparation.in.width, preparation.planes, preparation.forms,
                           rows + size_t(row) * preparation.row_bytes);
}

Activations activations(const LinearOp& op, const Step& step, Member& member, int num_rows) {
  const Preparation& form = op.preparation;
  uint8_t* rows = step.activations;
  if (num_rows <= kPrivateRows) {
    rows = member.activations;
    if (member.prepared_by != &op || member.prepared_in != step.number) {
      for (int row = 0; row < num_rows; ++row) prepare(form, step, member, row, rows);
      member.prepared_by = &op;
      member.prepared_in = step.number;
    }
  }
  return {form.in.width, form.planes, form.forms, form.row_bytes, rows};
}

// A tile of the result: some rows by the outputs of some panels of one segment.
struct Tile {
  const Segment& segment;
  int first_row, num_rows;
  int first_panel, num_panels;

  int first_lane() const { return first_panel * kPanelRows; }
  int num_lanes() const {
    return std::min(num_panels * kPanelRows, segment.matrix->rows - first_lane());
  }
};

void multiply(const PackedMatrix& matrix, const float* bias, const Activations& in,
              const Tile& tile, const Step& step, float* sums, size_t stride) {
  step.kernels.matmul(matrix, tile.first_panel, tile.num_panels, in, tile.first_row, tile.num_rows,
                      sums, stride);
  if (bias == nullptr) return;
  for (int row = 0; row < tile.num_rows; ++row) {
    float* lanes = sums + row * stride;
    step.kernels.rows.add(lanes, bias + tile.first_lane(), tile.num_lanes(), lanes);
  }
}

// What comes after the sums of one row of a tile. `sums` may be `out`; `out` may be the residual.
void finish_row(const LinearOp& op, const Step& step, int row, int column, int width,
                const float* sums, float* out) {
  const RowKernels& kernels = step.kernels.rows;
  if (op.residual) kernels.add(sums, op.residual.row(row) + column, width, out);
  if (op.is_result && !kernels.all_finite(out, width)) step.mark_broken(row);
  if (op.softcap > 0) kernels.softcap(out, op.softcap, width, out);
}

// Sums go to the member's own scratch when something is still to be combined with them, for the
// result may lie where an operand does.
void run_tile(const LinearOp& op, const Activations& in, const Tile& tile, const Step& step,
              Member& member) {
  const int column = tile.segment.first_output + tile.first_lane();
  const bool gated = op.activation != Activation::kNone;
  const bool apart = gated || op.residual;
  float* sums = apart ? member.tile : op.out.row(tile.first_row) + column;
  const size_t stride = apart ? kTileStride : op.out.stride;
  float* up = member.tile + kTileRows * kTileStride;
  multiply(*tile.segment.matrix, tile.segment.bias, in, tile, step, sums, stride);
  if (gated) multiply(*tile.segment.pair, tile.segment.pair_bias, in, tile, step, up, stride);
  for (int i = 0; i < tile.num_rows; ++i) {
    const int row = tile.first_row + i;
    float* out = op.out.row(row) + column;
    float* line = sums + i * stride;
    if (gated) {
      step.kernels.rows.gate(op.activation, line, up + i * stride, tile.num_lanes(),
                             op.residual ? line : out);
    }
    finish_row(op, step, row, column, tile.num_lanes(), line, out);
  }
}

}  // namespace

const float* input_row(const Preparation& preparation, const Step& step, Member& member, int row) {
  const float* in = preparation.in.row(row);
  if (!preparation.norm) return in;
  step.kernels.rows.normalize(preparation.norm, in, preparation.in.width, member.row);
  return member.row;
}

int count_chunks(const PrepareOp& op, const Step& step) {
  const int num_rows = step.num_rows(op.preparation.rows);
  return num_rows <= kPrivateRows ? 0 : num_rows;
}

void run_chunk(const PrepareOp& op, const Step& step, Member& member, int chunk) {
  prepare(op.preparation, step, member, chunk, step.activations);
}

int count_chunks(const LinearOp& op, const Step& step) {
  const int num_rows = step.num_rows(op.preparation.rows);
  if (num_rows == 0) return 0;
  const Cut whole = cut(op, num_rows, step.num_members);
  int chunks = 0;
  for (const Segment& segment : op.segments) chunks += whole.chunks(segment);
  return chunks;
}

void run_chunk(const LinearOp& op, const Step& step, Member& member, int chunk) {
  const int num_rows = step.num_rows(op.preparation.rows);
  const Activations in = activations(op, step, member, num_rows);
  const Cut whole = cut(op, num_rows, step.num_members);
  const Segment* segment = op.segments.data();
  for (; chunk >= whole.chunks(*segment); ++segment) chunk -= whole.chunks(*segment);

  const int first_row = chunk % whole.row_chunks * whole.rows;
  const int rows = std::min(whole.rows, num_rows - first_row);
  const int first_panel = chunk / whole.row_chunks * whole.panels;
  const int end_panel = std::min(first_panel + whole.panels, segment->num_panels());
  for (int panel = first_panel; panel < end_panel; panel += kTilePanels) {
    const int panels = std::min(kTilePanels, end_panel - panel);
    run_tile(op, in, {*segment, first_row, rows, panel, panels}, step, member);
  }
}

}  // namespace pyrite
