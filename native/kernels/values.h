#pragma once
// The values of types whose codes are looked up: sixteen, each raised by the type's zero so that it is
// an unsigned byte. Source: ggml's tables.

#include <cstdint>

namespace pyrite {

// IQ4_NL and IQ4_XS; the zero is 128.
alignas(16) constexpr uint8_t kNonlinear[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                                129, 141, 153, 166, 181, 197, 217, 241};

// MXFP4 and NVFP4: E2M1 doubled, 0, 1, 2, 3, 4, 6, 8, 12, then the same less than 0; the zero is 16.
alignas(16) constexpr uint8_t kDoubledE2M1[16] = {16, 17, 18, 19, 20, 22, 24, 28,
                                                  16, 15, 14, 13, 12, 10, 8,  4};

// IQ2: a digit of two bits, then a sign; the zero is 64.
alignas(16) constexpr uint8_t kIQ2[16] = {72, 89, 107, 64, 56, 39, 21, 64};

// IQ3_XXS: a digit of three bits, then a sign. The coordinates 4, 12 and so on are even, so they are
// halved; the zero is 32.
alignas(16) constexpr uint8_t kIQ3XXS[16] = {34, 38, 42, 46, 50, 54, 58, 63,
                                             30, 26, 22, 18, 14, 10, 6,  1};

// IQ3_S, alike; the zero is 16.
alignas(16) constexpr uint8_t kIQ3S[16] = {17, 19, 21, 23, 25, 27, 29, 31,
                                           15, 13, 11, 9,  7,  5,  3,  1};

// IQ1_M in eighths: -8, 0 or 8, and 1 more, or with the third bit 1 less; the zero is 16.
alignas(16) constexpr uint8_t kIQ1M[16] = {9, 17, 25, 16, 7, 15, 23, 16};

// Q1_0: less one, or one; the zero is 1.
alignas(16) constexpr uint8_t kSigns[16] = {0, 2};

}  // namespace pyrite
