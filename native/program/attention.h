#pragma once
// Causal attention over pages. `StoreOp` writes the keys and values of the batch's tokens, `AttendOp`
// reads them: a chunk is a tile of query rows, or some spans of what it sees, by the query heads of
// one key head, or some of them. `JoinOp` joins the spans of the tiles that were cut. A page holds
// every layer: per layer and key head one block, see kernels/attention.h.

#include "program/row_ops.h"
#include "program/step.h"

namespace pyrite {

// Queries (rows by heads) that a tile holds at most, so that it stays in the near caches; runs of 6
// and of 12 queries fill it.
constexpr int kTileQueries = 72;

struct AttentionOp {
  Slice query;
  Slice key;  // none where another operation has stored keys and values
  Slice value;  // none where `shape` has them in the keys
  Slice out;
  Rows rows = Rows::kTokens;  // of queries; without keys they may be the wanted ones
  int heads = 0;
  int key_heads = 0;
  HeadShape shape = {};
  size_t layer_offset = 0;  // of the layer's first block in a page
  KvType kv_type = KvType::kF16;
  float scale = 1;
  int window = 0;
  float softcap = 0;
  const float* sinks = nullptr;  // (heads,)
  Norm query_norm = {}, key_norm = {};
  const RopeTable* rope = nullptr;

  int group() const { return heads / key_heads; }
  size_t block_bytes() const { return head_block_bytes(shape, kv_type); }
};

struct StoreOp {
  AttentionOp attention;
};

struct AttendOp {
  AttentionOp attention;
};

struct JoinOp {
  AttentionOp attention;
};

// Rows of a tile for a group of `group` query heads a key head.
int tile_rows(int group);
// Floats a member needs in `attention`.
size_t attention_floats(const AttentionKernels& kernels, const AttentionOp& op);
// Floats of the partials of one row and span.
int partial_floats(const AttentionOp& op);

int count_chunks(const StoreOp& op, const Step& step);
int count_chunks(const AttendOp& op, const Step& step);
int count_chunks(const JoinOp& op, const Step& step);
void run_chunk(const StoreOp& op, const Step& step, Member& member, int chunk);
void run_chunk(const AttendOp& op, const Step& step, Member& member, int chunk);
void run_chunk(const JoinOp& op, const Step& step, Member& member, int chunk);

}  // namespace pyrite
