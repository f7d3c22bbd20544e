#pragma once
#include <string>
#include <string_view>

#include "text/encoder.h"
#include "text/markers.h"

namespace pyrite {

// Appends the bytes of a piece that is written with escapes: \t, \n, \r and \xHH; another character
// after a backslash is itself.
void read_escaped(std::string_view written, std::string& bytes);

// RWKV's tokenizer: from each place on, the longest piece that the text goes on with.
class Greedy : public Encoder {
 public:
  // `unknown_id` (or -1: nothing) stands for a byte that no piece begins with. Throws
  // std::length_error for pieces beyond the bounds of Markers.
  Greedy(const Vocabulary& vocabulary, int32_t unknown_id);

  size_t num_missing_bytes() const;

  void encode(const uint8_t* text, size_t size, bool first,
              std::vector<int32_t>& ids) const override;

 private:
  Markers pieces_;
  int32_t unknown_id_;
};

}  // namespace pyrite
