#include "program/row_ops.h"

#include <algorithm>
#include <cstring>

namespace pyrite {

namespace {

constexpr int kRowsPerChunk = 4;

int chunks_of(int num_rows) { return (num_rows + kRowsPerChunk - 1) / kRowsPerChunk; }

template <class Visit>
void each_row(int num_rows, int chunk, Visit visit) {
  const int end = std::min(num_rows, (chunk + 1) * kRowsPerChunk);
  for (int row = chunk * kRowsPerChunk; row < end; ++row) visit(row);
}

Norm columns_of(Norm norm, int column) {
  if (norm.weight != nullptr) norm.weight += column;
  if (norm.bias != nullptr) norm.bias += column;
  return norm;
}

}  // namespace

int count_chunks(const EmbedOp&, const Step& step) { return chunks_of(step.batch.num_tokens); }
int count_chunks(const NormOp& op, const Step& step) { return chunks_of(step.num_rows(op.rows)); }
int count_chunks(const RotateOp& op, const Step& step) { return chunks_of(step.num_rows(op.rows)); }
int count_chunks(const ConcatOp& op, const Step& step) { return chunks_of(step.num_rows(op.rows)); }
int count_chunks(const PickOp& op, const Step& step) { return chunks_of(step.num_rows(op.rows)); }
int count_chunks(const HeadDotOp& op, const Step& step) { return chunks_of(step.num_rows(op.rows)); }
int count_chunks(const SelectOp&, const Step& step) { return chunks_of(step.batch.num_outputs); }

void run_chunk(const EmbedOp& op, const Step& step, Member&, int chunk) {
  const int32_t* indices = op.by_position ? step.batch.positions : step.batch.token_ids;
  each_row(step.batch.num_tokens, chunk, [&](int row) {
    float* out = op.out.row(row);
    unpack_row(*op.table, indices[row], out);
    if (op.scale != 1.0f) step.kernels.rows.scale(out, op.scale, op.out.width, out);
  });
}

// The result may lie where the residual does.
void run_chunk(const NormOp& op, const Step& step, Member& member, int chunk) {
  each_row(step.num_rows(op.rows), chunk, [&](int row) {
    const float* in = op.in.row(row);
    float* out = op.residual ? member.row : op.out.row(row);
    for (int column = 0; column < op.in.width; column += op.group) {
      const Norm norm = op.is_wide ? columns_of(op.norm, column) : op.norm;
      step.kernels.rows.normalize(norm, in + column, op.group, out + column);
    }
    if (op.residual) step.kernels.rows.add(out, op.residual.row(row), op.out.width, op.out.row(row));
  });
}

void rotate_head(const RowKernels& kernels, const RopeTable& rope, int position, const float* head,
                 int head_width, float* out) {
  const int turned = 2 * rope.half();
  kernels.rotate(head, rope.cosines(position), rope.sines(position), rope.half(), rope.pairs(), out);
  if (out != head) std::copy(head + turned, head + head_width, out + turned);
}

void run_chunk(const RotateOp& op, const Step& step, Member&, int chunk) {
  each_row(step.num_rows(op.rows), chunk, [&](int row) {
    for (int column = 0; column < op.in.width; column += op.head_width) {
      const float* head = op.in.row(row) + column;
      float* out = op.out.row(row) + column;
      std::copy(head, head + op.start, out);
      rotate_head(step.kernels.rows, *op.rope, step.position(op.rows, row), head + op.start,
                  op.head_width - op.start, out + op.start);
    }
  });
}

void run_chunk(const ConcatOp& op, const Step& step, Member&, int chunk) {
  each_row(step.num_rows(op.rows), chunk, [&](int row) {
    const float* left = op.left.row(row);
    const float* right = op.right.row(row);
    float* out = op.out.row(row);
    std::copy(left, left + op.left.width, out);
    std::copy(right, right + op.right.width, out + op.left.width);
  });
}

void run_chunk(const PickOp& op, const Step& step, Member&, int chunk) {
  each_row(step.num_rows(op.rows), chunk, [&](int row) {
    const float* in = op.in.row(row);
    float* out = op.out.row(row);
    for (const int32_t column : op.order) *out++ = in[column];
  });
}

void run_chunk(const HeadDotOp& op, const Step& step, Member&, int chunk) {
  each_row(step.num_rows(op.rows), chunk, [&](int row) {
    for (int column = 0; column < op.out.width; column += op.head_width) {
      step.kernels.rows.dot(op.left.row(row) + column, op.right.row(row) + column,
                            op.weight + column, op.value.row(row) + column, op.head_width,
                            op.out.row(row) + column);
    }
  });
}

void run_chunk(const SelectOp& op, const Step& step, Member&, int chunk) {
  each_row(step.batch.num_outputs, chunk, [&](int row) {
    std::memcpy(op.out.row(row), op.in.row(step.batch.output_rows[row]),
                size_t(op.out.width) * sizeof(float));
  });
}

}  // namespace pyrite
