# Where libtorch is: the torch of the active Python if it is recent enough, else that of the project's own virtual
# environment (scripts/find_torch). -DGRADWIRE_TORCH=2.15.0 takes the one that scripts/setup put into .venv-2.15.0, and
# -DTorch_DIR=... any. Looked for anew each time: another Python may be active than when this folder was first configured.
set(GRADWIRE_TORCH "" CACHE STRING "Version of torch to build with; empty: that of the active Python, else of .venv")
if(NOT Torch_DIR OR Torch_DIR STREQUAL GRADWIRE_TORCH_FOUND)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env GRADWIRE_TORCH=${GRADWIRE_TORCH} ${PROJECT_SOURCE_DIR}/scripts/find_torch
                  OUTPUT_VARIABLE found RESULT_VARIABLE failed
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(failed)
    if(GRADWIRE_TORCH)
      message(FATAL_ERROR "No torch ${GRADWIRE_TORCH} in .venv-${GRADWIRE_TORCH}: run GRADWIRE_TORCH=${GRADWIRE_TORCH} scripts/setup")
    endif()
    message(FATAL_ERROR "No torch >= 2.11 found: run scripts/setup, or activate a Python that has it, or set Torch_DIR")
  endif()
  string(REPLACE "\n" ";" found "${found}")
  list(GET found 0 python)
  list(GET found 1 folder)
  message(STATUS "Using the torch of ${python}")
  set(Torch_DIR ${folder}/share/cmake/Torch CACHE PATH "Where TorchConfig.cmake is" FORCE)
  set(GRADWIRE_TORCH_FOUND ${Torch_DIR} CACHE INTERNAL "")
  set(GRADWIRE_PYTHON ${python} CACHE STRING "The Python whose torch is used" FORCE)
endif()
