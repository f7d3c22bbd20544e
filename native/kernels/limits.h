#pragma once
// What this machine can do at most, measured: how fast threads read memory, and how many products a
// second the instructions that the kernels are made of give when nothing else is in the way.

#include <cstddef>
#include <string>
#include <vector>

namespace pyrite {

// Bytes a second that `num_threads` threads read from a buffer of `bytes`, each its own part.
double read_bandwidth(int num_threads, size_t bytes);

struct Peak {
  std::string name;
  double products_per_second;  // of all threads together
};

// The peaks of the instructions that the named instruction set's kernels use.
std::vector<Peak> compute_peaks(const std::string& isa, int num_threads);

}  // namespace pyrite
