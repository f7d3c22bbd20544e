#pragma once
#include "text/split.h"

namespace pyrite {

// Stages of pre-tokenizers that look at ranges of code points. Beside each definition stands its
// pattern.
size_t han_and_kana(const Text& text, size_t at);
size_t han_and_hangul(const Text& text, size_t at);
size_t wide_punctuation(const Text& text, size_t at);
size_t youtu_scripts(const Text& text, size_t at);
size_t deepseek_letters(const Text& text, size_t at);
size_t deepseek_punctuation(const Text& text, size_t at);
size_t trailing_blanks(const Text& text, size_t at);
size_t bloom(const Text& text, size_t at);

}  // namespace pyrite
