#pragma once
// Operations that work on single rows: a chunk is one run of rows.

#include <cstdint>
#include <vector>

#include "program/rope_table.h"
#include "program/step.h"

namespace pyrite {

struct EmbedOp {
  const PackedMatrix* table;
  float scale;
  Slice out;
  bool by_position = false;  // or by token
};

struct NormOp {
  Rows rows;
  Slice in, out;
  Norm norm;
  int group;     // columns normalised together
  bool is_wide;  // weight and bias have a column for each of the row's
  Slice residual;
};

struct RotateOp {
  Rows rows;
  Slice in, out;
  int head_width;
  int start;  // of the columns of a head that are turned
  const RopeTable* rope;
};

struct ConcatOp {
  Rows rows;
  Slice left, right, out;
};

// out[i] = in[order[i]].
struct PickOp {
  Rows rows;
  Slice in, out;
  std::vector<int32_t> order;
};

// By heads: sum(left * right * weight) * value.
struct HeadDotOp {
  Rows rows;
  Slice left, right, value, out;
  const float* weight;
  int head_width;
};

struct SelectOp {
  Slice in, out;
};

int count_chunks(const EmbedOp& op, const Step& step);
int count_chunks(const NormOp& op, const Step& step);
int count_chunks(const RotateOp& op, const Step& step);
int count_chunks(const ConcatOp& op, const Step& step);
int count_chunks(const PickOp& op, const Step& step);
int count_chunks(const HeadDotOp& op, const Step& step);
int count_chunks(const SelectOp& op, const Step& step);

void run_chunk(const EmbedOp& op, const Step& step, Member& member, int chunk);
void run_chunk(const NormOp& op, const Step& step, Member& member, int chunk);
void run_chunk(const RotateOp& op, const Step& step, Member& member, int chunk);
void run_chunk(const ConcatOp& op, const Step& step, Member& member, int chunk);
void run_chunk(const PickOp& op, const Step& step, Member& member, int chunk);
void run_chunk(const HeadDotOp& op, const Step& step, Member& member, int chunk);
void run_chunk(const SelectOp& op, const Step& step, Member& member, int chunk);

// Every head of a row; `head` may be `out`. Columns past the table's width are copied.
void rotate_head(const RowKernels& kernels, const RopeTable& rope, int position, const float* head,
                 int head_width, float* out);

}  // namespace pyrite
