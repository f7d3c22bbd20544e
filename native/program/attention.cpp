#include "program/attention.h"

#include <algorithm>

namespace pyrite {

namespace {

constexpr int kLargestTileRows = 32;

// The head as attention sees it: normalised, rotated, scaled.
void shape_head(const AttentionOp& op, const Step& step, const Norm& norm, int position, float scale,
                const float* head, float* out) {
  const RowKernels& kernels = step.kernels.rows;
  if (norm) {
    kernels.normalize(head, norm.weight, norm.eps, op.head_width, out);
    head = out;
  }
  if (op.rope != nullptr) {
    rotate_head(kernels, *op.rope, position, head, op.head_width, out);
    head = out;
  }
  if (scale != 1.0f || head != out) kernels.scale(head, scale, op.head_width, out);
}

int sequence_of(const Batch& batch, int row) {
  const int32_t* end = batch.sequence_starts + batch.num_sequences + 1;
  return int(std::upper_bound(batch.sequence_starts, end, row) - batch.sequence_starts) - 1;
}

const int32_t* page_table(const Batch& batch, int sequence) {
  return batch.page_tables + size_t(sequence) * batch.page_table_width;
}

void store_row(const AttentionOp& op, const Step& step, Member& member, int row, int sequence,
               int key_head) {
  const int position = step.batch.positions[row];
  const int32_t page = page_table(step.batch, sequence)[position / kPageTokens];
  uint8_t* block = step.pages + size_t(page) * step.page_bytes + op.layer_offset +
                   size_t(key_head) * op.block_bytes();
  float* key = member.attention;
  shape_head(op, step, op.key_norm, position, 1.0f,
             op.key.row(row) + size_t(key_head) * op.head_width, key);
  const float* value = op.value.row(row) + size_t(key_head) * op.head_width;
  step.kernels.attention.of(op.kv_type).store(key, value, op.head_width, position % kPageTokens,
                                              block);
}

// How many parts the heads of a group are cut into: as few as give every member a chunk, for heads
// that are attended together share the reading of their keys. A query's result does not depend on
// the heads beside it.
int head_parts(const AttentionOp& op, const Step& step) {
  const int chunks = int(step.tiles.size()) * op.key_heads;
  const int group = op.group();
  for (int parts = 1; parts < group; ++parts) {
    if (group % parts == 0 && group / parts <= kTileQueries && chunks * parts >= step.num_members) {
      return parts;
    }
  }
  return group;
}

// With one tile a sequence, and one chunk a key head, that chunk stores its own keys and values.
bool stores_in_attend(const AttentionOp& op, const Step& step) {
  return step.one_tile_each && head_parts(op, step) == 1;
}

// The queries of one chunk: `num_rows` rows by the heads [first_head, first_head + num_heads).
struct Queries {
  int sequence, first_row, num_rows, key_head, first_head, num_heads;

  int count() const { return num_rows * num_heads; }
};

// Tiles are taken last first: the last of a prompt sees the most keys.
Queries locate(const AttentionOp& op, const Step& step, int chunk) {
  const int parts = head_parts(op, step);
  const int heads = op.group() / parts;
  const int part = chunk % parts;
  const int key_head = chunk / parts % op.key_heads;
  const RowTile& tile = step.tiles[step.tiles.size() - 1 - chunk / parts / op.key_heads];
  return {tile.sequence, tile.first_row, tile.num_rows,
          key_head,      key_head * op.group() + part * heads, heads};
}

void gather(const AttentionOp& op, const Step& step, const Queries& queries, float* heads,
            int32_t* positions) {
  for (int i = 0; i < queries.count(); ++i) {
    const int row = queries.first_row + i / queries.num_heads;
    const int head = queries.first_head + i % queries.num_heads;
    positions[i] = step.batch.positions[row];
    shape_head(op, step, op.query_norm, positions[i], op.scale,
               op.query.row(row) + size_t(head) * op.head_width, heads + size_t(i) * op.head_width);
  }
}

void scatter(const AttentionOp& op, const Queries& queries, const float* results) {
  const int stride = padded_width(op.head_width);
  for (int i = 0; i < queries.count(); ++i) {
    const float* result = results + size_t(i) * stride;
    const int head = queries.first_head + i % queries.num_heads;
    std::copy(result, result + op.head_width,
              op.out.row(queries.first_row + i / queries.num_heads) + size_t(head) * op.head_width);
  }
}

void attend(const AttentionOp& op, const Step& step, Member& member, const Queries& queries) {
  int32_t positions[kTileQueries];
  float* heads = member.attention;
  float* results = heads + size_t(kTileQueries) * padded_width(op.head_width);
  float* scratch = results + size_t(kTileQueries) * padded_width(op.head_width);
  gather(op, step, queries, heads, positions);
  const uint8_t* blocks =
      step.pages + op.layer_offset + size_t(queries.key_head) * op.block_bytes();
  step.kernels.attention.of(op.kv_type).attend(
      {heads, positions, queries.count(), op.head_width, op.window, op.softcap, blocks,
       step.page_bytes, page_table(step.batch, queries.sequence), scratch, results});
  scatter(op, queries, results);
}

}  // namespace

int tile_rows(int group) { return std::clamp(kTileQueries / group, 1, kLargestTileRows); }

size_t attention_floats(const AttentionKernels& kernels, const AttentionOp& op) {
  return 2 * size_t(kTileQueries) * padded_width(op.head_width) +
         kernels.scratch_floats(kTileQueries, op.head_width);
}

int count_chunks(const StoreOp& op, const Step& step) {
  return stores_in_attend(op.attention, step) ? 0 : step.batch.num_tokens;
}

void run_chunk(const StoreOp& op, const Step& step, Member& member, int chunk) {
  const int sequence = sequence_of(step.batch, chunk);
  for (int key_head = 0; key_head < op.attention.key_heads; ++key_head) {
    store_row(op.attention, step, member, chunk, sequence, key_head);
  }
}

int count_chunks(const AttendOp& op, const Step& step) {
  return int(step.tiles.size()) * op.attention.key_heads * head_parts(op.attention, step);
}

void run_chunk(const AttendOp& op, const Step& step, Member& member, int chunk) {
  const Queries queries = locate(op.attention, step, chunk);
  if (stores_in_attend(op.attention, step)) {
    for (int row = queries.first_row; row < queries.first_row + queries.num_rows; ++row) {
      store_row(op.attention, step, member, row, queries.sequence, queries.key_head);
    }
  }
  attend(op.attention, step, member, queries);
}

}  // namespace pyrite
