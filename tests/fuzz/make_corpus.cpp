// Writes the seeds of the decoders to <folder>/<decoder>/<seed>.
#include <filesystem>
#include <fstream>
#include <iostream>

#include <ATen/Functions.h>

#include "gradwire/net/frame.h"
#include "gradwire/net/outbox.h"
#include "gradwire/rpc/error_on_wire.h"
#include "gradwire/rref/reference_section.h"
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

net::Record record_of(const std::string& name) {
  return {.name = name,
          .rank = 1,
          .incarnation = Incarnation{7},
          .host = "host",
          .user = 0,
          .unix_path = "/s",
          .tcp_address = "127.0.0.1:1"};
}

void write_hellos(const std::filesystem::path& folder) {
  net::Hello hello;
  hello.mine = record_of("worker1");
  hello.yours = Incarnation{8};
  const auto payload = [](const net::Hello& of) { return net::encode_hello(of).substr(net::frame_header_size); };
  write(folder / "first", payload(hello));
  hello.features = 1;
  hello.attempt = 3;
  hello.last_handled = 17;
  hello.unfinished_bulks = {{18, 1, 4096}};
  hello.segments = {1, 2};
  write(folder / "resumed", payload(hello));
}

// A link's bytes after Hello: a message with tensors, its chunks, segments and control frames.
void write_frames(const std::filesystem::path& folder) {
  const auto bytes_of = [](net::Message message) {
    net::Outbox outbox(1U << 20U);
    net::Blocks blocks(nullptr, std::make_shared<net::SegmentBudget>(0));
    const auto outgoing = std::make_shared<net::Outgoing>();
    net::encode_message(*outgoing, std::move(message), nullptr, blocks);
    outbox.push(outgoing, net::Admission::always);
    std::string bytes;
    for (net::Batch batch; outbox.gather(batch, 0), !batch.empty(); batch.clear())
      for (const iovec& buffer : batch.buffers())
        bytes.append(static_cast<const char*>(buffer.iov_base), buffer.iov_len);
    return bytes;
  };
  constexpr net::MessageType type{16};
  write(folder / "small",
        bytes_of({.type = type, .head = "head", .payload = {.bytes = "bytes", .tensors = {at::ones({2, 3})}}}));
  write(folder / "sparse",
        bytes_of({.type = type, .payload = {.tensors = {at::eye(3).to_sparse(), at::eye(3).to_sparse_csr(), {}}}}));
  write(folder / "streamed", bytes_of({.type = type, .payload = {.tensors = {at::ones({17000})}}}));
  wire::ByteWriter segments;
  encode(segments.bytes(), net::FrameHeader{.payload_size = 20, .kind = net::FrameKind::segments});
  segments.put(uint32_t{1});
  segments.put(uint64_t{1});
  segments.put(uint64_t{65536});
  write(folder / "segments",
        segments.take() + net::encode_plain(net::FrameKind::ping) + net::encode_plain(net::FrameKind::acknowledgement));
}

void write_references(const std::filesystem::path& folder) {
  const auto record = [](const char* name, uint64_t incarnation) {
    return std::make_shared<net::Record>(
        net::Record{.name = name, .rank = 0, .incarnation = Incarnation{incarnation}, .unix_path = "/path"});
  };
  const auto sender = record("sender", 1);
  const auto receiver = record("receiver", 2);
  const auto third = record("third", 3);
  const auto section = [](const ReferenceSection& given) {
    wire::ByteWriter bytes;
    encode(bytes, given, Incarnation{1}, Incarnation{2});
    return bytes.take();
  };
  const PassedReference creation{Passing::creation, {Incarnation{1}, 4}, 7, {Incarnation{1}, 5}, receiver, sender};
  const PassedReference child{Passing::child, {Incarnation{3}, 4}, 1, {Incarnation{1}, 9}, third, third};
  const PassedReference to_owner{Passing::to_owner, {Incarnation{3}, 4}, 1, {}, receiver, third};
  write(folder / "creation", section({.references = {creation}, .inside = {}}));
  write(folder / "child", section({.references = {child, to_owner}, .inside = {}}));
  write(folder / "inside", section({.references = {}, .inside = {{Incarnation{3}, 4}}}));
}

void write_errors(const std::filesystem::path& folder) {
  const auto thrown = encode_thrown(std::make_exception_ptr(std::runtime_error("no luck")), "worker2", "scale");
  write(folder / "thrown", thrown);
  write(folder / "passed_on", encode_thrown(decode_error(thrown, "worker2"), "worker1", "through"));
  write(folder / "refused", encode_refusal(NotFoundError("no function \"scale\""), "worker2", "scale"));
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
  write_hellos(folder / "hello");
  write_frames(folder / "frames");
  write_errors(folder / "error");
  write_references(folder / "references");
}
