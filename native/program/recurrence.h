#pragma once
// Operations that carry a state from one step of a sequence to the next. A chunk is one sequence by
// some columns or heads, which own their part of the state, and walks the sequence's rows in order.
// `state` is where the operation's state begins in a slot. A sequence at position 0 finds a state of
// zeros, whatever the slot holds; of Wkv4 the exponents are kNothingYet.

#include "program/step.h"

namespace pyrite {

struct ShiftOp {
  Slice in, out;
  size_t state;  // (width,)
};

struct ConvOp {
  Slice in, out;
  const float* taps;  // (num_taps, width)
  const float* bias;  // (width,) or none
  int num_taps;
  Activation activation;
  size_t state;  // (num_taps - 1, width)
};

struct ScanShape {
  int heads, head_width, state_width, groups;
  bool is_by_state;  // each column is a head, and `a` is (heads, state_width)
};

// Vectors and state are as ScanWork has them: by state, runs of up to 16 columns of one group.
struct ScanOp {
  Slice x, step, b, c, out;
  const float* a;
  const float* d;
  const float* step_bias;  // or none
  ScanShape shape;
  float step_low, step_high;
  size_t state;
};

struct Wkv4Op {
  Slice key, value, out;
  const float* decay;  // -exp of the weight
  const float* first;
  size_t state;  // (3, width)
};

struct Wkv7Op {
  Slice receptance, decay, key, value, removal, rate, out;
  int head_width;
  size_t state;  // (heads, head_width * head_width)
};

struct DeltaOp {
  Slice query, key, value, step, rate, out;
  const float* a;
  const float* step_bias;
  int heads, key_heads, key_width, value_width;
  bool is_tiled;  // key heads serve by turns, not runs of heads
  size_t state;   // (heads, value_width * key_width)
};

int count_chunks(const ShiftOp& op, const Step& step);
int count_chunks(const ConvOp& op, const Step& step);
int count_chunks(const ScanOp& op, const Step& step);
int count_chunks(const Wkv4Op& op, const Step& step);
int count_chunks(const Wkv7Op& op, const Step& step);
int count_chunks(const DeltaOp& op, const Step& step);

void run_chunk(const ShiftOp& op, const Step& step, Member& member, int chunk);
void run_chunk(const ConvOp& op, const Step& step, Member& member, int chunk);
void run_chunk(const ScanOp& op, const Step& step, Member& member, int chunk);
void run_chunk(const Wkv4Op& op, const Step& step, Member& member, int chunk);
void run_chunk(const Wkv7Op& op, const Step& step, Member& member, int chunk);
void run_chunk(const DeltaOp& op, const Step& step, Member& member, int chunk);

}  // namespace pyrite
