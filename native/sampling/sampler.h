#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "sampling/candidates.h"
#include "sampling/history.h"
#include "sampling/philox.h"
#include "sampling/row.h"
#include "sampling/settings.h"

namespace pyrite {

enum class Status : int32_t {
  kDrawn = 0,
  kNotFinite = 1,    // a logit is NaN or plus infinity
  kNoneAllowed = 2,  // every token is masked
};

struct Bias {
  int32_t token;
  float value;
};

// One request's sampler: what was asked, and the tokens so far. `accept` alone changes it.
//
// The stages, in order: tokens past `size` do not exist; bias; before min_tokens, end ids are
// masked; repetition penalty, once for each distinct token of prompt and output (positive logits
// divided, others multiplied); presence and frequency penalties, for output tokens; DRY; a grammar's
// mask; then, at temperature 0, the largest logit (the lowest id among equals), else temperature,
// filters and a draw.
class SamplerState {
 public:
  // Ids must lie in [0, size); `size` is the number of logits that belong to a token.
  SamplerState(const Settings& settings, int size, std::span<const int32_t> prompt,
               std::vector<Bias> bias, std::vector<int32_t> end_ids,
               std::vector<int32_t> breakers);

  void accept(int32_t token);
  bool adjusts() const;
  // Applies bias, the mask of end ids and the penalties to `row` (size,).
  void adjust(float* row, Repeats& repeats) const;
  Random random() const { return random_at(settings_.seed, settings_.choice, step_); }

  const Settings& settings() const { return settings_; }
  int size() const { return size_; }
  uint64_t step() const { return step_; }

 private:
  void note(int32_t token, bool generated);
  void penalize(float* row) const;
  bool masks_end() const { return int64_t(step_) < settings_.min_tokens && !end_ids_.empty(); }

  Settings settings_;
  int size_;
  uint64_t step_ = 0;  // tokens accepted
  std::vector<Bias> bias_;
  std::vector<int32_t> end_ids_;
  std::vector<int32_t> breakers_;  // ascending
  TokenCounts counts_;             // empty unless a penalty counts
  std::vector<int32_t> history_;   // prompt and output; empty without DRY
};

// Memory that rows use one after the other; it grows to the largest row and is then reused.
struct Scratch {
  std::vector<float> adjusted;
  RowScan scan;
  RowSum sum;
  Candidates candidates;
  Repeats repeats;
};

struct Drawn {
  Status status;
  int32_t token;  // -1 unless kDrawn
};

// Masks the tokens of `row` (size,) whose bit is 0 in `mask` (mask_words(size),): token i is bit
// i % 32 of word i / 32. What is not finite stays to be found.
void apply_mask(float* row, int size, const uint32_t* mask);

inline int mask_words(int size) { return (size + 31) / 32; }

// The next token for `row` (size,) of `state`, which is left as it was. `mask` may be null: then
// every token is allowed.
Drawn sample(const SamplerState& state, const float* row, const uint32_t* mask, Scratch& scratch);

// Log-probabilities of the whole row as the model gave it, before any stage: of `token`, and of the
// `count` likeliest tokens (all of them if the row has fewer; the rest is filled with -1 and the
// floor). A value below the floor becomes the floor. `top_tokens`, `top_logprobs`: (count,).
float log_probabilities(const float* row, int size, int32_t token, int count, Scratch& scratch,
                        int32_t* top_tokens, float* top_logprobs);

constexpr float kLogprobFloor = -9999;

}  // namespace pyrite
