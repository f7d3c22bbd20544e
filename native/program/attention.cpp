#include "program/attention.h"

#include <algorithm>

namespace pyrite {

namespace {

constexpr int kLargestTileRows = 36;

// Rows are read this far ahead, for they lie too far apart for the processor to guess the next one.
constexpr int kRowsAhead = 4;

void ask(const float* columns, int width) {
  for (int i = 0; i < width; i += 16) __builtin_prefetch(columns + i);
}

// Calls shape(i) for the rows of a range, each asked for beforehand: `width` columns from `from` on.
template <class Shape>
void each_row(const Slice& from, const RowRange& rows, size_t column, int width, Shape shape) {
  for (int i = -kRowsAhead; i < rows.num_rows; ++i) {
    const int next = i + kRowsAhead;
    if (next < rows.num_rows) ask(from.row(rows.first_row + next) + column, width);
    if (i >= 0) shape(i);
  }
}

// The head as attention sees it: normalised, rotated, scaled.
void shape_head(const AttentionOp& op, const Step& step, const Norm& norm, int position, float scale,
                const float* head, float* out) {
  const RowKernels& kernels = step.kernels.rows;
  if (norm) {
    kernels.normalize(norm, head, op.shape.key_width, out);
    head = out;
  }
  if (op.rope != nullptr) {
    rotate_head(kernels, *op.rope, position, head, op.shape.key_width, out);
    head = out;
  }
  if (scale != 1.0f || head != out) kernels.scale(head, scale, op.shape.key_width, out);
}

const int32_t* page_table(const Batch& batch, int sequence) {
  return batch.page_tables + size_t(sequence) * batch.page_table_width;
}

// Rows whose positions lie in one page.
void store_run(const AttentionOp& op, const Step& step, Member& member, const RowRange& rows,
               int key_head) {
  const int position = step.batch.positions[rows.first_row];
  const int32_t page = page_table(step.batch, rows.sequence)[position / kPageTokens];
  uint8_t* block = step.pages + size_t(page) * step.page_bytes + op.layer_offset +
                   size_t(key_head) * op.block_bytes();
  const int width = op.shape.key_width;
  const size_t column = size_t(key_head) * width;
  const float* values = nullptr;
  if (op.value) values = op.value.row(rows.first_row) + size_t(key_head) * op.shape.value_width;
  each_row(op.key, rows, column, width, [&](int i) {
    if (values != nullptr) ask(values + size_t(i) * op.value.stride, op.shape.value_width);
    shape_head(op, step, op.key_norm, position + i, 1.0f, op.key.row(rows.first_row + i) + column,
               member.attention + size_t(i) * width);
  });
  step.kernels.attention.of(op.kv_type).store(
      {member.attention, values, op.value.stride, op.shape, position % kPageTokens, rows.num_rows,
       block});
}

const TileCut& cut_of(const AttentionOp& op, const Step& step) {
  return step.cut(op.rows, op.window, op.key_heads);
}

// How many parts the heads of a group are cut into: as few as give every member a chunk, for heads
// that are attended together share the reading of their keys. A query's result does not depend on
// the heads beside it.
int head_parts(const AttentionOp& op, const Step& step) {
  const int chunks = int(cut_of(op, step).pieces.size()) * op.key_heads;
  const int group = op.group();
  for (int parts = 1; parts < group; ++parts) {
    if (group % parts == 0 && group / parts <= kTileQueries && chunks * parts >= step.num_members) {
      return parts;
    }
  }
  return group;
}

// With one tile a sequence, and no heads of a group apart, a chunk stores the keys and values of
// those of its rows whose positions lie in its spans: no other chunk reads them.
bool stores_in_attend(const AttentionOp& op, const Step& step) {
  return op.key && step.one_tile_each && head_parts(op, step) == 1;
}

// What one chunk works on: a piece by the heads [first_head, first_head + num_heads).
struct Work {
  Piece piece;
  RowRange rows;
  int key_head, first_head, num_heads;

  int num_queries() const { return rows.num_rows * num_heads; }
};

Work work_of(const AttentionOp& op, const Step& step, const std::vector<Piece>& pieces, int chunk) {
  const int parts = head_parts(op, step);
  const int heads = op.group() / parts;
  const int part = chunk % parts;
  const int key_head = chunk / parts % op.key_heads;
  const Piece& piece = pieces[size_t(chunk / parts / op.key_heads)];
  return {piece, step.tiles_of(op.rows)[size_t(piece.tile)], key_head, key_head * op.group() + part * heads,
          heads};
}

void store_own(const AttentionOp& op, const Step& step, Member& member, const Work& work) {
  const int first = step.batch.positions[work.rows.first_row];
  int row = std::max(0, work.piece.first_span * kSpanTokens - first);
  const int end = std::min(work.rows.num_rows, work.piece.end_span * kSpanTokens - first);
  while (row < end) {
    const int count = std::min(end - row, kPageTokens - (first + row) % kPageTokens);
    store_run(op, step, member, {work.rows.sequence, work.rows.first_row + row, count},
              work.key_head);
    row += count;
  }
}

// The tile but for its queries. Partials are (spans, heads / num_heads, rows, num_heads): those of
// one span are together, whatever piece it belongs to.
AttendTile tile_of(const AttentionOp& op, const Step& step, Member& member, const Work& work) {
  const int width = partial_width(op.shape.value_width);
  AttendTile tile = {};
  tile.queries = member.attention;
  tile.num_queries = work.num_queries();
  tile.num_heads = work.num_heads;
  tile.shape = op.shape;
  tile.window = op.window;
  tile.softcap = op.softcap;
  tile.sinks = op.sinks == nullptr ? nullptr : op.sinks + work.first_head;
  tile.head_blocks = step.pages + op.layer_offset + size_t(work.key_head) * op.block_bytes();
  tile.page_bytes = step.page_bytes;
  tile.page_table = page_table(step.batch, work.rows.sequence);
  tile.first_span = work.piece.first_span;
  tile.end_span = work.piece.end_span;
  tile.scratch = member.attention + size_t(kTileQueries) * op.shape.key_width;
  tile.out = op.out.row(work.rows.first_row) + size_t(work.first_head) * op.shape.value_width;
  tile.out_stride = op.out.stride;
  if (!work.piece.whole()) {
    tile.partial_stride = size_t(work.rows.num_rows) * op.heads * width;
    tile.partials = step.partials + size_t(work.piece.first_partial) * op.heads * width +
                    size_t(work.first_head) * work.rows.num_rows * width;
  }
  return tile;
}

void attend(const AttentionOp& op, const Step& step, Member& member, const Work& work) {
  int32_t positions[kTileQueries];
  const int width = op.shape.key_width;
  const size_t column = size_t(work.first_head) * width;
  each_row(op.query, work.rows, column, work.num_heads * width, [&](int i) {
    const int row = work.rows.first_row + i;
    for (int head = 0; head < work.num_heads; ++head) {
      const int query = i * work.num_heads + head;
      const size_t offset = size_t(head) * width;
      positions[query] = step.position(op.rows, row);
      shape_head(op, step, op.query_norm, positions[query], op.scale,
                 op.query.row(row) + column + offset,
                 member.attention + size_t(query) * width);
    }
  });
  AttendTile tile = tile_of(op, step, member, work);
  tile.positions = positions;
  const BlockKernels& kernels = step.kernels.attention.of(op.kv_type);
  (work.piece.whole() ? kernels.attend : kernels.attend_spans)(tile);
}

}  // namespace

int tile_rows(int group) { return std::clamp(kTileQueries / group, 1, kLargestTileRows); }

size_t attention_floats(const AttentionKernels& kernels, const AttentionOp& op) {
  return size_t(kTileQueries) * op.shape.key_width +
         kernels.scratch_floats(kTileQueries, op.shape);
}

int partial_floats(const AttentionOp& op) { return op.heads * partial_width(op.shape.value_width); }

int count_chunks(const StoreOp& op, const Step& step) {
  return stores_in_attend(op.attention, step) ? 0 : int(step.runs.size()) * op.attention.key_heads;
}

void run_chunk(const StoreOp& op, const Step& step, Member& member, int chunk) {
  const int key_heads = op.attention.key_heads;
  store_run(op.attention, step, member, step.runs[size_t(chunk / key_heads)], chunk % key_heads);
}

int count_chunks(const AttendOp& op, const Step& step) {
  const AttentionOp& attention = op.attention;
  return int(cut_of(attention, step).pieces.size()) * attention.key_heads *
         head_parts(attention, step);
}

void run_chunk(const AttendOp& op, const Step& step, Member& member, int chunk) {
  const Work work = work_of(op.attention, step, cut_of(op.attention, step).pieces, chunk);
  if (stores_in_attend(op.attention, step)) store_own(op.attention, step, member, work);
  attend(op.attention, step, member, work);
}

int count_chunks(const JoinOp& op, const Step& step) {
  const AttentionOp& attention = op.attention;
  return int(cut_of(attention, step).joined.size()) * attention.key_heads *
         head_parts(attention, step);
}

void run_chunk(const JoinOp& op, const Step& step, Member& member, int chunk) {
  const Work work = work_of(op.attention, step, cut_of(op.attention, step).joined, chunk);
  step.kernels.attention.join(tile_of(op.attention, step, member, work));
}

}  // namespace pyrite
