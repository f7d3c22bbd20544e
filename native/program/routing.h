#pragma once
// Which experts a row goes to, and with what weights. The definition is pyrite.backends.mixture's;
// nothing here depends on the instruction set.

#include <cstddef>
#include <cstdint>

namespace pyrite {

struct Routing {
  int num_experts = 0;
  int num_used = 0;
  bool by_sigmoid = false;  // shares; else by softmax
  const float* bias = nullptr;  // (experts,) of the choice alone
  const float* expert_scale = nullptr;  // (experts,) of weights
  bool is_normalized = true;
  float eps = 0;
  float scale = 1;
  int groups = 1;
  int used_groups = 1;
  bool by_two = false;  // a group counts as the sum of its two largest; else as its largest
};

// Floats of scratch that `route` needs.
size_t routing_floats(const Routing& routing);

// Experts in ascending order and their weights, (num_used,) each, from scores (experts,). Whatever
// the scores are, each is an expert's number, and no two are the same.
void route(const Routing& routing, const float* scores, float* scratch, int32_t* experts,
           float* weights);

}  // namespace pyrite
