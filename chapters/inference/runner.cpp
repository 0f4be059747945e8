// Runs a package without Python: runner PACKAGE INPUTS OUTPUTS CALLS
// INPUTS and OUTPUTS are tensors in a list or tuple, as torch.save writes them.
// It says as JSON the milliseconds to load, of the first call, of one of CALLS more.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <ATen/Parallel.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/csrc/jit/serialization/pickle.h>

int main(int argc, char** argv) {
  if (argc != 5) return std::puts("runner PACKAGE INPUTS OUTPUTS CALLS"), 2;
  using clock = std::chrono::steady_clock;
  auto ms = [](auto from, auto to) {
    return std::chrono::duration<double, std::milli>(to - from).count();
  };
  at::set_num_threads(1);
  std::ifstream file(argv[2], std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<at::Tensor> inputs;
  for (c10::IValue each : torch::jit::pickle_load(bytes).toList())
    inputs.push_back(each.toTensor());

  auto start = clock::now();
  torch::inductor::AOTIModelPackageLoader model(argv[1]);
  auto loaded = clock::now();
  auto outputs = model.run(inputs);
  auto first = clock::now();
  int calls = std::atoi(argv[4]);
  for (int i = 0; i < calls; i++) model.run(inputs);
  auto last = clock::now();

  std::vector<c10::IValue> all(outputs.begin(), outputs.end());
  auto pickled = torch::jit::pickle_save(c10::ivalue::Tuple::create(std::move(all)));
  std::ofstream(argv[3], std::ios::binary).write(pickled.data(), pickled.size());
  printf("{\"load_ms\": %.3f, \"first_ms\": %.3f, \"call_ms\": %.4f}\n",
         ms(start, loaded), ms(loaded, first), ms(first, last) / calls);
}
