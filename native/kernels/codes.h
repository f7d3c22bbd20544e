// Sixty-four codes, a group of four columns for each of a panel's 16 rows, and the integer dot
// products with them. Included, after lanes.h, inside the namespace of one instruction set.
//
//   load_codes, store_codes     64 bytes, aligned
//   keep_bits(a, mask)          a & mask in every byte
//   shift_codes(a, n)           n > 0: left, n < 0: right; bits cross into the neighbour byte, and
//                               are masked by the caller
//   join(a, b)                  a | b
//   look_up(codes, table)       table[code] of 16 bytes; codes below 16
//   Ints                        16 int32, one to a row of the panel
//   subtract_raised(a, n, bits) a - (*n << bits) in every lane
//   to_floats(Ints)             rounded to nearest even
//   bytes_as_floats<T>(from)    16 of int8_t or uint8_t
//   fused_once(a, b, c)         a * b + c rounded once, on every instruction set
//
// A Dot is a way to multiply: which form of activations it reads (kForm), where in a prepared row
// (place; kBlockBytes for a block, kStepBytes for four columns), how it keeps a group of codes
// between rows (put, kGroupBytes), and a running sum (Sum). `add` takes one group for several rows
// that lie `stride` bytes apart; `whole` gives the sum of q * code. All give the same integers.

#if defined(__AVX512VNNI__)
#include "kernels/codes_avx512.h"
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "kernels/codes_avx2.h"
#if defined(__AVXVNNI__)
#include "kernels/codes_avxvnni.h"
#endif
#elif defined(__aarch64__) && !defined(PYRITE_PORTABLE)
#include "kernels/codes_neon.h"
#else
#include "kernels/codes_portable.h"
#endif

// Of bytes with a number in each half.
PYRITE_INLINE Lanes low_nibbles_as_floats(const uint8_t* from) {
  alignas(16) uint8_t bytes[16];
  for (int i = 0; i < 16; ++i) bytes[i] = from[i] & 15;
  return bytes_as_floats<uint8_t>(bytes);
}
PYRITE_INLINE Lanes high_nibbles_as_floats(const uint8_t* from) {
  alignas(16) uint8_t bytes[16];
  for (int i = 0; i < 16; ++i) bytes[i] = from[i] >> 4;
  return bytes_as_floats<uint8_t>(bytes);
}
