#pragma once
// What adapters (LoRA) add to a projection: by two small matrices of the adapter that a row's
// sequence is computed with. A chunk is some rows; those of one adapter that are adjacent go through
// its matrices together. Rows of sequences without an adapter are those of the base.

#include <vector>

#include "program/step.h"

namespace pyrite {

struct AdapterPair {
  const PackedMatrix* down = nullptr;  // (rank, columns of the input); absent: nothing is added
  const PackedMatrix* up = nullptr;    // (width, rank)
};

struct AdaptOp {
  Rows rows;
  Slice in, base, out;  // `out` may lie where `base` does
  std::vector<AdapterPair> adapters;
  int most_rank = 0;
  uint32_t forms = 0;  // of both products
  size_t row_bytes = 0, inner_row_bytes = 0;  // prepared

  bool in_place() const { return out.data == base.data; }
};

// Bytes of a member's own that the rows of a chunk take.
size_t adapt_bytes(const AdaptOp& op);

int count_chunks(const AdaptOp& op, const Step& step);
void run_chunk(const AdaptOp& op, const Step& step, Member& member, int chunk);

}  // namespace pyrite
