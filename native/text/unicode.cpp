#include "text/unicode.h"

#include <cstring>
#include <iterator>
#include <memory>

#include "text/unicode_table.h"

namespace pyrite {

namespace {

constexpr uint32_t kCodePoints = 0x110000;

std::unique_ptr<uint8_t[]> expand_runs() {
  auto classes = std::make_unique<uint8_t[]>(kCodePoints);
  const size_t count = std::size(kUnicodeRuns);
  for (size_t i = 0; i < count; ++i) {
    const uint32_t first = kUnicodeRuns[i] >> 8;
    const uint32_t end = i + 1 < count ? kUnicodeRuns[i + 1] >> 8 : kCodePoints;
    // Runs without a class stay untouched: the table is zero, and most of its pages stay unused.
    if (const uint8_t value = kUnicodeRuns[i] & 0xFF) std::memset(&classes[first], value, end - first);
  }
  return classes;
}

// The smallest code point that needs a sequence of this size: what is below is overlong.
constexpr uint32_t kSmallest[5] = {0, 0, 0x80, 0x800, 0x10000};

}  // namespace

const uint8_t* unicode_classes() {
  // Never freed: threads may still be cutting texts when the process ends.
  static const uint8_t* const classes = expand_runs().release();
  return classes;
}

size_t decode_utf8(const uint8_t* at, const uint8_t* end, uint32_t& code) {
  if (at >= end) return 0;
  const uint8_t lead = *at;
  if (lead < 0x80) {
    code = lead;
    return 1;
  }
  const size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || size_t(end - at) < size) return 0;
  uint32_t value = lead & (0x7F >> size);
  for (size_t i = 1; i < size; ++i) {
    if ((at[i] & 0xC0) != 0x80) return 0;
    value = value << 6 | (at[i] & 0x3F);
  }
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < kSmallest[size] || value >= kCodePoints || surrogate) return 0;
  code = value;
  return size;
}

size_t encode_utf8(uint32_t code, uint8_t* out) {
  if (code < 0x80) {
    out[0] = uint8_t(code);
    return 1;
  }
  const size_t size = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  for (size_t i = size - 1; i > 0; --i) {
    out[i] = uint8_t(0x80 | (code & 0x3F));
    code >>= 6;
  }
  out[0] = uint8_t((0xF00 >> size) | code);
  return size;
}

}  // namespace pyrite
