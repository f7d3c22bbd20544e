#pragma once
// Operations whose result's element (row, column) is made of the operands' elements there, so that
// it may lie where an operand does. A chunk is some rows by some columns.

#include <variant>

#include "program/step.h"

namespace pyrite {

struct Gated {
  Slice gate, up;
  Activation activation;
};

struct Sum {
  Slice left, right;
};

struct Activated {
  Slice in;
  Activation activation;
};

struct Scaled {
  Slice in;
  float factor;
};

struct Affine {
  Slice in;
  const float* weight;  // (width,) or none
  const float* bias;
};

// Each row by the activation of its one column of `factor`.
struct ScaledRows {
  Slice in;
  Slice factor;
  Activation activation;
};

// left + (right - left) * share, which is a value or the same for all rows.
struct Blended {
  Slice left, right;
  Slice share;
  const float* shares;
};

struct Capped {
  Slice in;
  float cap;
};

using Formula =
    std::variant<Gated, Sum, Activated, Scaled, Affine, ScaledRows, Blended, Capped>;

struct ElementOp {
  Rows rows;
  Slice out;
  Formula formula;
  bool is_result = false;  // its rows are logits, and are checked for NaN and infinity
};

int count_chunks(const ElementOp& op, const Step& step);
void run_chunk(const ElementOp& op, const Step& step, Member& member, int chunk);

}  // namespace pyrite
