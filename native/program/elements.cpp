#include "program/elements.h"

#include <algorithm>
#include <cstring>

namespace pyrite {

namespace {

constexpr int kRowsPerChunk = 4;
constexpr int kColumnsPerChunk = 8192;  // so that one row of logits is work for many

int divide_up(int value, int by) { return (value + by - 1) / by; }

// Columns [column, column + width) of a row.
struct Run {
  int row, column, width;

  float* of(const Slice& slice) const { return slice.row(row) + column; }
  const float* of(const float* vector) const { return vector + column; }
};

void run(const Gated& formula, const RowKernels& kernels, const Run& at, float* out) {
  kernels.gate(formula.activation, at.of(formula.gate), at.of(formula.up), at.width, out);
}

void run(const Sum& formula, const RowKernels& kernels, const Run& at, float* out) {
  kernels.add(at.of(formula.left), at.of(formula.right), at.width, out);
}

void run(const Activated& formula, const RowKernels& kernels, const Run& at, float* out) {
  kernels.activate(formula.activation, at.of(formula.in), at.width, out);
}

void run(const Scaled& formula, const RowKernels& kernels, const Run& at, float* out) {
  kernels.scale(at.of(formula.in), formula.factor, at.width, out);
}

void run(const Affine& formula, const RowKernels& kernels, const Run& at, float* out) {
  const float* in = at.of(formula.in);
  if (formula.weight != nullptr) {
    kernels.multiply(in, at.of(formula.weight), at.width, out);
  } else if (out != in) {
    std::memcpy(out, in, size_t(at.width) * sizeof(float));
  }
  if (formula.bias != nullptr) kernels.add(out, at.of(formula.bias), at.width, out);
}

void run(const ScaledRows& formula, const RowKernels& kernels, const Run& at, float* out) {
  float factor;
  kernels.activate(formula.activation, formula.factor.row(at.row), 1, &factor);
  kernels.scale(at.of(formula.in), factor, at.width, out);
}

void run(const Blended& formula, const RowKernels& kernels, const Run& at, float* out) {
  const float* share = formula.share ? at.of(formula.share) : at.of(formula.shares);
  kernels.blend(at.of(formula.left), at.of(formula.right), share, at.width, out);
}

void run(const Capped& formula, const RowKernels& kernels, const Run& at, float* out) {
  kernels.softcap(at.of(formula.in), formula.cap, at.width, out);
}

int column_chunks(const ElementOp& op) { return divide_up(op.out.width, kColumnsPerChunk); }

}  // namespace

int count_chunks(const ElementOp& op, const Step& step) {
  return divide_up(step.num_rows(op.rows), kRowsPerChunk) * column_chunks(op);
}

void run_chunk(const ElementOp& op, const Step& step, Member&, int chunk) {
  const RowKernels& kernels = step.kernels.rows;
  const int column = chunk % column_chunks(op) * kColumnsPerChunk;
  const int width = std::min(kColumnsPerChunk, op.out.width - column);
  const int first = chunk / column_chunks(op) * kRowsPerChunk;
  const int end = std::min(step.num_rows(op.rows), first + kRowsPerChunk);
  for (int row = first; row < end; ++row) {
    const Run at = {row, column, width};
    float* out = at.of(op.out);
    std::visit([&](const auto& formula) { run(formula, kernels, at, out); }, op.formula);
    if (op.is_result && !kernels.all_finite(out, width)) step.mark_broken(row);
  }
}

}  // namespace pyrite
