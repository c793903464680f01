#include "gradwire/base/torch_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <caffe2/serialize/inline_container.h>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include "gradwire/base/error.h"

namespace gradwire {
namespace {

// Waits until the file's or folder's contents are on the disk.
bool write_through(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool done = ::fsync(descriptor) == 0;
  ::close(descriptor);
  return done;
}

}  // namespace

void write_torch_file(const std::string& path, const c10::IValue& value) {
  // Not torch::jit::pickle_save, which marks containers with their types: Python's torch.load refuses those marks.
  std::string structure;
  torch::jit::Pickler pickler([&](const char* data, size_t size) { structure.append(data, size); }, nullptr, nullptr,
                              nullptr, nullptr, /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(value);
  pickler.stop();
  // A reader of the path, now or after a crash, finds the earlier file or the whole new one.
  const std::string fresh = fmt::format("{}.{}", path, getpid());
  std::ofstream file(fresh, std::ios::binary);
  {
    caffe2::serialize::PyTorchStreamWriter writer([&](const void* data, size_t size) {
      file.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
      return size;
    });
    writer.writeRecord("data.pkl", structure.data(), structure.size());
    for (size_t i = 0; i < pickler.tensorData().size(); ++i) {
      const c10::Storage& storage = pickler.tensorData()[i].storage();
      writer.writeRecord(fmt::format("data/{}", i), storage.data(), storage.nbytes());
    }
    writer.writeEndOfFile();
  }
  file.close();
  std::error_code failed;
  // The bytes before the name: after a crash of the machine the name must not stand for half a file.
  const bool written = file && write_through(fresh);
  if (written) std::filesystem::rename(fresh, path, failed);
  if (!written || failed) {
    std::filesystem::remove(fresh, failed);
    throw InvalidArgumentError("cannot write " + path);
  }
  // The new name itself. Some file systems cannot do that for a folder: then the file from before may come back.
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  write_through(folder.empty() ? "." : folder);
}

c10::IValue read_torch_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InvalidArgumentError("cannot read " + path);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  try {
    return torch::jit::pickle_load(bytes);
  } catch (const c10::Error& error) {
    throw InvalidArgumentError(fmt::format(
        "{} is no file of plain values as torch.save writes them (a state_dict: torch.save(dict(state_dict), "
        "path)): {}",
        path, error.what_without_backtrace()));
  }
}

}  // namespace gradwire
