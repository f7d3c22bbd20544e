#pragma once
// Operations that work on single rows: a chunk is one run of rows.

#include <variant>

#include "program/rope_table.h"
#include "program/step.h"

namespace pyrite {

struct Norm {
  const float* weight = nullptr;  // offset already added
  float eps = 0;

  explicit operator bool() const { return weight != nullptr; }
};

struct EmbedOp {
  const PackedMatrix* table;
  float scale;
  Slice out;
};

struct NormOp {
  Rows rows;
  Slice in, out;
  Norm norm;
  int group;  // columns normalised together
  Slice residual;
};

struct RotateOp {
  Slice in, out;
  int head_width;
  const RopeTable* rope;
};

struct GateOp {
  Rows rows;
  Slice gate, up, out;
  Activation activation;
};

struct AddOp {
  Rows rows;
  Slice left, right, out;
};

struct SoftcapOp {
  Rows rows;
  Slice in, out;
  float cap;
};

struct SelectOp {
  Slice in, out;
};

int count_chunks(const EmbedOp& op, const Step& step);
int count_chunks(const NormOp& op, const Step& step);
int count_chunks(const RotateOp& op, const Step& step);
int count_chunks(const GateOp& op, const Step& step);
int count_chunks(const AddOp& op, const Step& step);
int count_chunks(const SoftcapOp& op, const Step& step);
int count_chunks(const SelectOp& op, const Step& step);

void run_chunk(const EmbedOp& op, const Step& step, Member& member, int chunk);
void run_chunk(const NormOp& op, const Step& step, Member& member, int chunk);
void run_chunk(const RotateOp& op, const Step& step, Member& member, int chunk);
void run_chunk(const GateOp& op, const Step& step, Member& member, int chunk);
void run_chunk(const AddOp& op, const Step& step, Member& member, int chunk);
void run_chunk(const SoftcapOp& op, const Step& step, Member& member, int chunk);
void run_chunk(const SelectOp& op, const Step& step, Member& member, int chunk);

// Every head of a row; `head` may be `out`. Columns past the table's width are copied.
void rotate_head(const RowKernels& kernels, const RopeTable& rope, int position, const float* head,
                 int head_width, float* out);

}  // namespace pyrite
