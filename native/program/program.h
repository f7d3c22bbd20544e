#pragma once
// A lowered plan: operations as plain structs, built once, and everything they work on: the arena,
// the pages of keys and values, the logits. A step runs inside one call, with no allocation and no
// lock; the order of its phases is fixed, and the chunks of a phase go to whoever is free.

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "program/attention.h"
#include "program/linear.h"
#include "program/row_ops.h"
#include "program/team.h"
#include "program/tickets.h"

namespace pyrite {

using Op = std::variant<EmbedOp, NormOp, RotateOp, GateOp, AddOp, SoftcapOp, SelectOp, PrepareOp,
                        LinearOp, StoreOp, AttendOp>;

struct Sizes {
  int num_threads;
  int max_tokens;
  int arena_columns;
  int result_width;  // columns of the logits
  int num_pages;
  size_t page_bytes;
};

class Program {
 public:
  Program(const KernelTable& kernels, const Sizes& sizes);

  // Building, before the first run. What is returned stays where it is.
  const PackedMatrix* add_matrix(const PackedMatrix& matrix);
  const float* add_vector(std::vector<float> vector);
  RopeTable* add_rope(std::vector<double> frequencies, double factor, bool pairs);
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
  // (outputs of the last step,) 0 where a row of logits holds NaN or infinity.
  const std::vector<uint8_t>& finite() const { return finite_; }

  // Nanoseconds of each phase, summed over the steps since profiling was switched on.
  void profile(bool on);
  const std::vector<int64_t>& phase_nanoseconds() const { return nanoseconds_; }
  const std::vector<std::string>& labels() const { return labels_; }

 private:
  void allocate_members();
  void work(int member, uint32_t epoch);

  const KernelTable& kernels_;
  const Sizes sizes_;
  std::deque<PackedMatrix> matrices_;
  std::deque<std::vector<float>> vectors_;
  std::deque<RopeTable> ropes_;
  std::vector<Op> ops_;
  std::vector<std::string> labels_;
  std::unique_ptr<Tickets[]> tickets_;  // one a phase
  std::vector<Member> members_;
  size_t arena_stride_;
  Region arena_, logits_, pages_, activations_;
  std::vector<uint8_t> finite_;
  std::vector<int64_t> nanoseconds_;
  bool profiling_ = false;
  int spins_ = 0;
  Step step_;
  std::unique_ptr<Team> team_;  // last: its threads use everything above
};

}  // namespace pyrite
