// The main of every test program. Torch computes on one thread: tests run many processes on few cores.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include "gradwire/testing/processes.h"

int main(int argc, char** argv) {
  gradwire::testing::Processes::prepare();
  testing::InitGoogleMock(&argc, argv);
  at::set_num_threads(1);
  return RUN_ALL_TESTS();
}
