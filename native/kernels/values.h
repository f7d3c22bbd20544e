#pragma once
// The values of types whose codes are looked up: sixteen, each raised by the type's zero so that it is
// an unsigned byte. Source: ggml's tables.

#include <cstdint>

namespace pyrite {

// IQ4_NL and IQ4_XS; the zero is 128.
alignas(16) constexpr uint8_t kNonlinear[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                                129, 141, 153, 166, 181, 197, 217, 241};

// E2M1 doubled: 0, 1, 2, 3, 4, 6, 8, 12, then the same less than 0; the zero is 16.
alignas(16) constexpr uint8_t kDoubledE2M1[16] = {16, 17, 18, 19, 20, 22, 24, 28,
                                                  16, 15, 14, 13, 12, 10, 8,  4};

}  // namespace pyrite
