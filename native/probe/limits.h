#pragma once
#include <cstddef>
#include <cstdint>

namespace pyrite {

// What one core of this machine can do at most, for the shares that `pyrite bench` tells. Each call
// runs on the thread that makes it, and gives a value that depends on all its work.

// Reads `size` bytes, once.
uint64_t read_all(const uint8_t* data, size_t size);

// Does about `count` float multiply-adds, or as many 8-bit products summed into 32 bits, in
// registers; `done` is how many. The widest instructions that the machine has.
int64_t float_multiply_adds(int64_t count, int64_t* done);
int64_t byte_multiply_adds(int64_t count, int64_t* done);

// The instructions that the two use here.
const char* float_instructions();
const char* byte_instructions();

}  // namespace pyrite
