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
//   load_ints, store_ints       16 of int32, aligned
//   +, *                        of Ints
//   subtract_raised(a, n, bits) a - (*n << bits) in every lane
//   to_floats(Ints)             rounded to nearest even
//   bytes_as_ints<T>(from)      16 of int8_t or uint8_t
//   fused_once(a, b, c)         a * b + c rounded once, on every instruction set
//
// A Dot is a way to multiply: which form of activations it reads (kForm), where in a prepared row
// (place; kBlockBytes for a block, kStepBytes for four columns), how it keeps a group of codes
// between rows (put, kGroupBytes), and a running sum (Sum). `add` takes one group for several rows
// that lie `stride` bytes apart; `whole` gives the sum of q * code. All give the same integers.
//
// What is left to do then is to subtract the zero, and to multiply by the step of types whose steps
// are whole. A Dot may do that itself:
//
//   kCentred      its codes are signed, less their zero
//   kCanBeFolded  as Folded<Dot>, for many rows, it keeps codes less their zero, times their step
//                 (put_folded)
//   kNarrow       it reads kBytes, starts its sums at less the zero (start), and multiplies by the
//                 step as it widens them, at least after run_groups (whole with a step)
//
// Chunks keep whole steps as int32, or for the last two in step_form.

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

// The same Dot with codes as factors that nothing is left to do for.
template <class Dot>
struct Folded : Dot {
  static constexpr bool kFolded = true;
  static constexpr bool kCentred = true;
};

template <class Dot>
constexpr bool is_folded() { return requires { Dot::kFolded; }; }
template <class Dot>
constexpr bool can_be_folded() { return requires { Dot::kCanBeFolded; }; }
template <class Dot>
constexpr bool is_narrow() { return requires { Dot::kNarrow; }; }
// Whether the Dot's codes are signed, so that its sums need no zero taken away.
template <class Dot>
constexpr bool is_centred() {
  if constexpr (requires { Dot::kCentred; }) return Dot::kCentred;
  return false;
}

// Of bytes with a number in each half.
PYRITE_INLINE Ints low_nibbles_as_ints(const uint8_t* from) {
  alignas(16) uint8_t bytes[16];
  for (int i = 0; i < 16; ++i) bytes[i] = from[i] & 15;
  return bytes_as_ints<uint8_t>(bytes);
}
PYRITE_INLINE Ints high_nibbles_as_ints(const uint8_t* from) {
  alignas(16) uint8_t bytes[16];
  for (int i = 0; i < 16; ++i) bytes[i] = from[i] >> 4;
  return bytes_as_ints<uint8_t>(bytes);
}
