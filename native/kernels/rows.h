#pragma once
// The contract of the kernels that work on single rows of float32: norms, gates, rotations. For the
// same row each gives the same bits whatever rows are computed beside it. `out` may be the input.

#include <cstdint>

namespace pyrite {

// Those of pyrite.graph.values, and none.
enum class Activation : uint8_t {
  kNone, kIdentity, kSilu, kGelu, kGeluTanh, kRelu, kReluSquared, kSigmoid, kTanh, kClampedSwiglu,
};

enum class NormKind : uint8_t { kNone, kRms, kLayer, kL2 };

// How a run of columns is normalised. The weight may be absent, and the bias.
struct Norm {
  NormKind kind = NormKind::kNone;
  float eps = 0;
  const float* weight = nullptr;
  const float* bias = nullptr;

  explicit operator bool() const { return kind != NormKind::kNone; }
};

struct RowKernels {
  void (*normalize)(const Norm& norm, const float* row, int width, float* out);
  // out = activation(gate) * up
  void (*gate)(Activation activation, const float* gate, const float* up, int width, float* out);
  // out = activation(row); not of kClampedSwiglu, which has two sides.
  void (*activate)(Activation activation, const float* row, int width, float* out);
  void (*add)(const float* left, const float* right, int width, float* out);
  void (*multiply)(const float* left, const float* right, int width, float* out);
  void (*scale)(const float* row, float factor, int width, float* out);
  // out = left + (right - left) * share
  void (*blend)(const float* left, const float* right, const float* share, int width, float* out);
  // out = sum(left * right * weight) * value
  void (*dot)(const float* left, const float* right, const float* weight, const float* value,
              int width, float* out);
  // out = cap * tanh(row / cap)
  void (*softcap)(const float* row, float cap, int width, float* out);
  // Turns columns (i, i + half), or (2i, 2i + 1) when `pairs`, by the angle of entry i.
  void (*rotate)(const float* row, const float* cosines, const float* sines, int half, bool pairs,
                 float* out);
  bool (*all_finite)(const float* row, int width);
};

}  // namespace pyrite
