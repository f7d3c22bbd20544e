#pragma once
// The contract of the attention kernels. Keys and values of one head lie in blocks of 32 positions:
// first the keys, transposed to (key_width, 32) so that a vector lane is a key, then the values,
// (32, padded_width(value_width)). Values that are the first columns of the keys are not kept again:
// they are turned as they are read, see turn.h. Blocks are visited in spans of eight. A query folds
// in one span at a time, in ascending order, from a beginning of its own for each: where spans begin
// depends on positions alone, so that a result depends neither on the queries beside it nor on who
// computed which span.

#include <cstddef>
#include <cstdint>

namespace pyrite {

constexpr int kPageTokens = 32;
constexpr int kSpanTokens = 8 * kPageTokens;

constexpr int padded_width(int value_width) { return (value_width + 15) / 16 * 16; }

// How keys and values are kept: as float16; or as 8-bit integers from -127 to 127, which a float
// scale multiplies: a position has one for every kKeyGroup columns of its key, and one for its
// value, if that is kept. Scales follow the values: (key groups, 32), then (32,) of the values.
enum class KvType : uint8_t { kF16, kQ8 };

constexpr int kKeyGroup = 32;

constexpr int key_groups(int key_width) { return (key_width + kKeyGroup - 1) / kKeyGroup; }

// Columns of a head: those of its queries and keys, and those of its values.
struct HeadShape {
  int key_width, value_width;
  bool values_in_keys = false;  // they are the first columns of the keys

  constexpr int padded() const { return padded_width(value_width); }
  // Columns that a block keeps.
  constexpr size_t keys() const { return size_t(kPageTokens) * key_width; }
  constexpr size_t values() const { return values_in_keys ? 0 : size_t(kPageTokens) * padded(); }
  // Scales of a position.
  constexpr int scales() const { return key_groups(key_width) + (values_in_keys ? 0 : 1); }
};

// The largest of the columns under a scale is 127 of it, unless all are smaller than this: then they
// count as zeros, and so does the scale. Where one is not finite, the scale is NaN.
constexpr float kSmallestKept = 0x1p-100f;

constexpr size_t head_block_bytes(HeadShape shape, KvType type) {
  const size_t columns = shape.keys() + shape.values();
  const size_t scales = kPageTokens * size_t(shape.scales());
  return type == KvType::kF16 ? columns * sizeof(uint16_t) : columns + scales * sizeof(float);
}

// What is known of a query's result after some spans: the weighted sum of values (padded_width,),
// sums of weights by lane (16,), and the largest score, alone in the last 16.
constexpr int partial_width(int value_width) { return padded_width(value_width) + 32; }

// Positions of one head that lie in one block.
struct StoreRun {
  const float* keys;    // (count, key_width)
  const float* values;  // null where they are in the keys
  size_t value_stride;
  HeadShape shape;
  int first_slot;  // within the block
  int count;
  uint8_t* block;
};

// Queries of one sequence that read the same key head.
struct AttendTile {
  // (num_queries, key_width), scaled already; the heads of a row are adjacent.
  const float* queries;
  const int32_t* positions;  // (num_queries,) ascending; none is past the last position written
  int num_queries;
  int num_heads;  // queries of a row
  HeadShape shape;
  int window;     // 0: every position up to the query's own
  float softcap;  // 0: none
  const float* sinks;  // (num_heads,) one more score each, whose value is nothing; null: none
  const uint8_t* head_blocks;  // this head's block in page 0; page n is n * page_bytes further on
  size_t page_bytes;
  const int32_t* page_table;  // of the sequence
  int first_span, end_span;
  float* scratch;     // scratch_floats(num_queries, shape)
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
  size_t (*scratch_floats)(int num_queries, HeadShape shape);
  // From `partials` to `out`: the same bits as `attend`.
  void (*join)(const AttendTile& tile);
  BlockKernels of_type[2];

  const BlockKernels& of(KvType type) const { return of_type[int(type)]; }
};

}  // namespace pyrite
