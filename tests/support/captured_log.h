// What is logged while it lives, warnings included, whatever level the environment asks for.
#pragma once

#include <string>

#include <c10/util/Logging.h>
#include <gtest/gtest.h>

namespace gradwire::testing {

class CapturedLog {
 public:
  CapturedLog() {
    FLAGS_caffe2_log_level = 1;  // warnings
    ::testing::internal::CaptureStderr();
  }
  ~CapturedLog() {
    take();
    FLAGS_caffe2_log_level = before_;
  }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;
  // Once: it captures nothing afterwards.
  std::string take() {
    if (taken_) return "";
    taken_ = true;
    return ::testing::internal::GetCapturedStderr();
  }

 private:
  const int before_ = FLAGS_caffe2_log_level;
  bool taken_ = false;
};

}  // namespace gradwire::testing
