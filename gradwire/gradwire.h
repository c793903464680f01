// Everything a program needs.
#pragma once

#include "gradwire/base/error.h"
#include "gradwire/rpc/worker.h"
