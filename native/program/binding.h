#pragma once
// Where threads run and where their memory lies, on machines with several memory nodes. All of it is a
// hint: a system that refuses changes nothing.

#include <sched.h>

#include <vector>

namespace pyrite {

// The calling thread runs on these processors alone from now on; on none: nothing changes.
void bind_thread(const std::vector<int>& cpus);

// The same for as long as this lives, for a thread that is not ours.
class Bound {
 public:
  explicit Bound(const std::vector<int>& cpus);
  ~Bound();
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;

 private:
  cpu_set_t before_;
  bool bound_ = false;
};

// Pages that this thread, or one that it starts, touches first come from these nodes in turn from now
// on; with no nodes, from where the system likes. Returns whether the system took it.
bool interleave_memory(const std::vector<int>& nodes);

}  // namespace pyrite
