#pragma once
// What adapters (LoRA) add to a projection, or to rows of an embedding table: by two small matrices of
// the adapter that a row's sequence is computed with. A chunk is some rows by some columns; rows of one
// adapter that are adjacent go through its matrices together. Rows of sequences without an adapter are
// those of the base.

#include <vector>

#include "program/step.h"

namespace pyrite {

struct AdapterPair {
  // (rank, columns of the input), or (tokens, rank) of a table; absent: nothing is added
  const PackedMatrix* down = nullptr;
  const PackedMatrix* up = nullptr;    // (width, rank)
};

struct AdaptOp {
  Rows rows;
  Slice in;  // absent: rows of `down` are picked by tokens, and multiplied by `scale`
  Slice base, out;  // `out` may lie where `base` does
  std::vector<AdapterPair> adapters;
  float scale = 1;
  int most_rank = 0;
  uint32_t forms = 0;  // of both products
  size_t row_bytes = 0, inner_row_bytes = 0;  // prepared
  bool is_result = false;  // its rows are logits, and are checked for NaN and infinity

  bool in_place() const { return out.data == base.data; }
};

// Which adapter a row's sequence is computed with, -1: none; whether some sequence has one.
int adapter_of(const Batch& batch, Rows rows, int row);
bool any_adapter(const Batch& batch);

// Bytes of a member's own that the rows of a chunk take.
size_t adapt_bytes(const AdaptOp& op);

int count_chunks(const AdaptOp& op, const Step& step);
void run_chunk(const AdaptOp& op, const Step& step, Member& member, int chunk);

}  // namespace pyrite
