#pragma once
// The contract of the kernels that work on single rows of float32: norms, gates, rotations. For the
// same row each gives the same bits whatever rows are computed beside it. `out` may be the input.

#include <cstdint>

namespace pyrite {

enum class Activation : uint8_t { kNone, kSilu, kGeluTanh };

struct RowKernels {
  // out = row / sqrt(mean(row^2) + eps) * weight
  void (*normalize)(const float* row, const float* weight, float eps, int width, float* out);
  // out = activation(gate) * up
  void (*gate)(Activation activation, const float* gate, const float* up, int width, float* out);
  void (*add)(const float* left, const float* right, int width, float* out);
  void (*scale)(const float* row, float factor, int width, float* out);
  // out = cap * tanh(row / cap)
  void (*softcap)(const float* row, float cap, int width, float* out);
  // Turns columns (i, i + half), or (2i, 2i + 1) when `pairs`, by the angle of entry i.
  void (*rotate)(const float* row, const float* cosines, const float* sines, int half, bool pairs,
                 float* out);
  bool (*all_finite)(const float* row, int width);
};

}  // namespace pyrite
