#pragma once
// A lowered plan: operations as plain structs, built once, and everything they work on: the arena,
// the pages of keys and values, the logits. A step runs inside one call, with no allocation and no
// lock; each operation is a phase of it, see team.h.

#include <deque>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "program/attention.h"
#include "program/elements.h"
#include "program/adapt.h"
#include "program/experts.h"
#include "program/head_linear.h"
#include "program/linear.h"
#include "program/recurrence.h"
#include "program/row_ops.h"
#include "program/squares.h"
#include "program/team.h"

namespace pyrite {

using Op = std::variant<EmbedOp, NormOp, RotateOp, ConcatOp, PickOp, HeadDotOp, SelectOp,
                        ElementOp, PrepareOp, LinearOp, AdaptOp, HeadLinearOp, RouteOp, GroupOp,
                        RankOp, InnerOp, PrepareInnerOp, OuterOp, SumOp, StoreOp, AttendOp, JoinOp,
                        ShiftOp, ConvOp, ScanOp, Wkv4Op, Wkv7Op, DeltaOp, SquaresOp,
                        ExpertSquaresOp>;

struct Sizes {
  int num_threads;
  int max_tokens;
  int arena_columns;
  int result_width;  // columns of the logits
  int num_pages;
  size_t page_bytes;
  int num_slots = 0;
  size_t state_floats = 0;  // of a slot
};

// Nanoseconds of one phase: how long it took, and how long each member stood idle in it.
struct PhaseTime {
  std::string label;
  int64_t spent = 0;
  std::vector<int64_t> idle = {};
};

class Program {
 public:
  // `places`: processors that each thread keeps to; none where all may run anywhere.
  Program(const KernelTable& kernels, const Sizes& sizes, Team::Places places = {});

  // Building, before the first run. What is returned stays where it is.
  const PackedMatrix* add_matrix(const PackedMatrix& matrix);
  const float* add_vector(std::vector<float> vector);
  RopeTable* add_rope(std::vector<double> frequencies, double factor, bool pairs,
                      double growth = 0, int growth_span = 1);
  Squares* add_squares(int matrices, int columns);
  void add(Op op, std::string label);
  // Columns [start, start + width) of the arena; of the logits when `start` is -1.
  Slice slice(int start, int width) const;

  // One step. The batch is checked and its arrays outlive the call.
  void run(const Batch& batch);
  void copy_page(int source, int target);

  const KernelTable& kernels() const { return kernels_; }
  const Sizes& sizes() const { return sizes_; }
  float* logits() const { return logits_.floats(); }
  uint8_t* pages() const { return pages_.data(); }
  float* states() const { return states_.floats(); }
  // (outputs of the last step,) 0 where a row of logits holds NaN or infinity.
  const std::vector<uint8_t>& finite() const { return finite_; }

  // Times of the phases, summed over the steps since this switched them on.
  void profile(bool on);
  std::vector<PhaseTime> phase_times() const;

 private:
  void start();
  void allocate_members();
  void work(int member, int phase, int chunk);

  const KernelTable& kernels_;
  const Sizes sizes_;
  const Team::Places places_;
  std::deque<PackedMatrix> matrices_;
  std::deque<std::vector<float>> vectors_;
  std::deque<RopeTable> ropes_;
  std::deque<Squares> squares_;
  std::vector<Op> ops_;
  std::vector<std::string> labels_;
  std::vector<int> chunks_;  // of each phase, in this step
  std::vector<Member> members_;
  size_t arena_stride_;
  Region arena_, logits_, pages_, states_, activations_, partials_;
  Mixture mixture_;
  std::vector<uint8_t> finite_;
  Step step_;
  std::unique_ptr<Team> team_;  // last: its threads use everything above
};

}  // namespace pyrite
