#pragma once
// The contract of the attention kernels. Keys and values of one head lie in blocks of 32 positions:
// first the keys, transposed to (head_width, 32) so that a vector lane is a key, then the values,
// (32, padded_width). Blocks are visited in spans of eight. A query folds in one span at a time, in
// ascending order, from a beginning of its own for each: where spans begin depends on positions
// alone, so that a result depends neither on the queries beside it nor on who computed which span.

#include <cstddef>
#include <cstdint>

namespace pyrite {

constexpr int kPageTokens = 32;
constexpr int kSpanTokens = 8 * kPageTokens;

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

// What is known of a query's result after some spans: the weighted sum of values (padded_width,),
// sums of weights by lane (16,), and the largest score, alone in the last 16.
constexpr int partial_width(int head_width) { return padded_width(head_width) + 32; }

// Positions of one head that lie in one block.
struct StoreRun {
  const float* keys;  // (count, head_width)
  const float* values;
  size_t value_stride;
  int head_width;
  int first_slot;  // within the block
  int count;
  uint8_t* block;
};

// Queries of one sequence that read the same key head.
struct AttendTile {
  // (num_queries, head_width), scaled already; the heads of a row are adjacent.
  const float* queries;
  const int32_t* positions;  // (num_queries,) ascending; none is past the last position written
  int num_queries;
  int num_heads;  // queries of a row
  int head_width;
  int window;     // 0: every position up to the query's own
  float softcap;  // 0: none
  const uint8_t* head_blocks;  // this head's block in page 0; page n is n * page_bytes further on
  size_t page_bytes;
  const int32_t* page_table;  // of the sequence
  int first_span, end_span;
  float* scratch;     // attend_scratch_floats(num_queries, head_width)
  float* partials;    // of `attend_spans` and `join`: a span's are (num_queries, partial_width)
  size_t partial_stride;  // from span to span
  float* out;         // of the first row's first head; heads are adjacent
  size_t out_stride;  // from row to row
};

struct BlockKernels {
  void (*store)(const StoreRun& run);
  // Every span that a query sees lies in [first_span, end_span): writes `out`.
  void (*attend)(const AttendTile& tile);
  // Some of the spans: writes `partials`.
  void (*attend_spans)(const AttendTile& tile);
};

struct AttentionKernels {
  size_t (*scratch_floats)(int num_queries, int head_width);
  // From `partials` to `out`: the same bits as `attend`.
  void (*join)(const AttendTile& tile);
  BlockKernels of_type[2];

  const BlockKernels& of(KvType type) const { return of_type[int(type)]; }
};

}  // namespace pyrite
