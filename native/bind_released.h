#pragma once
// The interpreter's lock given back while native code runs.
#include <Python.h>
#include <unistd.h>

#include <cxxabi.h>

// As nanobind's gil_scoped_release, but for the end of the process: a daemon thread that wants the
// lock back from an interpreter which has ended is unwound (pthread_exit), and a destructor that is
// unwound ends the process in an abort. Such a thread sleeps here instead, for the moment that is left.
class Released {
 public:
  Released() : state_(PyEval_SaveThread()) {}
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;

#ifdef __GLIBCXX__
  ~Released() {
    try {
      PyEval_RestoreThread(state_);
    } catch (const abi::__forced_unwind&) {
      for (;;) pause();
    }
  }
#else
  ~Released() { PyEval_RestoreThread(state_); }
#endif

 private:
  PyThreadState* state_;
};
