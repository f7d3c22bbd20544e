#pragma once
#include <cstdint>

namespace pyrite {

// What a request asks of its sampler. Filled and bounded by Python (sampling/params.py); the
// defaults change nothing.
struct Settings {
  double temperature = 1;  // 0: greedy
  int32_t top_k = 0;       // 0: all
  double top_p = 1;
  double min_p = 0;
  double typical_p = 1;
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  double dry_multiplier = 0;
  double dry_base = 1.75;
  int32_t dry_allowed_length = 2;
  int32_t dry_range = -1;  // tokens looked back on; -1: all
  double xtc_probability = 0;
  double xtc_threshold = 0.1;
  uint64_t seed = 0;
  uint32_t choice = 0;
  int32_t min_tokens = 0;
  int32_t logprobs = -1;  // -1: none; 0: the drawn token's; k: and the k likeliest

  bool greedy() const { return temperature == 0; }
  bool counts_tokens() const {
    return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0;
  }
  bool uses_dry() const { return dry_multiplier != 0; }
};

}  // namespace pyrite
