// Writes the seeds of the wire decoders to <folder>/<decoder>/<seed>.
#include <filesystem>
#include <fstream>
#include <iostream>

#include <ATen/Functions.h>

#include "gradwire/wire/tensor.h"

#include "tests/fuzz/seeds.h"

namespace {

using namespace gradwire;

void write(const std::filesystem::path& file, const std::string& bytes) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << bytes;
}

void write_tensor(const std::filesystem::path& file, const at::Tensor& tensor) {
  wire::FlatTensor flat = wire::flatten(tensor);
  wire::ByteWriter writer;
  wire::encode(writer, flat.description);
  for (size_t i = 0; i < flat.parts.size(); ++i) {
    std::string part(flat.description.parts[i].byte_count, '\0');
    wire::copy_part(flat.parts[i], part.data());
    writer.put_bytes(part);
  }
  write(file, writer.take());
}

void write_tensors(const std::filesystem::path& folder) {
  write_tensor(folder / "undefined", {});
  write_tensor(folder / "scalar", at::scalar_tensor(2.5));
  write_tensor(folder / "matrix", at::ones({2, 3}).requires_grad_());
  write_tensor(folder / "bools", at::ones({3}, at::kBool));
  write_tensor(folder / "empty", at::empty({0, 4}, at::kLong));
  write_tensor(folder / "sparse", at::eye(3).to_sparse());
  write_tensor(folder / "sparse_hybrid", at::ones({2, 1, 2}).to_sparse(1));
  write_tensor(folder / "sparse_csr", at::eye(3).to_sparse_csr());
  write_tensor(folder / "sparse_csr_batches", at::ones({2, 1, 2}).to_sparse_csr());
}

void write_payloads(const std::filesystem::path& folder) {
  fuzz::Sample sample{at::Tensor(), "label", {{1, 2.0}}};
  fuzz::Everything value{true,
                         fuzz::Colour::green,
                         1.5F,
                         {1, 2},
                         {true, false},
                         {1, 2},
                         {{"a", {1, 2}}, {"b", {}}},
                         {{1, "one"}},
                         sample,
                         {at::Tensor(), at::Tensor()},
                         std::vector<std::monostate>(2),
                         {"x", "y"},
                         sample};
  write(folder / "full", fuzz::seed_of(wire::encode(value)));
  write(folder / "default", fuzz::seed_of(wire::encode(fuzz::Everything())));
}

void write_ivalues(const std::filesystem::path& folder) {
  auto write_value = [&](const char* name, const c10::IValue& value) {
    write(folder / name, fuzz::seed_of(wire::encode(value)));
  };
  c10::Dict<std::string, c10::List<int64_t>> dict;
  dict.insert("numbers", c10::List<int64_t>({1, 2, 3}));
  c10::impl::GenericList mixed(c10::AnyType::get());
  mixed.push_back(dict);
  mixed.push_back(c10::List<std::optional<double>>({std::nullopt, 2.5}));
  mixed.push_back(c10::List<std::tuple<int64_t, bool>>({std::tuple<int64_t, bool>(1, true)}));
  write_value("none", {});
  write_value("number", 3);
  write_value("text", "text");
  write_value("tensors", c10::List<at::Tensor>({at::Tensor(), at::Tensor()}));
  write_value("dict", dict);
  write_value("nested", c10::ivalue::Tuple::create({mixed, c10::Device("cpu"), c10::complex<double>(1, 2), true}));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: make_corpus <folder>\n";
    return 2;
  }
  std::filesystem::path folder = argv[1];
  write_tensors(folder / "tensor_description");
  write_payloads(folder / "payload");
  write_ivalues(folder / "ivalue");
}
