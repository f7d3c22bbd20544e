#pragma once
// A mixture of experts. `RouteOp` chooses the experts of each row and prepares it; `GroupOp` puts rows
// together by their experts; `InnerOp` multiplies the rows of each expert by its gate and up matrices;
// `PrepareInnerOp` prepares what that gave; `OuterOp` multiplies it by the down matrices; where it does
// not sum by the way, `SumOp` does. Only the matrices of experts that some row goes to are read, each
// once a step. A row's sum goes over its experts in ascending order, whatever its company.
//
// How many chunks a phase has must be known before anybody has been routed: they share out whatever
// work there turns out to be.

#include "program/matrix_stack.h"
#include "program/mixture.h"
#include "program/routing.h"
#include "program/step.h"

namespace pyrite {

// One product of every expert: a matrix and perhaps a bias (experts, rows of a matrix).
struct ExpertProduct {
  MatrixStack weight;
  const float* bias = nullptr;

  const float* bias_of(int expert, int first_lane) const {
    return bias == nullptr ? nullptr : bias + size_t(expert) * weight.first.rows + first_lane;
  }
};

struct ExpertsOp {
  Rows rows;
  Slice in, scores, out;
  Routing routing;
  ExpertProduct gate, up, down;  // the gate may be absent
  Activation activation = Activation::kNone;
  int planes = 2;
  uint32_t forms = 0, inner_forms = 0;
  size_t row_bytes = 0, inner_row_bytes = 0;  // prepared

  int width() const { return up.weight.first.columns; }
  int feed_forward() const { return up.weight.first.rows; }
};

struct RouteOp {
  ExpertsOp experts;
};

struct GroupOp {
  ExpertsOp experts;
};

struct InnerOp {
  ExpertsOp experts;
};

struct PrepareInnerOp {
  ExpertsOp experts;
};

struct OuterOp {
  ExpertsOp experts;
};

struct SumOp {
  ExpertsOp experts;
};

// What the mixture has to hold.
MixtureSizes mixture_sizes(const ExpertsOp& op, int max_tokens);

int count_chunks(const RouteOp& op, const Step& step);
int count_chunks(const GroupOp& op, const Step& step);
int count_chunks(const InnerOp& op, const Step& step);
int count_chunks(const PrepareInnerOp& op, const Step& step);
int count_chunks(const OuterOp& op, const Step& step);
int count_chunks(const SumOp& op, const Step& step);
void run_chunk(const RouteOp& op, const Step& step, Member& member, int chunk);
void run_chunk(const GroupOp& op, const Step& step, Member& member, int chunk);
void run_chunk(const InnerOp& op, const Step& step, Member& member, int chunk);
void run_chunk(const PrepareInnerOp& op, const Step& step, Member& member, int chunk);
void run_chunk(const OuterOp& op, const Step& step, Member& member, int chunk);
void run_chunk(const SumOp& op, const Step& step, Member& member, int chunk);

}  // namespace pyrite
