#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <new>

#include "bind_released.h"
#include "sampling/sampler.h"

namespace nb = nanobind;
using namespace nb::literals;

using Floats1 = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Floats2 = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Logits = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Ids = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Words = nb::ndarray<const uint32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Ints1 = nb::ndarray<int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Ints2 = nb::ndarray<int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

namespace {

using pyrite::SamplerState;

void check_token(int64_t token, int size) {
  if (token < 0 || token >= size) throw nb::index_error("token id outside the vocabulary");
}

std::vector<int32_t> checked(const Ids& ids, int size) {
  std::vector<int32_t> copy(ids.data(), ids.data() + ids.shape(0));
  for (int32_t token : copy) check_token(token, size);
  return copy;
}

std::vector<pyrite::Bias> paired(const Ids& ids, const Floats1& values, int size) {
  if (ids.shape(0) != values.shape(0)) throw nb::value_error("bias ids and values differ in size");
  std::vector<pyrite::Bias> bias;
  for (size_t i = 0; i < ids.shape(0); ++i) {
    check_token(ids.data()[i], size);
    bias.push_back({ids.data()[i], values.data()[i]});
  }
  return bias;
}

void make_state(SamplerState* self, const pyrite::Settings& settings, int size, const Ids& prompt,
                const Ids& bias_ids, const Floats1& bias_values, const Ids& end_ids,
                const Ids& breakers) {
  if (size < 1) throw nb::value_error("a vocabulary has at least one token");
  new (self) SamplerState(settings, size, checked(prompt, size),
                          paired(bias_ids, bias_values, size),
                          checked(end_ids, size), checked(breakers, size));
}

void accept(SamplerState& state, int64_t token) {
  check_token(token, state.size());
  state.accept(int32_t(token));
}

// What a batch writes for each state.
struct Results {
  Ints1 tokens, statuses;
  Floats1 logprobs;
  Ints2 top_tokens;
  Floats2 top_logprobs;
};

void check_batch(const std::vector<const SamplerState*>& states, const Logits& logits,
                 const Ids& rows, const Results& results) {
  const size_t count = states.size();
  const size_t width = results.top_tokens.shape(1);
  if (rows.shape(0) != count || results.tokens.shape(0) != count ||
      results.statuses.shape(0) != count || results.logprobs.shape(0) != count ||
      results.top_tokens.shape(0) != count || results.top_logprobs.shape(0) != count ||
      results.top_logprobs.shape(1) != width) {
    throw nb::value_error("rows and results must have one entry a state");
  }
  for (size_t i = 0; i < count; ++i) {
    if (states[i] == nullptr) throw nb::value_error("a state is missing");
    if (rows.data()[i] < 0 || size_t(rows.data()[i]) >= logits.shape(0)) {
      throw nb::index_error("row outside the logits");
    }
    if (size_t(states[i]->size()) > logits.shape(1)) {
      throw nb::value_error("a row of logits is narrower than the vocabulary");
    }
    if (states[i]->settings().logprobs > int64_t(width)) {
      throw nb::value_error("results are too narrow for the log-probabilities asked for");
    }
  }
}

// A row of masks for each state; -1 where every token is allowed.
struct Masks {
  Words words;
  Ids rows;

  const uint32_t* of(size_t i) const {
    const int32_t row = rows.data()[i];
    return row < 0 ? nullptr : words.data() + size_t(row) * words.shape(1);
  }
};

void check_masks(const std::vector<const SamplerState*>& states, const Masks& masks) {
  if (masks.rows.shape(0) != states.size()) {
    throw nb::value_error("mask rows must have one entry a state");
  }
  for (size_t i = 0; i < states.size(); ++i) {
    const int32_t row = masks.rows.data()[i];
    if (row < -1 || row >= int64_t(masks.words.shape(0))) {
      throw nb::index_error("row outside the masks");
    }
    if (row >= 0 && size_t(pyrite::mask_words(states[i]->size())) > masks.words.shape(1)) {
      throw nb::value_error("a mask is narrower than the vocabulary");
    }
  }
}

void sample_one(const SamplerState& state, const float* row, const uint32_t* mask,
                pyrite::Scratch& scratch, size_t i, const Results& results) {
  const pyrite::Drawn drawn = pyrite::sample(state, row, mask, scratch);
  results.tokens.data()[i] = drawn.token;
  results.statuses.data()[i] = int32_t(drawn.status);
  const int count = state.settings().logprobs;
  if (count < 0 || drawn.status != pyrite::Status::kDrawn) return;
  const size_t at = i * results.top_tokens.shape(1);
  results.logprobs.data()[i] = pyrite::log_probabilities(
      row, state.size(), drawn.token, count, scratch, results.top_tokens.data() + at,
      results.top_logprobs.data() + at);
}

void sample_batch(pyrite::Scratch& scratch, const std::vector<const SamplerState*>& states,
                  const Logits& logits, const Ids& rows, const Words& words, const Ids& mask_rows,
                  const Ints1& tokens, const Ints1& statuses, const Floats1& logprobs,
                  const Ints2& top_tokens, const Floats2& top_logprobs) {
  const Masks masks = {words, mask_rows};
  const Results results = {tokens, statuses, logprobs, top_tokens, top_logprobs};
  check_batch(states, logits, rows, results);
  check_masks(states, masks);
  Released release;
  for (size_t i = 0; i < states.size(); ++i) {
    const float* row = logits.data() + size_t(rows.data()[i]) * logits.shape(1);
    sample_one(*states[i], row, masks.of(i), scratch, i, results);
  }
}

// Row i of the logits is scored at token i. Gives the first row that is not finite, or -1.
int score_rows(pyrite::Scratch& scratch, const Logits& logits, int size, const Ids& tokens,
               const Floats1& logprobs, const Ints2& top_tokens, const Floats2& top_logprobs) {
  const size_t count = tokens.shape(0), width = top_tokens.shape(1);
  if (logits.shape(0) < count || logprobs.shape(0) != count || top_tokens.shape(0) != count ||
      top_logprobs.shape(0) != count || top_logprobs.shape(1) != width) {
    throw nb::value_error("logits and results must have one row a token");
  }
  if (size < 1 || size_t(size) > logits.shape(1)) {
    throw nb::value_error("a row of logits is narrower than the vocabulary");
  }
  for (size_t i = 0; i < count; ++i) check_token(tokens.data()[i], size);
  Released release;
  for (size_t i = 0; i < count; ++i) {
    const float* row = logits.data() + i * logits.shape(1);
    scratch.scan.read(row, size);
    if (!scratch.scan.finite) return int(i);
    logprobs.data()[i] = pyrite::log_probabilities(
        row, size, tokens.data()[i], int(width), scratch, top_tokens.data() + i * width,
        top_logprobs.data() + i * width);
  }
  return -1;
}

std::pair<double, double> random_at(uint64_t seed, uint32_t choice, uint64_t step) {
  const pyrite::Random random = pyrite::random_at(seed, choice, step);
  return {random.draw, random.coin};
}

void bind_settings(nb::module_& module) {
  using pyrite::Settings;
  nb::class_<Settings>(module, "Settings")
      .def(nb::init<>())
      .def_rw("temperature", &Settings::temperature)
      .def_rw("top_k", &Settings::top_k)
      .def_rw("top_p", &Settings::top_p)
      .def_rw("min_p", &Settings::min_p)
      .def_rw("typical_p", &Settings::typical_p)
      .def_rw("repetition_penalty", &Settings::repetition_penalty)
      .def_rw("presence_penalty", &Settings::presence_penalty)
      .def_rw("frequency_penalty", &Settings::frequency_penalty)
      .def_rw("dry_multiplier", &Settings::dry_multiplier)
      .def_rw("dry_base", &Settings::dry_base)
      .def_rw("dry_allowed_length", &Settings::dry_allowed_length)
      .def_rw("dry_range", &Settings::dry_range)
      .def_rw("xtc_probability", &Settings::xtc_probability)
      .def_rw("xtc_threshold", &Settings::xtc_threshold)
      .def_rw("seed", &Settings::seed)
      .def_rw("choice", &Settings::choice)
      .def_rw("min_tokens", &Settings::min_tokens)
      .def_rw("logprobs", &Settings::logprobs);
}

}  // namespace

void bind_sampling(nb::module_ module) {
  bind_settings(module);
  nb::class_<SamplerState>(module, "State")
      .def("__init__", &make_state, "settings"_a, "size"_a, "prompt"_a, "bias_ids"_a,
           "bias_values"_a, "end_ids"_a, "breakers"_a)
      .def("accept", &accept, "token"_a)
      .def_prop_ro("step", &SamplerState::step);
  nb::class_<pyrite::Scratch>(module, "Scratch").def(nb::init<>());
  // Never converted: a converted result would be a copy that nobody reads.
  module.def("sample_batch", &sample_batch, "scratch"_a, "states"_a, "logits"_a.noconvert(),
             "rows"_a.noconvert(), "masks"_a.noconvert(), "mask_rows"_a.noconvert(),
             "tokens"_a.noconvert(), "statuses"_a.noconvert(), "logprobs"_a.noconvert(),
             "top_tokens"_a.noconvert(), "top_logprobs"_a.noconvert());
  module.def("score_rows", &score_rows, "scratch"_a, "logits"_a.noconvert(), "size"_a,
             "tokens"_a.noconvert(), "logprobs"_a.noconvert(), "top_tokens"_a.noconvert(),
             "top_logprobs"_a.noconvert());
  module.def("random_at", &random_at, "seed"_a, "choice"_a, "step"_a);
}
