#include "program/routing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace pyrite {

namespace {

// Larger first, NaN last; of equals the first.
struct Better {
  const float* ranks;

  bool operator()(int32_t a, int32_t b) const {
    if (ranks[a] > ranks[b]) return true;
    if (ranks[a] < ranks[b]) return false;
    const bool a_is_nan = std::isnan(ranks[a]), b_is_nan = std::isnan(ranks[b]);
    return a_is_nan != b_is_nan ? b_is_nan : a < b;
  }
};

// The best `wanted` of `count` come first in `order`.
void choose(const float* ranks, int count, int wanted, int32_t* order) {
  std::iota(order, order + count, 0);
  std::partial_sort(order, order + wanted, order + count, Better{ranks});
}

void share_by_softmax(const float* scores, int count, float* shares) {
  float largest = scores[0];
  for (int i = 1; i < count; ++i) {
    if (scores[i] > largest || std::isnan(scores[i])) largest = scores[i];
  }
  float total = 0;
  for (int i = 0; i < count; ++i) total += shares[i] = std::exp(scores[i] - largest);
  for (int i = 0; i < count; ++i) shares[i] /= total;
}

void share_by_sigmoid(const float* scores, int count, float* shares) {
  for (int i = 0; i < count; ++i) shares[i] = 1.0f / (1.0f + std::exp(-scores[i]));
}

// NaN counts as the largest.
float mark_of(const float* ranks, int size, bool by_two) {
  float largest = -std::numeric_limits<float>::infinity(), second = largest;
  for (int i = 0; i < size; ++i) {
    if (std::isnan(ranks[i])) return ranks[i];
    second = std::max(second, std::min(largest, ranks[i]));
    largest = std::max(largest, ranks[i]);
  }
  return by_two && size > 1 ? second + largest : largest;
}

// Ranks become -infinity in groups that are not among the best.
void leave_groups(const Routing& routing, float* ranks, float* marks, int32_t* order) {
  const int size = routing.num_experts / routing.groups;
  for (int group = 0; group < routing.groups; ++group) {
    marks[group] = mark_of(ranks + group * size, size, routing.by_two);
  }
  choose(marks, routing.groups, routing.used_groups, order);
  for (int i = routing.used_groups; i < routing.groups; ++i) {
    std::fill_n(ranks + order[i] * size, size, -std::numeric_limits<float>::infinity());
  }
}

}  // namespace

size_t routing_floats(const Routing& routing) {
  return 3 * size_t(routing.num_experts) + size_t(routing.groups);
}

void route(const Routing& routing, const float* scores, float* scratch, int32_t* experts,
           float* weights) {
  const int count = routing.num_experts;
  float* shares = scratch;
  float* ranks = shares + count;
  float* marks = ranks + count;
  int32_t* order = reinterpret_cast<int32_t*>(marks + routing.groups);
  (routing.by_sigmoid ? share_by_sigmoid : share_by_softmax)(scores, count, shares);
  float spoiled = 0;  // NaN where a score or a rank is not finite: its expert is not just left out
  for (int i = 0; i < count; ++i) {
    ranks[i] = routing.bias == nullptr ? shares[i] : shares[i] + routing.bias[i];
    spoiled += 0.0f * scores[i] + 0.0f * ranks[i];
  }
  if (routing.groups > 1) leave_groups(routing, ranks, marks, order);
  choose(ranks, count, routing.num_used, order);
  std::copy_n(order, routing.num_used, experts);
  std::sort(experts, experts + routing.num_used);
  float total = 0;
  for (int i = 0; i < routing.num_used; ++i) {
    weights[i] = shares[experts[i]];
    total += weights[i];
  }
  for (int i = 0; i < routing.num_used; ++i) {
    if (routing.is_normalized) weights[i] /= total + routing.eps;
    weights[i] = weights[i] * routing.scale + spoiled;
    if (routing.expert_scale != nullptr) weights[i] *= routing.expert_scale[experts[i]];
  }
}

}  // namespace pyrite
