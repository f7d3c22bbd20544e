#pragma once
// The executor of a lowered plan as Python sees it: a program, and the arrays whose memory it reads.
// Every index, width and batch is checked here; the native side trusts what passed. Weights come
// first, then operations in the order of the plan, then steps.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <atomic>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "program/program.h"

namespace pyrite {

namespace nb = nanobind;

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Doubles = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Indices = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Tables = nb::ndarray<const int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using States = nb::ndarray<nb::numpy, float, nb::ndim<2>, nb::c_contig>;
using Logits = nb::ndarray<nb::numpy, float, nb::ndim<2>, nb::c_contig>;
using Pages = nb::ndarray<nb::numpy, uint8_t, nb::ndim<2>, nb::c_contig>;

using Columns = std::pair<int, int>;                  // first column (-1: of the logits), width
// kind, weight and bias (vectors; -1 where there is none), eps
using NormOf = std::optional<std::tuple<NormKind, int, int, float>>;

inline void require(bool holds, const char* what) {
  if (!holds) throw nb::value_error(what);
}

using WeightOf = std::pair<int, int>;                 // matrix, bias (-1: none)

// Of each adapter its two matrices, or none.
using PairsOf = std::vector<std::optional<std::pair<int, int>>>;

// A Routing whose bias and scales are vectors' indices.
struct RoutingOf {
  Routing routing;
  std::optional<int> bias, expert_scale;
};

// Of attention's heads. `values_in_keys`: they are the first columns of the keys.
inline HeadShape shape_of(int key_width, int value_width, bool values_in_keys) {
  constexpr int kMost = 1 << 16;
  for (int width : {key_width, value_width}) {
    require(width > 0 && width <= kMost, "a head's width is out of range");
  }
  require(!values_in_keys || value_width <= key_width, "values are wider than their keys");
  return {key_width, value_width, values_in_keys};
}

inline void require_one_sided(Activation activation) {
  require(activation != Activation::kNone && activation != Activation::kClampedSwiglu,
          "an activation of one operand is needed");
}

class Executor {
 public:
  Executor(const std::string& isa, const Sizes& sizes, Team::Places places);

  // Each returns its index.
  int add_matrix(const std::string& type, int count, int rows, int columns, Bytes data);
  int add_vector(Vector data);
  int add_rope(Doubles frequencies, double factor, bool pairs, double growth, int growth_span);

  void add_embed(const std::string& label, int table, float scale, Columns out);
  void add_embed_positions(const std::string& label, int table, Columns out);
  void add_norm(const std::string& label, Rows rows, Columns in, Columns out, NormOf norm,
                int group, bool is_wide, std::optional<Columns> residual);
  void add_rotate(const std::string& label, Rows rows, Columns in, Columns out, int head_width, int start,
                  int rope);
  void add_concat(const std::string& label, Rows rows, Columns left, Columns right, Columns out);
  void add_pick(const std::string& label, Rows rows, Columns in, Columns out, int order);
  void add_head_dot(const std::string& label, Rows rows, Columns left, Columns right, Columns value,
                    Columns out, int weight, int head_width);
  void add_select(const std::string& label, Columns in, Columns out);
  void add_gate(const std::string& label, Rows rows, Columns gate, Columns up, Columns out,
                Activation activation);
  void add_add(const std::string& label, Rows rows, Columns left, Columns right, Columns out);
  void add_activate(const std::string& label, Rows rows, Columns in, Columns out,
                    Activation activation);
  void add_scale(const std::string& label, Rows rows, Columns in, Columns out, float factor);
  void add_affine(const std::string& label, Rows rows, Columns in, Columns out, int weight,
                  int bias);
  void add_scale_rows(const std::string& label, Rows rows, Columns in, Columns factor, Columns out,
                      Activation activation);
  void add_lerp(const std::string& label, Rows rows, Columns left, Columns right, Columns out,
                int weight);
  void add_blend(const std::string& label, Rows rows, Columns left, Columns right, Columns share,
                 Columns out);
  void add_softcap(const std::string& label, Rows rows, Columns in, Columns out, float cap);
  void add_linear(const std::string& label, Rows rows, Columns in, Columns out,
                  const std::vector<std::pair<int, int>>& weights, NormOf norm,
                  Activation activation, std::optional<Columns> residual, float softcap,
                  int planes);
  void add_adapt(const std::string& label, Rows rows, Columns in, Columns base, Columns out,
                 const PairsOf& adapters);
  void add_adapt_embed(const std::string& label, Columns base, Columns out, float scale,
                       const PairsOf& adapters);
  void add_head_linear(const std::string& label, Rows rows, Columns in, Columns out, int weight,
                       int heads, int carried, int planes);
  void add_experts(const std::string& label, Rows rows, Columns in, Columns scores, Columns out,
                   const RoutingOf& routing, std::optional<WeightOf> gate, WeightOf up,
                   WeightOf down, Activation activation, int planes, const PairsOf& gate_adapters,
                   const PairsOf& up_adapters, const PairsOf& down_adapters);
  // Add up squares of what goes into a product, and into those of the mixture just before; return
  // indices of the sums.
  int add_squares(const std::string& label, Rows rows, Columns in, NormOf norm, int heads,
                  int carried);
  std::pair<int, int> add_expert_squares(const std::string& label, Rows rows, Columns in,
                                         int num_experts, int feed_forward);
  void add_attention(const std::string& label, Rows rows, Columns query, std::optional<Columns> key,
                     std::optional<Columns> value, Columns out, int key_heads, int key_width,
                     int value_width, size_t layer_offset, float scale, int window, float softcap,
                     std::optional<int> sinks, NormOf query_norm, NormOf key_norm,
                     std::optional<int> rope, KvType kv_type);

  // `state`: where the operation's state begins in a slot.
  void add_shift(const std::string& label, Columns in, Columns out, size_t state);
  void add_conv(const std::string& label, Columns in, Columns out, int taps, int bias, int num_taps,
                Activation activation, size_t state);
  void add_scan(const std::string& label, Columns x, Columns step, Columns b, Columns c, Columns out,
                int a, int d, int step_bias, int head_width, int state_width, int groups,
                bool is_by_state, float step_low, float step_high, size_t state);
  void add_wkv4(const std::string& label, Columns key, Columns value, Columns out, int decay,
                int first, size_t state);
  void add_wkv7(const std::string& label, Columns receptance, Columns decay, Columns key,
                Columns value, Columns removal, Columns rate, Columns out, int head_width,
                size_t state);
  void add_delta(const std::string& label, Columns query, Columns key, Columns value, Columns step,
                 Columns rate, Columns out, int a, int step_bias, int key_heads, bool is_tiled,
                 size_t state);

  void run(Indices token_ids, Indices positions, Indices sequence_starts, Tables page_tables,
           Indices output_rows, Indices state_slots, Indices adapters);
  Logits logits();
  Pages pages();
  States states();
  void copy_page(int source, int target);
  std::vector<int> broken_outputs() const;

  void profile(bool on) { program_.profile(on); }
  std::vector<std::tuple<std::string, int64_t, std::vector<int64_t>>> phases() const;
  // Sums of squares of the columns of each matrix, and how many rows went into it.
  std::pair<std::vector<double>, std::vector<int64_t>> squares(int index) const;
  const char* isa() const { return program_.kernels().isa; }

 private:
  static constexpr int kWholeContext = 1 << 30;

  // Held while the program runs; given back however the run ends.
  struct Busy {
    explicit Busy(std::atomic<bool>& flag) : flag(flag) {
      if (flag.exchange(true)) throw std::runtime_error("another thread is running this program");
    }
    ~Busy() { flag = false; }
    Busy(const Busy&) = delete;
    std::atomic<bool>& flag;
  };

  size_t rows() const { return size_t(program_.sizes().max_tokens); }

  const PackedMatrix* matrix_of(int index) const;
  const PackedMatrix* table_of(int table, Columns out) const;
  MatrixStack stack_of(int index, int count) const;
  ExpertProduct product_of(WeightOf weight, int experts, int rows, int columns) const;
  Routing routing_of(const RoutingOf& routing, int experts) const;
  void adapt(ExpertsOp& op, ExpertProduct& product, const PairsOf& adapters);
  uint32_t forms_of(const ExpertProduct& product, int planes) const;
  const float* vector_of(int index, int width) const;
  const float* optional_vector_of(int index, int width) const;
  const RopeTable* rope_of(int index, int head_width) const;
  Norm norm_of(NormOf norm, int width) const;
  Slice slice(Columns columns) const;
  size_t state_of(size_t offset, size_t floats) const;
  void add_element(const std::string& label, Rows rows, Columns out, Formula formula);
  int keep_squares(Squares* squares);
  AdaptOp adapt_of(Rows rows, Columns base, Columns out, const PairsOf& adapters);
  Segment segment_of(std::pair<int, int> weight, int columns, int first_output) const;
  // Returns the number of outputs.
  int segments_of(const std::vector<std::pair<int, int>>& weights, Activation activation,
                  int columns, std::vector<Segment>& segments) const;
  void choose_forms(LinearOp& op) const;

  void check(const Batch& batch) const;
  void check_sequence(const Batch& batch, int sequence) const;
  void check_slots(const Batch& batch, size_t num_slots);
  void check_adapters(const Batch& batch, size_t count) const;

  Program program_;
  std::vector<const PackedMatrix*> matrices_;  // the first of a stack
  std::vector<int> stack_sizes_;               // 1: a matrix
  std::vector<std::span<const float>> vectors_;
  std::vector<RopeTable*> ropes_;
  std::vector<const Squares*> squares_;
  std::pair<int, int> last_experts_ = {0, 0};  // number and width of the last mixture's
  std::vector<nb::object> kept_;
  int num_embeddings_ = std::numeric_limits<int>::max();
  int num_positions_ = std::numeric_limits<int>::max();
  int num_adapters_ = 0;
  int window_ = 1;  // positions that some layer sees
  std::vector<int64_t> slot_runs_;  // of each slot, the last run that used it
  int64_t num_runs_ = 0;
  std::atomic<bool> busy_{false};
};

}  // namespace pyrite
