#pragma once
// The contract of the kernels that carry a state from token to token. Each takes the rows of one
// sequence, in order, and some of its columns with their part of the state, which it changes. For the
// same rows the results are the same bits however they are cut into calls: every token does the same
// operations in the same order.

#include <cstddef>

#include "kernels/rows.h"

namespace pyrite {

constexpr int kMostTaps = 16;         // of a convolution
constexpr int kMostHeadColumns = 256;  // of a head's keys and values

// Rows of some columns: row r is at data + r * stride.
struct Strip {
  const float* data = nullptr;
  size_t stride = 0;

  const float* row(int index) const { return data + size_t(index) * stride; }
};

struct OutStrip {
  float* data = nullptr;
  size_t stride = 0;

  float* row(int index) const { return data + size_t(index) * stride; }
};

// out[t] = activation(sum over i of taps[i] * in[t - (num_taps - 1) + i] + bias)
struct ConvWork {
  int num_rows, width, num_taps;
  Strip in;
  Strip taps;         // (num_taps, width)
  const float* bias;  // (width,) or none
  Activation activation;
  OutStrip state;  // (num_taps - 1, width), the last rows
  OutStrip out;
};

// The selective scan of pyrite.graph.recurrence. By state: up to 16 columns, with a step each; state
// and `a` are (state_width, width). By head: the columns of one head, with one step; the state has
// for each run of 16 columns (state_width, columns of the run).
struct ScanWork {
  int num_rows, width, state_width;
  Strip x, step, b, c;
  const float* a;          // by head: one
  const float* d;          // by state: (width,), by head: one
  const float* step_bias;  // likewise, or none
  float step_low, step_high;
  float* state;
  OutStrip out;
};

// RWKV-4. `decay` is -exp of the weight.
struct Wkv4Work {
  int num_rows, width;
  Strip key, value;
  const float* decay;
  const float* first;
  OutStrip state;  // (3, width)
  OutStrip out;
};

// RWKV-7, one head.
struct Wkv7Work {
  int num_rows, head_width;
  Strip receptance, decay, key, value, removal, rate;
  float* state;  // for each run of 32, then 16 values (head_width of keys, values of the run)
  OutStrip out;
};

// The gated delta rule, one head.
struct DeltaWork {
  int num_rows, key_width, value_width;
  Strip query, key, value;
  Strip step, rate;  // a column
  float a, step_bias;
  float* state;  // for each run of 32, then 16 values (key_width, values of the run)
  OutStrip out;
};

struct RecurrentKernels {
  void (*convolve)(const ConvWork& work);
  void (*scan_by_state)(const ScanWork& work);
  void (*scan_by_head)(const ScanWork& work);
  void (*wkv4)(const Wkv4Work& work);
  void (*wkv7)(const Wkv7Work& work);
  void (*delta)(const DeltaWork& work);
};

}  // namespace pyrite
