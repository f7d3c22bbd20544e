#pragma once
// The contract of the attention kernels. Keys and values of one head lie in blocks of 32 positions:
// first the keys, transposed to (head_width, 32) so that a vector lane is a key, then the values,
// (32, padded_width). Blocks are visited in ascending order and each query folds in one block at a
// time, so that its result does not depend on the queries beside it.

#include <cstddef>
#include <cstdint>

namespace pyrite {

constexpr int kPageTokens = 32;

constexpr int padded_width(int head_width) { return (head_width + 15) / 16 * 16; }

// How keys and values are kept: as float16; or as 8-bit integers from -127 to 127, which a float
// scale multiplies: a position has one for every kKeyGroup columns of its key, and one for its
// value. Scales follow the values: (key groups, 32), then (32,) of the values.
enum class KvType : uint8_t { kF16, kQ8 };

constexpr int kKeyGroup = 32;

constexpr int key_groups(int head_width) { return (head_width + kKeyGroup - 1) / kKeyGroup; }

// The largest of the columns under a scale is 127 of it, unless all are smaller than this: then they
// count as zeros, and so does the scale. Where one is not finite, the scale is NaN.
constexpr float kSmallestKept = 0x1p-100f;

constexpr size_t head_block_bytes(int head_width, KvType type) {
  const size_t columns = size_t(head_width + padded_width(head_width));
  const size_t scales = size_t(key_groups(head_width) + 1);
  return type == KvType::kF16 ? kPageTokens * columns * sizeof(uint16_t)
                              : kPageTokens * (columns + scales * sizeof(float));
}

// Queries of one sequence that read the same key head, over the blocks [first_block, end_block).
struct AttendTile {
  const float* queries;      // (num_queries, head_width), scaled already
  const int32_t* positions;  // (num_queries,); none is past the last position written
  int num_queries;
  int head_width;
  int window;     // 0: every position up to the query's own
  float softcap;  // 0: none
  const uint8_t* head_blocks;  // this head's block in page 0; page n is n * page_bytes further on
  size_t page_bytes;
  const int32_t* page_table;  // of the sequence
  float* scratch;             // attend_scratch_floats(num_queries, head_width)
  float* out;                 // (num_queries, padded_width)
};

struct BlockKernels {
  // Writes one position of one head into its block; `slot` is the position within the block.
  void (*store)(const float* key, const float* value, int head_width, int slot, uint8_t* block);
  void (*attend)(const AttendTile& tile);
};

struct AttentionKernels {
  size_t (*scratch_floats)(int num_queries, int head_width);
  BlockKernels of_type[2];

  const BlockKernels& of(KvType type) const { return of_type[int(type)]; }
};

}  // namespace pyrite
