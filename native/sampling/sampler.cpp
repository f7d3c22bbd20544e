#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace pyrite {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

bool filters(const Settings& settings, int size, double coin) {
  return (settings.top_k > 0 && settings.top_k < size) || settings.typical_p < 1 ||
         settings.top_p < 1 || settings.min_p > 0 || coin < settings.xtc_probability;
}

// The compiler's own vectors: one register on every machine that is built for.
using Four = float __attribute__((vector_size(16)));
using FourWords = uint32_t __attribute__((vector_size(16)));

// Masks the values (32,) whose bit is 0; plus infinity and NaN stay.
void mask_block(float* values, uint32_t word) {
  const Four masked = {kMasked, kMasked, kMasked, kMasked};
  for (int i = 0; i < 32; i += 4) {
    Four four;
    std::memcpy(&four, values + i, sizeof four);
    const uint32_t bits = word >> i;
    const auto allowed = (FourWords{bits, bits, bits, bits} & FourWords{1, 2, 4, 8}) != 0u;
    const Four result = (allowed | ~(four < -kMasked)) ? four : masked;
    std::memcpy(values + i, &result, sizeof result);
  }
}

int32_t draw(const SamplerState& state, const float* row, Scratch& scratch) {
  const Settings& settings = state.settings();
  const int size = state.size();
  if (settings.greedy()) return scratch.scan.argmax(row, size);
  const Random random = state.random();
  if (filters(settings, size, random.coin)) {
    scratch.candidates.choose(row, size, scratch.scan, settings, random.coin);
    return scratch.candidates.pick(random.draw);
  }
  const float max = scratch.scan.max;
  const float inverse_temperature = float(1 / settings.temperature);
  scratch.sum.read(row, size, max, inverse_temperature);
  return scratch.sum.pick(row, size, max, inverse_temperature, random.draw);
}

}  // namespace

SamplerState::SamplerState(const Settings& settings, int size, std::span<const int32_t> prompt,
                           std::vector<Bias> bias, std::vector<int32_t> end_ids,
                           std::vector<int32_t> breakers)
    : settings_(settings),
      size_(size),
      bias_(std::move(bias)),
      end_ids_(std::move(end_ids)),
      breakers_(std::move(breakers)) {
  std::sort(breakers_.begin(), breakers_.end());
  for (int32_t token : prompt) note(token, false);
}

void SamplerState::accept(int32_t token) {
  note(token, true);
  ++step_;
}

void SamplerState::note(int32_t token, bool generated) {
  if (settings_.counts_tokens()) counts_.add(token, generated);
  if (settings_.uses_dry()) history_.push_back(token);
}

bool SamplerState::adjusts() const {
  return !bias_.empty() || masks_end() || settings_.counts_tokens() || settings_.uses_dry();
}

void SamplerState::adjust(float* row, Repeats& repeats) const {
  for (const Bias& bias : bias_) row[bias.token] += bias.value;
  if (masks_end()) {
    for (int32_t token : end_ids_) {
      if (row[token] < -kMasked) row[token] = kMasked;  // what is not finite stays to be found
    }
  }
  penalize(row);
  if (settings_.uses_dry()) {
    std::span<const int32_t> recent(history_);
    const size_t range = size_t(settings_.dry_range);
    if (settings_.dry_range >= 0 && range < recent.size()) recent = recent.last(range);
    repeats.lower(recent, breakers_, settings_.dry_multiplier, settings_.dry_base,
                  settings_.dry_allowed_length, row);
  }
}

void SamplerState::penalize(float* row) const {
  for (const TokenCounts::Entry& entry : counts_.slots()) {
    if (entry.token == -1) continue;
    float& logit = row[entry.token];
    logit = logit > 0 ? logit / settings_.repetition_penalty : logit * settings_.repetition_penalty;
    if (entry.generated == 0) continue;
    logit -= settings_.frequency_penalty * float(entry.generated) + settings_.presence_penalty;
  }
}

void apply_mask(float* row, int size, const uint32_t* mask) {
  for (int start = 0; start < size; start += 32) {
    const uint32_t word = mask[start / 32];
    if (word == ~uint32_t{0}) continue;
    const int count = std::min(32, size - start);
    if (count == 32) {
      mask_block(row + start, word);
      continue;
    }
    float rest[32] = {};
    std::copy(row + start, row + size, rest);
    mask_block(rest, word);
    std::copy(rest, rest + count, row + start);
  }
}

Drawn sample(const SamplerState& state, const float* row, const uint32_t* mask, Scratch& scratch) {
  if (mask != nullptr || state.adjusts()) {
    scratch.adjusted.assign(row, row + state.size());
    state.adjust(scratch.adjusted.data(), scratch.repeats);
    row = scratch.adjusted.data();
  }
  if (mask != nullptr) apply_mask(scratch.adjusted.data(), state.size(), mask);
  scratch.scan.read(row, state.size());
  if (!scratch.scan.finite) return {Status::kNotFinite, -1};
  if (scratch.scan.max == kMasked) return {Status::kNoneAllowed, -1};
  return {Status::kDrawn, draw(state, row, scratch)};
}

float log_probabilities(const float* row, int size, int32_t token, int count, Scratch& scratch,
                        int32_t* top_tokens, float* top_logprobs) {
  scratch.scan.read(row, size);
  const double max = scratch.scan.max;
  scratch.sum.read(row, size, scratch.scan.max, 1);
  const double log_total = std::log(scratch.sum.total);
  const auto logprob = [&](float logit) {
    return std::max(float((logit - max) - log_total), kLogprobFloor);
  };
  std::fill(top_tokens, top_tokens + count, -1);
  std::fill(top_logprobs, top_logprobs + count, kLogprobFloor);
  if (count > 0) {
    scratch.candidates.choose_top(row, size, scratch.scan, count);
    int at = 0;
    for (const Candidate& candidate : scratch.candidates.list()) {
      top_tokens[at] = candidate.token;
      top_logprobs[at++] = logprob(candidate.logit);
    }
  }
  return logprob(row[token]);
}

}  // namespace pyrite
