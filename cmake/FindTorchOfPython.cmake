# Where libtorch is: the torch of the active Python if it is recent enough, else that of the project's own
# virtual environment (scripts/setup makes it). -DTorch_DIR=... overrides both.
if(NOT Torch_DIR)
  set(script "import torch; assert tuple(map(int, torch.__version__.split('.')[:2])) >= (2, 11); print(torch.utils.cmake_prefix_path)")
  foreach(python python3 ${CMAKE_CURRENT_SOURCE_DIR}/.venv/bin/python)
    execute_process(COMMAND ${python} -c "${script}" OUTPUT_VARIABLE prefix ERROR_QUIET RESULT_VARIABLE failed
                    OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT failed)
      message(STATUS "Using the torch of ${python}")
      set(Torch_DIR ${prefix}/Torch CACHE PATH "Where TorchConfig.cmake is")
      set(GRADWIRE_PYTHON ${python} CACHE STRING "The Python whose torch is used")
      break()
    endif()
  endforeach()
  if(NOT Torch_DIR)
    message(FATAL_ERROR "No torch >= 2.11 found: run scripts/setup, or activate a Python that has it, or set Torch_DIR")
  endif()
endif()
