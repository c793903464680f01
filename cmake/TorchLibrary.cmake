# libtorch as one target, Gradwire::torch, from the folder that Torch_DIR lies in. The installed package includes this too.
#
# torch's own find_package is not used: where torch was built with CUDA, as PyPI's is, it demands a CUDA toolkit on the
# machine and a CUDA compiler, and Gradwire needs neither.
if(TARGET Gradwire::torch)
  return()
endif()
get_filename_component(torch_folder "${Torch_DIR}/../../.." ABSOLUTE)
foreach(needed include/ATen/ATen.h lib/libtorch.so lib/libtorch_cpu.so lib/libc10.so)
  if(NOT EXISTS ${torch_folder}/${needed})
    message(FATAL_ERROR "There is no ${needed} in ${torch_folder}: Torch_DIR (${Torch_DIR}) has to be the folder of TorchConfig.cmake in an installed torch")
  endif()
endforeach()

add_library(Gradwire::torch INTERFACE IMPORTED GLOBAL)
target_include_directories(Gradwire::torch SYSTEM INTERFACE
  ${torch_folder}/include ${torch_folder}/include/torch/csrc/api/include)
# What torch's libraries were built with, and some of its headers ask for.
target_compile_definitions(Gradwire::torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO USE_RPC USE_TENSORPIPE)
if(CMAKE_CROSSCOMPILING)
  # libtorch.so asks for the libraries of all devices, which the wheel of another machine's torch comes without.
  target_link_libraries(Gradwire::torch INTERFACE ${torch_folder}/lib/libtorch_cpu.so ${torch_folder}/lib/libc10.so
                        -Wl,-rpath-link,${torch_folder}/lib)
  return()
endif()
# The C++ library comes first: some builds of torch (2.11 for CUDA) export an old std::filesystem of their own, which
# would be taken instead, and crash. Then libtorch.so, which says what else has to be loaded for this torch's devices.
target_link_libraries(Gradwire::torch INTERFACE
  stdc++ "-Wl,--push-state,--no-as-needed" ${torch_folder}/lib/libtorch.so "-Wl,--pop-state"
  ${torch_folder}/lib/libtorch_cpu.so ${torch_folder}/lib/libc10.so)
