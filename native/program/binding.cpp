#include "program/binding.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

namespace pyrite {

namespace {

// linux/mempolicy.h, which needs headers of its own.
constexpr int kDefaultPolicy = 0;
constexpr int kInterleavePolicy = 3;

constexpr int kWordBits = sizeof(unsigned long) * CHAR_BIT;

}  // namespace

void bind_thread(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus) CPU_SET(cpu, &set);
  if (!cpus.empty()) sched_setaffinity(0, sizeof set, &set);
}

Bound::Bound(const std::vector<int>& cpus) {
  bound_ = !cpus.empty() && sched_getaffinity(0, sizeof before_, &before_) == 0;
  if (bound_) bind_thread(cpus);
}

Bound::~Bound() {
  if (bound_) sched_setaffinity(0, sizeof before_, &before_);
}

bool interleave_memory(const std::vector<int>& nodes) {
  if (nodes.empty()) return syscall(SYS_set_mempolicy, kDefaultPolicy, nullptr, 0) == 0;
  const int last = *std::max_element(nodes.begin(), nodes.end());
  std::vector<unsigned long> mask(size_t(last / kWordBits + 1));
  for (int node : nodes) mask[size_t(node / kWordBits)] |= 1UL << node % kWordBits;
  // The kernel takes one bit less than it is told of.
  return syscall(SYS_set_mempolicy, kInterleavePolicy, mask.data(), mask.size() * kWordBits + 1) == 0;
}

}  // namespace pyrite
